"""The first layer of a network on sparse inputs, compiled: only the non-zero inputs are read.

An image of a digit is four fifths zeros; their products are zeros too. Inputs are kept by rows for the forward pass and
a minibatch by columns for the weight gradient, so that both passes run along contiguous rows of input-major weights.
"""

from functools import cached_property
from typing import NamedTuple, no_type_check

import numpy as np

from pacdp.chains.native import threads
from pacdp.chains.native.vectors import add_rows, lanes_of
from pacdp.random.kernels import kernel


class Rows(NamedTuple):
    """Non-zero inputs of a data set by example: those of example i are ``start[i]:start[i + 1]``."""

    start: np.ndarray
    column: np.ndarray
    value: np.ndarray
    squares: np.ndarray
    """Squared norms of the examples, in double precision."""
    inputs: int
    """How many inputs an example has."""


class Columns(NamedTuple):
    """Non-zero inputs of a minibatch by input: those of input p are ``[p, : counts[p]]``, in order of the batch."""

    counts: np.ndarray
    row: np.ndarray
    value: np.ndarray


class Batch:
    """Some examples of a data set, of whose inputs only the non-zeros are read."""

    def __init__(self, examples: np.ndarray, rows: Rows) -> None:
        self.examples, self.rows = examples, rows

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def squares(self) -> np.ndarray:
        """The squared norm of each example."""
        return self.rows.squares[self.examples]

    @cached_property
    def columns(self) -> Columns:
        """The same numbers by input."""
        count, shape = np.empty(self.rows.inputs, np.int64), (self.rows.inputs, len(self))
        found = Columns(count, np.empty(shape, np.int32), np.empty(shape, self.rows.value.dtype))
        _fill_columns(self.examples, *self.rows[:3], *found)
        return found


def rows(inputs: np.ndarray) -> Rows:
    """The non-zeros of a matrix [n, inputs]; NaN counts as one."""
    row, column = np.nonzero(inputs)
    start = np.zeros(len(inputs) + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=len(inputs)), out=start[1:])
    value = np.ascontiguousarray(inputs[row, column])
    squares = np.bincount(row, weights=value.astype(np.float64) ** 2, minlength=len(inputs))
    return Rows(start, column.astype(np.int32), value, squares, inputs.shape[1])


@kernel()
@no_type_check
def _fill_columns(batch, start, column, value, count, row, entries):
    count[:] = 0
    for position, i in enumerate(batch):
        for e in range(start[i], start[i + 1]):
            p = column[e]
            row[p, count[p]] = position
            entries[p, count[p]] = value[e]
            count[p] += 1


@kernel()
@no_type_check
def _forward(first, last, batch, start, column, value, weight, bias, out):
    for i in range(first, last):
        total = out[i]
        for j in range(total.size):
            total[j] = bias[j]
        begin, end, width = start[batch[i]], start[batch[i] + 1], total.size
        add_rows(total, 0, width, weight, width, column, value, begin, end)


@kernel()
@no_type_check
def _weight_gradient(first, last, count, row, value, gradient, out):
    for p in range(first, last):
        total = out[p]
        for j in range(total.size):
            total[j] = 0
        width = total.size
        add_rows(total, 0, width, gradient, width, row[p], value[p], np.intp(0), count[p])


def forward(
    batch: np.ndarray, rows: Rows, weight: np.ndarray, bias: np.ndarray, out: np.ndarray
) -> None:
    """out[i] = bias + Σ_p x[batch[i], p] weight[p]; weight is [inputs, outputs], contiguous."""
    wide, into = _widened(weight), _widened(out)
    threads.each(
        _forward,
        len(batch),
        batch,
        *rows[:3],
        wide.reshape(-1),
        _widened(bias),
        into,
        operations=len(batch) * weight.size // 16,
    )
    _narrowed(into, out)


def weight_gradient(columns: Columns, gradient: np.ndarray, out: np.ndarray) -> None:
    """out[p] = Σ_i x[i, p] gradient[i], for every input p; zeros where no example has that input."""
    into = _widened(out)
    threads.each(
        _weight_gradient,
        len(out),
        *columns,
        _widened(gradient).reshape(-1),
        into,
        operations=len(gradient) * out.size // 16,
    )
    _narrowed(into, out)


def _widened(array: np.ndarray) -> np.ndarray:
    """The array, or a copy whose last axis ends with zeros and is as long as a vector."""
    short = lanes_of(array.dtype) - array.shape[-1]
    if short <= 0:
        return array
    wide = np.zeros((*array.shape[:-1], array.shape[-1] + short), array.dtype)
    wide[..., : array.shape[-1]] = array
    return wide


def _narrowed(wide: np.ndarray, array: np.ndarray) -> None:
    """Undo :func:`_widened`."""
    if wide is not array:
        array[...] = wide[..., : array.shape[-1]]
