"""Compiled backward pass of a convolution block: convolution without padding, max pooling, optional ReLU.

A pooled output passes its gradient to one position of the map alone, so that the weight gradient of a channel is a sum
over those positions of input patches, and the input gradient one of filters. A patch is contiguous in the columns of an
example, cols[v, h, j, c] = x[c, h, v + j]: the one with corner (u, v) starts at cols[v, u] and has the order (i, j, c),
in which the filters are written too. Chunks of examples and the slots that take them depend on the batch alone, and the
slots' sums are added in the order of the slots: results do not depend on the number of threads.

Rows are summed in whole vectors. What the last vector holds beyond a patch lands in the padding of the weight gradient;
beyond a filter it is 0, so that only an infinite or NaN gradient reaches neighbouring positions (of the same example).
"""

from typing import Any, NamedTuple, no_type_check

import numpy as np
from numba import njit

from pacdp.chains.native.vectors import ROW_BLOCK, VECTOR_BYTES, add_block
from pacdp.random.kernels import kernel


class BackwardScratch(NamedTuple):
    """Arrays of the backward pass; all but the first three have one entry a slot."""

    starts: Any
    """[1 + positions]: where the patch of a position starts in the columns; entry 0 stands for no position."""
    channel_starts: Any
    """[1 + O]: where the row of a channel starts in ``weight_grad``; entry 0 stands for no channel."""
    rows: Any
    """[O, k·k·C padded]: the filters, or nothing where the input needs no gradient."""
    cols: Any
    """[slots, chunk, columns of an example padded]."""
    grad_cols: Any
    """[slots, columns of an example padded]."""
    offsets: Any
    factors: Any
    """[slots, items]: the terms of sums of rows."""
    counts: Any
    """[slots, 1 + positions]."""
    channel_ends: Any
    """[slots, 1 + O]."""
    image: Any
    """[slots, H·W·C]."""
    weight_grad: Any
    """[slots, O, k·k·C padded]."""
    bias_grad: Any
    """[slots, O]."""
    own_weight_grad: Any
    own_bias_grad: Any
    """As the two before: those of one example, zero between examples."""


def pack(weight: Any, rows: Any) -> None:
    """Filters [O, C, k, k] as rows in the order (i, j, c)."""
    flat = weight.transpose(0, 2, 3, 1).reshape(len(weight), -1)
    rows[:, : flat.shape[1]] = flat


@kernel()
@no_type_check
def _add_runs(total, places, ends, table, offsets, factors, columns):
    """Run r of the terms, from ``ends[r - 1]`` to ``ends[r]``, is added to the row that starts at ``places[r]``."""
    lanes = VECTOR_BYTES // total.itemsize
    column = 0
    while (
        column < columns
    ):  # the outer loop, so that the columns of all rows of the table are in the fastest cache
        vectors = (columns - column + lanes - 1) // lanes
        block = ROW_BLOCK if vectors >= ROW_BLOCK else 2 if vectors >= 2 else 1
        for run in range(1, ends.shape[0]):
            where, first, last = (
                (places[run] + column, column, (block - 1) * lanes),
                ends[run - 1],
                ends[run],
            )
            if first == last:
                continue
            add_block(total, block, where, table, 1, offsets, factors, first, last)
        column += lanes * block


@njit(inline="always")
@no_type_check
def _to_columns(x, size, cols):
    channels, height, width = x.shape
    column = size * channels
    for v in range(width - size + 1):
        for j in range(size):
            for c in range(channels):
                for h in range(height):
                    cols[(v * height + h) * column + j * channels + c] = x[c, h, v + j]


@njit(inline="always")
@no_type_check
def _from_columns(cols, size, image, grad_in):
    channels, height, width = grad_in.shape
    column = size * channels
    image[:] = 0
    for v in range(width - size + 1):
        for h in range(height):
            source = cols[(v * height + h) * column : (v * height + h + 1) * column]
            target = image[(h * width + v) * channels : (h * width + v) * channels + column]
            for place in range(column):
                target[place] += source[place]
    for c in range(channels):
        for h in range(height):
            for w in range(width):
                grad_in[c, h, w] = image[(h * width + w) * channels + c]


@njit(inline="always")
@no_type_check
def _weight_gradient(slot, cols, origin, grad_out, columns, scratch, weight, bias):
    """``weight`` and ``bias`` gain the gradients of the examples of ``cols``."""
    ends = scratch.channel_ends[slot]
    offsets, factors, starts = scratch.offsets[slot], scratch.factors[slot], scratch.starts
    count = np.uintp(0)
    for o in range(bias.shape[0]):
        for example in range(cols.shape[0]):
            base = example * cols.shape[1]
            positions, gradients = origin[example, o], grad_out[example, o]
            for place in range(positions.shape[0]):
                offsets[count] = base + starts[np.uintp(positions[place] + 1)]
                factors[count] = gradients[place]
                count += np.uintp(
                    positions[place] >= 0
                )  # no branch: half of the ReLUs are active, at random
        ends[o + 1] = count
        for item in range(ends[o], ends[o + 1]):
            bias[o] += factors[item]
    _add_runs(weight, scratch.channel_starts, ends, cols, offsets, factors, columns)


