"""A block of a convolutional network, forward and backward, without autograd: Conv2d, ReLU and MaxPool2d in one.

    y[b, o, r, s] = max over the window (i, j) of ReLU(bias[o] + Σ_{c,u,v} weight[o, c, u, v] · x[b, c, i + u, j + v])

with stride 1 and no padding in the convolution and windows side by side in the pooling, the remainder of a map that
they do not fill left out (PyTorch's floor). ReLU and maximum commute, so that the order of these two layers is free.
The gradient of a maximum goes to its first position, that of a ReLU at 0 is 0, and NaN is passed on, as in PyTorch.

Formal guarantee: outputs and gradients are a function of the arguments alone. They do not depend on the number of
threads nor on earlier calls, and an example's output and input gradient do not depend on the rest of the batch.
Bits may differ between CPUs.

In the compiled forward pass the examples of a chunk lie side by side in the lanes of vectors, so that a tap is one load
and ``TILE`` fused multiply-adds, and pooling is a comparison of vectors; the unpooled maps are never stored. Each
output is one sum over the taps in the order (channel, row, column), begun at the bias, whatever the batch and the
number of threads.
"""

import math
from typing import Any, NamedTuple, no_type_check

import numpy as np
from numba import njit

from pacdp.chains.native import clipped, threads
from pacdp.chains.native import convolution_backward as back
from pacdp.chains.native.vectors import TILE, VECTOR_BYTES, convolve_and_compare, lanes_of
from pacdp.random.kernels import kernel

SLOTS = 8
"""Parts of a batch that threads share out; part of the order of summation, so that it is the same on every machine."""
CHUNK = 4
"""Examples whose columns the backward pass has in the cache together."""
Array = np.ndarray[Any, np.dtype[Any]]
_NONE = np.empty(0)


class Geometry(NamedTuple):
    """Sizes of a block: input [channels, height, width], filters size x size, pooling windows pool x pool."""

    channels: int
    height: int
    width: int
    size: int
    pool: int
    relu: bool


def tiles(weight: Any, bias: Any) -> tuple[Any, Any]:
    """Filters [O, C·k·k] and their bias as tiles of ``TILE`` channels, [tiles, C·k·k, TILE], whose last ones are 0."""
    outputs, taps = weight.shape
    count = -(-outputs // TILE)
    filters, biases = (
        np.zeros((count * TILE, taps), weight.dtype),
        np.zeros(count * TILE, bias.dtype),
    )
    filters[:outputs], biases[:outputs] = weight, bias
    packed = np.ascontiguousarray(filters.reshape(count, TILE, taps).transpose(0, 2, 1))
    return packed, biases.reshape(count, TILE)


@njit(inline="always")
@no_type_check
def _to_lanes(x, begin, lanes):
    examples = min(lanes.shape[1], x.shape[0] - begin)
    for row in range(lanes.shape[0]):
        for lane in range(examples):
            lanes[row, lane] = x[begin + lane, row]


@njit(inline="always")
@no_type_check
def _rectify(best, where):
    for o in range(best.shape[0]):
        for lane in range(best.shape[1]):
            blocked = best[o, lane] <= 0
            best[o, lane] = 0 if blocked else best[o, lane]
            where[o, lane] = -1 if blocked else where[o, lane]


@kernel()
@no_type_check
def _from_lanes(values, out, begin, first, step):
    channels = min(TILE, (out.shape[1] - first + step - 1) // step)
    for lane in range(min(values.shape[1], out.shape[0] - begin)):
        example = out[begin + lane]
        for o in range(channels):
            example[first + o * step] = values[o, lane]


@njit(inline="always")
@no_type_check
def _pool(geometry, taps, filters, biases, tile, row, column, lanes, best, where):
    width, conv_width = geometry.width, geometry.width - geometry.size + 1
    best[:] = -np.inf
    where[:] = row * conv_width + column
    for i in range(row, row + geometry.pool):
        for j in range(column, column + geometry.pool):
            base, place = i * width + j, i * conv_width + j
            convolve_and_compare(lanes, base, taps, filters, biases, tile, best, where, place)
    if geometry.relu:
        _rectify(best, where)


@njit(inline="always")
@no_type_check
def _forward_slot(slot, slots, x, geometry, taps, filters, biases, out, origin):
    size, pool, width = geometry.size, geometry.pool, VECTOR_BYTES // x.itemsize
    rows, columns = (geometry.height - size + 1) // pool, (geometry.width - size + 1) // pool
    lanes, best = np.empty((x.shape[1], width), x.dtype), np.empty((TILE, width), x.dtype)
    where = np.empty((TILE, width), origin.dtype)
    for begin in range(slot * width, x.shape[0], slots * width):
        _to_lanes(x, begin, lanes)
        for tile in range(filters.shape[0]):
            for row in range(rows):
                for column in range(columns):
                    _pool(
                        geometry, taps, filters, biases, tile, row * pool, column * pool, lanes, best, where
                    )  # fmt: skip
                    first = (tile * TILE * rows + row) * columns + column
                    _from_lanes(best, out, begin, first, rows * columns)
                    if origin.shape[0] > 0:
                        _from_lanes(where, origin, begin, first, rows * columns)


@kernel()
@no_type_check
def forward(first, last, slots, x, geometry, taps, filters, biases, out, origin):
    """Pooled activations ``out`` [B, O·H'·W'] of ``x`` [B, C·H·W] and, if ``origin`` has rows, where they come from.

    ``taps`` [C·k·k] are the rows of the taps in an example's flat input, relative to the patch's corner, ``filters``
    and ``biases`` come from :func:`tiles`. ``origin`` [B, O·H'·W'], integers of the floats' width, is the position in
    the unpooled map, -1 behind an inactive ReLU. Slot s, of those from ``first`` to ``last``, takes the chunks s,
    s + slots, ... of as many examples as a vector has lanes.
    """
    for slot in range(first, last):
        _forward_slot(slot, slots, x, geometry, taps, filters, biases, out, origin)


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
            forward, slots, slots, x.reshape(examples, -1), self.geometry, self._taps,
            *tiles(weight.reshape(len(weight), -1), bias), out, origin,
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
        ones = np.ones(len(self._filters), weight.dtype)
        back.add_slots(self._filters, self._biases, ones, weight_gradient, bias_gradient)
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
        back.add_slots(self._filters, self._biases, scale, weight_gradient, bias_gradient)
