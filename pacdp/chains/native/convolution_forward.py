"""Compiled forward pass of a convolution block: convolution without padding, max pooling, optional ReLU.

The examples of a chunk lie side by side in the lanes of vectors, so that a tap is one load and ``TILE`` fused
multiply-adds, and pooling is a comparison of vectors; the unpooled maps are never stored. Each output is one sum over
the taps in the order (channel, row, column), begun at the bias, whatever the batch and the number of threads.
"""

from typing import Any, NamedTuple, no_type_check

import numpy as np
from numba import njit

from pacdp.chains.native.vectors import TILE, VECTOR_BYTES, convolve_and_compare
from pacdp.random.kernels import kernel


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