@kernel(fastmath={"reassoc", "contract"})
@no_type_check
def _moved(own_weight, own_bias, weight, bias, columns):
    """Add an example's gradient to the sum, clear it, and return its squared norm; the rest of a row is padding."""
    total = 0.0
    for o in range(own_bias.shape[0]):
        own, row = own_weight[o], weight[o]
        for j in range(columns):
            value = own[j]
            total += np.float64(value) * np.float64(value)
            row[j] += value
            own[j] = 0
        own[columns:] = 0
        total += np.float64(own_bias[o]) * np.float64(own_bias[o])
        bias[o] += own_bias[o]
        own_bias[o] = 0
    return total


@njit(inline="always")
@no_type_check
def _sort_by_position(origin, grad_out, step, counts, offsets, factors):
    """Terms (o · step, gradient) in the order of their position; ``counts`` become the ends of the positions' runs."""
    counts[:] = 0
    for o in range(origin.shape[0]):
        for place in range(origin.shape[1]):
            counts[np.uintp(origin[o, place] + 1)] += 1
    begin = 0
    for bucket in range(counts.shape[0]):
        begin, counts[bucket] = begin + counts[bucket], begin
    for o in range(origin.shape[0]):
        for place in range(origin.shape[1]):
            bucket = np.uintp(origin[o, place] + 1)
            item = np.uintp(counts[bucket])
            counts[bucket] = item + 1
            offsets[item] = o * step
            factors[item] = grad_out[o, place]


@njit(inline="always")
@no_type_check
def _input_gradient(slot, origin, grad_out, size, scratch, grad_in):
    rows, cols, counts = scratch.rows, scratch.grad_cols[slot], scratch.counts[slot]
    offsets, factors = scratch.offsets[slot], scratch.factors[slot]
    _sort_by_position(origin, grad_out, rows.shape[1], counts, offsets, factors)
    cols[:] = 0
    _add_runs(cols, scratch.starts, counts, rows, offsets, factors, size * size * grad_in.shape[0])
    _from_columns(cols, size, scratch.image[slot], grad_in)


@njit(inline="always")
@no_type_check
def _backward_slot(slot, slots, x, grad_out, origin, size, scratch, grad_in, squares):
    weight, bias = scratch.weight_grad[slot], scratch.bias_grad[slot]
    own_weight, own_bias = scratch.own_weight_grad[slot], scratch.own_bias_grad[slot]
    weight[:] = 0
    bias[:] = 0
    chunk, columns, each = scratch.cols.shape[1], size * size * x.shape[1], squares.shape[0] > 0
    for begin in range(slot * chunk, x.shape[0], slots * chunk):
        end = min(begin + chunk, x.shape[0])
        cols = scratch.cols[slot, : end - begin]
        for example in range(begin, end):
            _to_columns(x[example], size, cols[example - begin])
            if grad_in.shape[0] > 0:
                _input_gradient(
                    slot, origin[example], grad_out[example], size, scratch, grad_in[example]
                )
        together = 1 if each else end - begin
        for first in range(begin, end, together):
            part, last = cols[first - begin : first - begin + together], first + together
            _weight_gradient(
                slot, part, origin[first:last], grad_out[first:last], columns, scratch,
                own_weight if each else weight, own_bias if each else bias,
            )  # fmt: skip
            if each:
                squares[first] += _moved(own_weight, own_bias, weight, bias, columns)


@kernel()
@no_type_check
def backward(first, last, slots, x, grad_out, origin, size, scratch, grad_in, squares):
    """Slots ``first`` to ``last``: their parts of the filters' and biases' gradients, and the input's gradient.

    That one is made if ``grad_in`` has rows. ``x`` and ``grad_in`` are [B, C, H, W], ``grad_out`` and ``origin`` (from
    the forward pass) [B, O, H'·W']. ``squares``, if it has entries, gains the squared norm of each example's part.
    """
    for slot in range(first, last):
        _backward_slot(slot, slots, x, grad_out, origin, size, scratch, grad_in, squares)


def add_slots(filters: Any, biases: Any, weight_grad: Any, bias_grad: Any) -> None:
    """Sum of the slots' parts, in the order of the slots, in the layout [O, C, k, k]."""
    outputs, channels, size, _ = weight_grad.shape
    np.add.reduce(biases, axis=0, out=bias_grad)
    total = np.add.reduce(filters, axis=0)[:, : channels * size * size]
    weight_grad[...] = total.reshape(outputs, size, size, channels).transpose(0, 3, 1, 2)
