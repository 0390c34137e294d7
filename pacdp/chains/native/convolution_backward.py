"""Compiled backward pass of a convolution block: convolution without padding, max pooling, optional ReLU.

A pooled output passes its gradient to one position of the map alone, so that the weight gradient of a channel is a sum
over those positions of input patches, and the input gradient one of filters. A patch is contiguous in the columns of an
example, cols[v, h, j, c] = x[c, h, v + j]: the one with corner (u, v) starts at cols[v, u] and has the order (i, j, c),
in which the filters are written too. Chunks of examples and the slots that take them depend on the batch alone, and the
slots' sums are added in the order of the slots: results do not depend on the number of threads.

Rows are summed in whole vectors. What the last vector holds beyond a patch lands in the padding of the weight gradient;
beyond a filter it is 0, so that only an infinite or NaN gradient reaches neighbouring positions (of the same example).
"""

from functools import cache
from typing import Any, NamedTuple, no_type_check

import numpy as np
from numba import njit

from pacdp.chains.native.vectors import add_rows
from pacdp.random.kernels import kernel


class Places(NamedTuple):
    """Where rows start in flat memory; entry 0 stands for none."""

    patches: Any
    """[1 + positions]: the patch of a position in the columns of an example."""
    channels: Any
    """[1 + O]: the filter of an output channel, ``row`` numbers long."""
    row: int
    """k·k·C, padded to whole vectors."""
    columns: int
    """The numbers that the columns of an example have, padded."""


@cache
def places(channels: int, height: int, width: int, size: int, outputs: int, lanes: int) -> Places:
    """Of a block of this geometry."""
    patch = channels * size**2
    row = -(-patch // lanes) * lanes
    columns = (width - size + 1) * height * size * channels + row - patch
    u, v = np.indices((height - size + 1, width - size + 1))
    starts = (v * height + u).reshape(-1) * size * channels
    patches, filters = (
        np.append(0, one).astype(np.int32) for one in (starts, np.arange(outputs) * row)
    )
    return Places(patches, filters, row, -(-columns // lanes) * lanes)


def rows_of(weight: Any, row: int) -> Any:
    """Filters [O, C, k, k] as rows in the order (i, j, c), with zeros behind."""
    flat = weight.transpose(0, 2, 3, 1).reshape(len(weight), -1)
    rows = np.zeros((len(weight), row), weight.dtype)
    rows[:, : flat.shape[1]] = flat
    return rows


@kernel()
@no_type_check
def _add_runs(total, starts, ends, table, offsets, factors, row):
    """Run r of the terms, from ``ends[r - 1]`` to ``ends[r]``, is added to the row that starts at ``starts[r]``."""
    for run in range(1, ends.shape[0]):
        if ends[run - 1] < ends[run]:
            add_rows(total, starts[run], row, table, 1, offsets, factors, ends[run - 1], ends[run])


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
def _weight_gradient(cols, origin, grad_out, places, ends, offsets, factors, weight, bias):
    """``weight`` and ``bias`` gain the gradients of the examples of ``cols``."""
    starts = places.patches
    count = np.uintp(0)
    for o in range(bias.shape[0]):
        for example in range(cols.shape[0]):
            base = example * cols.shape[1]
            positions, gradients = origin[example, o], grad_out[example, o]
            for place in range(positions.shape[0]):
                offsets[count] = base + starts[np.uintp(positions[place] + 1)]
                factors[count] = gradients[place]
                # no branch: half of the ReLUs are active, at random
                count += np.uintp(positions[place] >= 0)
        ends[o + 1] = count
        for item in range(ends[o], ends[o + 1]):
            bias[o] += factors[item]
    _add_runs(weight, places.channels, ends, cols, offsets, factors, places.row)


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
def _backward_slot(
    slot, slots, chunk, x, grad_out, origin, size, places, rows, weight, bias, grad_in, squares
):
    columns, each, items = (
        size * size * x.shape[1],
        squares.shape[0] > 0,
        chunk * origin[0].size + 1,
    )
    cols = np.empty((chunk, places.columns), x.dtype)
    offsets, factors = np.empty(items, np.int32), np.empty(items, x.dtype)
    ends, counts = np.zeros(len(bias) + 1, np.int64), np.empty(len(places.patches), np.int64)
    grad_cols, image = np.empty(places.columns, x.dtype), np.empty(x[0].size, x.dtype)
    weight[:] = 0
    bias[:] = 0
    own_weight, own_bias = (np.zeros_like(weight), np.zeros_like(bias)) if each else (weight, bias)
    for begin in range(slot * chunk, x.shape[0], slots * chunk):
        end = min(begin + chunk, x.shape[0])
        for example in range(begin, end):
            _to_columns(x[example], size, cols[example - begin])
            if grad_in.shape[0] > 0:
                _sort_by_position(
                    origin[example], grad_out[example], rows.shape[1], counts, offsets, factors
                )
                grad_cols[:] = 0
                _add_runs(grad_cols, places.patches, counts, rows, offsets, factors, places.row)
                _from_columns(grad_cols, size, image, grad_in[example])
        together = 1 if each else end - begin
        for first in range(begin, end, together):
            part, last = cols[first - begin : first - begin + together], first + together
            _weight_gradient(
                part, origin[first:last], grad_out[first:last], places, ends, offsets,
                factors, own_weight, own_bias,
            )  # fmt: skip
            if each:
                squares[first] += _moved(own_weight, own_bias, weight, bias, columns)


@kernel()
@no_type_check
def backward(
    first,
    last,
    slots,
    chunk,
    x,
    grad_out,
    origin,
    size,
    places,
    rows,
    weight,
    bias,
    grad_in,
    squares,
):
    """Slots ``first`` to ``last``: their parts of the filters' and biases' gradients, and the input's gradient.

    Slot s takes the chunks s, s + slots, ... of ``chunk`` examples, and its parts are ``weight[s]`` [O, row] and
    ``bias[s]`` [O]. The input's gradient is made if ``grad_in`` has rows, with ``rows`` from :func:`rows_of`. ``x`` and
    ``grad_in`` are [B, C, H, W], ``grad_out`` and ``origin`` (from the forward pass) [B, O, H'·W']. ``squares``, if it
    has entries, gains the squared norm of each example's part.
    """
    for slot in range(first, last):
        _backward_slot(
            slot, slots, chunk, x, grad_out, origin, size, places, rows, weight[slot], bias[slot],
            grad_in, squares,
        )  # fmt: skip


@kernel()
@no_type_check
def _add(filters, biases, scale, total, bias_grad):
    for slot in range(len(scale)):
        for o in range(len(bias_grad)):
            row, own = total[o], filters[slot, o]
            for j in range(row.size):
                row[j] += own[j] * scale[slot]
            bias_grad[o] += biases[slot, o] * scale[slot]


def add_slots(filters: Any, biases: Any, scale: Any, weight_grad: Any, bias_grad: Any) -> None:
    """Sum of the slots' parts times ``scale``, in the order of the slots, in the layout [O, C, k, k]."""
    outputs, channels, size, _ = weight_grad.shape
    total = np.zeros((outputs, channels * size * size), filters.dtype)
    bias_grad[:] = 0
    _add(filters, biases, scale, total, bias_grad)
    weight_grad[...] = total.reshape(outputs, size, size, channels).transpose(0, 3, 1, 2)
