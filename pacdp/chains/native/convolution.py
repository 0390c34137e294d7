"""A block of a convolutional network, forward and backward, without autograd: Conv2d, ReLU and MaxPool2d in one.

    y[b, o, r, s] = max over the window (i, j) of ReLU(bias[o] + Σ_{c,u,v} weight[o, c, u, v] · x[b, c, i + u, j + v])

with stride 1 and no padding in the convolution and windows side by side in the pooling, the remainder of a map that
they do not fill left out (PyTorch's floor). ReLU and maximum commute, so that the order of these two layers is free.
The gradient of a maximum goes to its first position, that of a ReLU at 0 is 0, and NaN is passed on, as in PyTorch.

Formal guarantee: outputs and gradients are a function of the arguments alone. They do not depend on the number of
threads nor on earlier calls, and an example's output and input gradient do not depend on the rest of the batch.
Bits may differ between CPUs.
"""

import math
from typing import Any

import numpy as np

from pacdp.chains.native import clipped, threads
from pacdp.chains.native import convolution_backward as back
from pacdp.chains.native import convolution_forward as ahead
from pacdp.chains.native.convolution_forward import Geometry
from pacdp.chains.native.vectors import lanes_of

SLOTS = 8
"""Parts of a batch that threads share out; part of the order of summation, so that it is the same on every machine."""
CHUNK = 4
"""Examples whose columns the backward pass has in the cache together."""

Array = np.ndarray[Any, np.dtype[Any]]
_NONE = np.empty(0)


class ConvLayer:
    """Conv2d -> [ReLU] -> [MaxPool2d] of this geometry, to so many output channels, for float32 or float64 arrays.

    Filters lie as torch's do, [outputs, channels, size, size]. Threads follow ``torch.get_num_threads()``.

    Args:
        first: whether the input needs no gradient.
        each: the backward pass keeps every example's own gradient, which :meth:`collect` adds up.
    """

    def __init__(
        self, geometry: Geometry, outputs: int, *, first: bool, each: bool = False
    ) -> None:
        channels, height, width, size, pool, _ = self.geometry = geometry
        rows, columns = height - size + 1, width - size + 1
        self.first, self.each = first, each
        self.input_shape = (channels, height, width)
        self.output_shape = (outputs, rows // pool, columns // pool)
        c, i, j = np.indices((channels, size, size))
        self._taps = ((c * height + i) * width + j).reshape(-1)
        self._operations = (
            outputs * self._taps.size * rows * columns // 16
        )  # an example's, by vectors
        self._x = self._origin = self._filters = self._biases = _NONE

    def forward(self, x: Array, weight: Array, bias: Array, *, keep: bool = True) -> Array:
        """Pooled activations [B, outputs, H', W'] of ``x`` [B, channels, H, W].

        Args:
            keep: remember what ``backward`` needs (``x`` itself, not a copy: leave it unchanged until then).

        Raises:
            ValueError: an array of another shape or dtype.
        """
        if (
            x.shape[1:] != self.input_shape or x.dtype != weight.dtype
        ):  # compiled code would read past the end
            raise ValueError(
                f"expected x of shape {self.input_shape} and {weight.dtype}, got {x.shape} and {x.dtype}"
            )
        x, examples, flat = np.ascontiguousarray(x), len(x), math.prod(self.output_shape)
        out = np.empty((examples, flat), x.dtype)
        origin = np.empty((examples if keep else 0, flat), f"i{x.itemsize}")
        slots = min(SLOTS, -(-examples // lanes_of(x.dtype)))
        threads.each(
            ahead.forward, slots, slots, x.reshape(examples, -1), self.geometry, self._taps,
            *ahead.tiles(weight.reshape(len(weight), -1), bias), out, origin,
            operations=examples * self._operations,
        )  # fmt: skip
        self._x, self._origin = x, origin
        return out.reshape(examples, *self.output_shape)

    def backward(
        self,
        slope: Array,
        weight: Array,
        weight_gradient: Array,
        bias_gradient: Array,
        squares: Array | None = None,
    ) -> Array:
        """The gradient by the input of the last forward pass, as rows; empty where it is not needed.

        Args:
            slope: gradient by the result of the last ``forward``, [B, outputs] in any shape.
            weight: the filters of that forward pass.
            weight_gradient: [outputs, channels, size, size], overwritten with the filters' gradient.
            bias_gradient: [outputs], overwritten with the bias's gradient.
            squares: float64 [B]; where given, it gains the squared norm of each example's part of these gradients.
        """
        grad_in = self.propagate(slope, weight, _NONE if squares is None else squares)
        back.add_slots(self._filters, self._biases, weight_gradient, bias_gradient)
        return grad_in

    def propagate(self, slope: Array, weight: Array, squares: Array) -> Array:
        """As :meth:`backward`, with the gradients of parts left here: with ``each`` every example's own.

        Rows of ``slope`` behind those of the examples are not read.
        """
        x, examples, outputs = self._x, len(self._x), len(weight)
        chunk = 1 if self.each else CHUNK
        slots = examples if self.each else min(SLOTS, -(-examples // chunk))
        places = back.places(*self.input_shape, self.geometry.size, outputs, lanes_of(x.dtype))
        self._filters = np.empty((slots, outputs, places.row), x.dtype)
        self._biases = np.empty((slots, outputs), x.dtype)
        grad_in = np.empty((0 if self.first else examples, *self.input_shape), x.dtype)
        origin = self._origin.reshape(examples, outputs, -1)
        threads.each(
            back.backward, slots, slots, chunk, x, np.ascontiguousarray(slope[:examples]).reshape(origin.shape), origin,
            self.geometry.size, places, back.rows_of(weight, places.row), self._filters, self._biases, grad_in,
            _NONE if self.each else squares, operations=examples * self._operations,
        )  # fmt: skip
        if self.each:
            clipped.add_filter_squares(self._filters, self._biases, self._taps.size, squares)
        return grad_in.reshape(-1, math.prod(self.input_shape))

    def collect(self, scale: Array, weight_gradient: Array, bias_gradient: Array) -> None:
        """Σ scale[i] times the gradient of example i, after one :meth:`propagate`, into the given arrays."""
        self._filters[:, :, : self._taps.size] *= scale[:, None, None]  # behind them lies nothing
        self._biases *= scale[:, None]
        back.add_slots(self._filters, self._biases, weight_gradient, bias_gradient)
