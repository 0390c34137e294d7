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
from functools import partial
from typing import Any

import numpy as np

from pacdp.chains.native import clipped, convolution_backward, convolution_forward, threads
from pacdp.chains.native.convolution_backward import BackwardScratch
from pacdp.chains.native.convolution_forward import ForwardScratch, Geometry
from pacdp.chains.native.vectors import TILE, VECTOR_BYTES, lanes_of

SLOTS = 8
"""Parts of a batch that threads share out; part of the order of summation, so that it is the same on every machine."""
CHUNK = 4
"""Examples whose columns the backward pass has in the cache together."""

Array = np.ndarray[Any, np.dtype[Any]]
_NONE = np.empty(0)


class ConvLayer:
    """Conv2d -> [ReLU] -> [MaxPool2d] of this geometry, to so many output channels, for float32 or float64 arrays.

    Filters lie as torch's do, [outputs, channels, size, size]. A layer owns its workspace: it serves one caller at a
    time, and the arrays it returns hold until its next call of the same method. Threads follow
    ``torch.get_num_threads()``.
    """

    def __init__(
        self,
        geometry: Geometry,
        outputs: int,
        *,
        first: bool,
        batch: int,
        dtype: Any,
        each: bool = False,
    ) -> None:
        """Allocate the workspace.

        Args:
            first: whether the input needs no gradient.
            batch: the most examples of a forward pass that a backward pass follows.
            each: the backward pass keeps every example's own gradient, which :meth:`collect` adds up.
        """
        channels, height, width, size, pool, _ = self.geometry = geometry
        rows, columns = height - size + 1, width - size + 1
        self.first, self.each, self.dtype = first, each, np.dtype(dtype)
        self._slots, self._chunk = (batch, 1) if each else (SLOTS, CHUNK)
        self.input_shape = (channels, height, width)
        self.output_shape = (outputs, rows // pool, columns // pool)
        places = (batch, outputs, math.prod(self.output_shape[1:]))
        patch = channels * size**2
        self._operations = outputs * patch * rows * columns // 16  # an example's, by vectors
        self._forward = _forward_scratch(geometry, outputs, self.dtype)
        self._backward = self._backward_scratch(patch, places)
        self._out, self._origin = np.empty(places, self.dtype), np.empty(places, np.int32)
        self._grad_in = np.empty((0 if first else batch, *self.input_shape), self.dtype)
        self._x, self._used = np.empty((0, *self.input_shape), self.dtype), 0

    def forward(self, x: Array, weight: Array, bias: Array, *, keep: bool = True) -> Array:
        """Pooled activations [B, outputs, H', W'] of ``x`` [B, channels, H, W].

        Args:
            keep: remember what ``backward`` needs (``x`` itself, not a copy: leave it unchanged until then). Without
                it the batch may have any size, the result is a new array and no backward pass can follow.

        Raises:
            ValueError: an array of another shape or dtype, more examples than ``batch`` with ``keep``.
        """
        examples, scratch, flat = len(x), self._forward, math.prod(self.output_shape)
        fits = x.shape[1:] == self.input_shape and x.dtype == self.dtype
        most = len(self._out) if keep else examples
        if not fits or examples > most:  # compiled code would read and write past the end
            raise ValueError(
                f"expected x of shape {self.input_shape} and {self.dtype}, at most batch={most} examples, got "
                f"{x.shape} and {x.dtype}"
            )
        x = np.ascontiguousarray(x)
        convolution_forward.pack(weight.reshape(len(weight), -1), bias, scratch)
        out = self._out[:examples] if keep else np.empty((examples, *self._out.shape[1:]), x.dtype)
        origin = self._origin[: examples if keep else 0]
        slots = min(SLOTS, -(-examples // scratch.lanes.shape[2]))
        threads.each(
            convolution_forward.forward, slots, slots, x.reshape(examples, -1), self.geometry, scratch,
            out.reshape(-1, flat), origin.reshape(-1, flat), operations=examples * self._operations,
        )  # fmt: skip
        self._x = x if keep else x[:0]
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
        self._sum(weight_gradient, bias_gradient)
        return grad_in

    def propagate(self, slope: Array, weight: Array, squares: Array) -> Array:
        """As :meth:`backward`, with the gradients left in the workspace: with ``each`` every example's own."""
        scratch, examples = self._backward, len(self._x)
        if not self.first:
            convolution_backward.pack(weight, scratch.rows)
        self._used = min(self._slots, -(-examples // self._chunk))
        origin, grad_in = self._origin[:examples], self._grad_in[:examples]
        slope = np.ascontiguousarray(slope).reshape(origin.shape)
        threads.each(
            convolution_backward.backward, self._used, self._used, self._x, slope, origin, self.geometry.size,
            scratch, grad_in, _NONE if self.each else squares, operations=examples * self._operations,
        )  # fmt: skip
        if self.each:
            patch = math.prod(weight.shape[1:])
            clipped.add_filter_squares(scratch.weight_grad, scratch.bias_grad, patch, squares)
        return grad_in.reshape(-1, math.prod(self.input_shape))

    def collect(self, scale: Array, weight_gradient: Array, bias_gradient: Array) -> None:
        """Σ scale[i] times the gradient of example i, after one :meth:`propagate`, into the given arrays."""
        self._backward.weight_grad[: len(scale)] *= scale[:, None, None]
        self._backward.bias_grad[: len(scale)] *= scale[:, None]
        self._sum(weight_gradient, bias_gradient)

    def _sum(self, weight_gradient: Array, bias_gradient: Array) -> None:
        filters, biases = (
            part[: self._used] for part in (self._backward.weight_grad, self._backward.bias_grad)
        )
        convolution_backward.add_slots(filters, biases, weight_gradient, bias_gradient)

    def _backward_scratch(self, patch: int, places: tuple[int, int, int]) -> BackwardScratch:
        channels, height, width, size, _, _ = self.geometry
        slots, chunk, outputs, lanes = self._slots, self._chunk, places[1], lanes_of(self.dtype)
        row = _padded(patch, lanes)
        columns = _padded((width - size + 1) * height * size * channels + row - patch, lanes)
        u, v = np.indices((height - size + 1, width - size + 1))
        starts = (v * height + u).reshape(-1) * size * channels
        items = chunk * outputs * places[2] + 1
        room = partial(_aligned, self.dtype)
        return BackwardScratch(
            starts=np.append(0, starts).astype(np.int32),
            channel_starts=np.append(0, np.arange(outputs) * row).astype(np.int32),
            rows=room(outputs, row),
            cols=room(slots, chunk, columns),
            grad_cols=room(slots, columns),
            offsets=_aligned(np.int32, slots, items),
            factors=room(slots, items),
            counts=_aligned(np.int64, slots, starts.size + 1),
            channel_ends=_aligned(np.int64, slots, outputs + 1),
            image=room(slots, height * width * channels),
            weight_grad=room(slots, outputs, row),
            bias_grad=room(slots, outputs),
            own_weight_grad=room(slots, outputs, row),
            own_bias_grad=room(slots, outputs),
        )


def _forward_scratch(geometry: Geometry, outputs: int, dtype: np.dtype[Any]) -> ForwardScratch:
    channels, height, width, size, _, _ = geometry
    lanes, tiles, room = lanes_of(dtype), -(-outputs // TILE), partial(_aligned, dtype)
    c, i, j = np.indices((channels, size, size))
    taps = ((c * height + i) * width + j).reshape(-1)
    return ForwardScratch(
        taps=taps.astype(np.int64),
        weights=room(tiles, taps.size, TILE),
        bias=room(tiles, TILE),
        lanes=room(SLOTS, channels * height * width, lanes),
        best=room(SLOTS, TILE, lanes),
        where=_aligned(f"i{dtype.itemsize}", SLOTS, TILE, lanes),
    )


def _padded(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


def _aligned(dtype: Any, *shape: int) -> Array:
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + VECTOR_BYTES, np.uint8)
    start = -memory.ctypes.data % VECTOR_BYTES
    return memory[start : start + size].view(dtype).reshape(shape)
