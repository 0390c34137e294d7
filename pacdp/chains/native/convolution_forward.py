"""Compiled forward pass of a convolution block: convolution without padding, max pooling, optional ReLU.

The examples of a chunk lie side by side in the lanes of vectors, so that a tap is one load and ``TILE`` fused
multiply-adds, and pooling is a comparison of vectors; the unpooled maps are never stored. Each output is one sum over
the taps in the order (channel, row, column), begun at the bias, whatever the batch and the number of threads.
"""

from typing import Any, NamedTuple, no_type_check

import numpy as np
from numba import njit

from pacdp.chains.native.vectors import TILE, convolve_and_compare
from pacdp.random.kernels import kernel


class Geometry(NamedTuple):
    """Sizes of a block: input [channels, height, width], filters size x size, pooling windows pool x pool."""

    channels: int
    height: int
    width: int
    size: int
    pool: int
    relu: bool


class ForwardScratch(NamedTuple):
    """Arrays the forward pass writes to; the last three have one entry a slot."""

    taps: Any
    """[C·k·k]: row of a tap in an example's flat input, relative to the patch's corner."""
    weights: Any
    """[tiles, C·k·k, TILE]."""
    bias: Any
    """[tiles, TILE]."""
    lanes: Any
    """[slots, C·H·W, lanes]."""
    best: Any
    """[slots, TILE, lanes]."""
    where: Any
    """[slots, TILE, lanes] integers of the floats' width."""


def pack(weight: Any, bias: Any, scratch: ForwardScratch) -> None:
    """Filters [O, C·k·k] and their bias into tiles of ``TILE`` channels, whose last ones stay 0."""
    tiles, taps, _ = scratch.weights.shape
    channels = np.zeros((tiles * TILE, taps), weight.dtype)
    channels[: len(weight)] = weight
    scratch.weights[...] = channels.reshape(tiles, TILE, taps).transpose(0, 2, 1)
    scratch.bias.reshape(-1)[: len(bias)] = bias


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
def _pool(geometry, scratch, slot, tile, row, column):
    lanes, best, where = scratch.lanes[slot], scratch.best[slot], scratch.where[slot]
    width, conv_width = geometry.width, geometry.width - geometry.size + 1
    best[:] = -np.inf
    where[:] = row * conv_width + column
    for i in range(row, row + geometry.pool):
        for j in range(column, column + geometry.pool):
            base, place = i * width + j, i * conv_width + j
            convolve_and_compare(
                lanes, base, scratch.taps, scratch.weights, scratch.bias, tile, best, where, place
            )
    if geometry.relu:
        _rectify(best, where)


@njit(inline="always")
@no_type_check
def _forward_slot(slot, slots, x, geometry, scratch, out, origin):
    size, pool = geometry.size, geometry.pool
    rows, columns = (geometry.height - size + 1) // pool, (geometry.width - size + 1) // pool
    lanes = scratch.lanes[slot]
    for begin in range(slot * lanes.shape[1], x.shape[0], slots * lanes.shape[1]):
        _to_lanes(x, begin, lanes)
        for tile in range(scratch.weights.shape[0]):
            for row in range(rows):
                for column in range(columns):
                    _pool(geometry, scratch, slot, tile, row * pool, column * pool)
                    first = (tile * TILE * rows + row) * columns + column
                    _from_lanes(scratch.best[slot], out, begin, first, rows * columns)
                    if origin.shape[0] > 0:
                        _from_lanes(scratch.where[slot], origin, begin, first, rows * columns)


@kernel()
@no_type_check
def forward(first, last, slots, x, geometry, scratch, out, origin):
    """Pooled activations ``out`` [B, O·H'·W'] of ``x`` [B, C·H·W] and, if ``origin`` has rows, where they come from.

    ``origin`` [B, O·H'·W'] is the position in the unpooled map, -1 behind an inactive ReLU. Slot s, of those
    from ``first`` to ``last``, takes the chunks s, s + slots, ... of as many examples as a vector has lanes.
    """
    for slot in range(first, last):
        _forward_slot(slot, slots, x, geometry, scratch, out, origin)
