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


class Terms(NamedTuple):
    """Sums of rows of a matrix: those of sum i are from ``begin[i]`` to ``end[i]``, ``factor`` times row ``place``."""

    begin: np.ndarray
    end: np.ndarray
    place: np.ndarray
    factor: np.ndarray


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

    @property
    def by_example(self) -> Terms:
        """The non-zeros of each example, at the inputs that they are of."""
        start, column, value = self.rows[:3]
        return Terms(start[self.examples], start[self.examples + 1], column, value)

    @cached_property
    def by_input(self) -> Terms:
        """The non-zeros of each input, at the places in the batch of the examples that have them, in their order."""
        begin, size = np.arange(self.rows.inputs) * len(self), self.rows.inputs * len(self)
        terms = Terms(
            begin, begin.copy(), np.empty(size, np.int32), np.empty(size, self.rows.value.dtype)
        )
        _fill(self.examples, *self.rows[:3], *terms[1:])
        return terms


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
def _fill(batch, start, column, value, end, place, factor):
    for position, i in enumerate(batch):
        for e in range(start[i], start[i + 1]):
            p = column[e]
            place[end[p]], factor[end[p]] = position, value[e]
            end[p] += 1


@kernel()
@no_type_check
def _add(first, last, begin, end, place, factor, table, base, out):
    for i in range(first, last):
        total = out[i]
        width = total.size
        for j in range(width):
            total[j] = base[j]
        add_rows(total, 0, width, table, width, place, factor, begin[i], end[i])


def add(terms: Terms, table: np.ndarray, base: np.ndarray, out: np.ndarray) -> None:
    """out[i] = base + Σ factor · table[place] over the terms of sum i; ``table`` is contiguous."""
    wide, first, into = _widened(table), _widened(base), _widened(out)
    work = table.size * len(out) // 16
    threads.each(_add, len(out), *terms, wide.reshape(-1), first, into, operations=work)
    if into is not out:
        out[...] = into[..., : out.shape[-1]]


def _widened(array: np.ndarray) -> np.ndarray:
    """The array, or a copy whose last axis ends with zeros and is as long as a vector."""
    short = lanes_of(array.dtype) - array.shape[-1]
    behind = [(0, 0)] * (array.ndim - 1) + [(0, short)]
    return array if short <= 0 else np.pad(array, behind)
