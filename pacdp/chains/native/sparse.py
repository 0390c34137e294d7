"""The first layer of a network on sparse inputs, compiled: only the non-zero inputs are read.

An image of a digit is four fifths zeros; their products are zeros too. Inputs are kept by rows for the forward pass and
a minibatch by columns for the weight gradient, so that both passes run along contiguous rows of input-major weights.
"""

from typing import NamedTuple, no_type_check

import numba
import numpy as np


class Rows(NamedTuple):
    """Non-zero inputs of a data set by example: those of example i are ``start[i]:start[i + 1]``."""

    start: np.ndarray
    column: np.ndarray
    value: np.ndarray


class Columns(NamedTuple):
    """Non-zero inputs of a minibatch by input."""

    start: np.ndarray
    row: np.ndarray
    value: np.ndarray


def rows(inputs: np.ndarray) -> Rows:
    """The non-zeros of a matrix [n, inputs]; NaN counts as one."""
    row, column = np.nonzero(inputs)
    start = np.zeros(len(inputs) + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=len(inputs)), out=start[1:])
    return Rows(start, column.astype(np.int32), np.ascontiguousarray(inputs[row, column]))


@numba.njit(nogil=True, cache=True)
@no_type_check
def columns(batch, start, column, value, inputs):
    """The non-zeros of the examples ``batch`` by input: (start, row, value)."""
    begin = np.zeros(inputs + 1, np.int64)
    for i in batch:
        for e in range(start[i], start[i + 1]):
            begin[column[e] + 1] += 1
    for p in range(inputs):
        begin[p + 1] += begin[p]
    row = np.empty(begin[inputs], np.int32)
    entries = np.empty(begin[inputs], value.dtype)
    place = begin[:inputs].copy()
    for position, i in enumerate(batch):
        for e in range(start[i], start[i + 1]):
            p = column[e]
            row[place[p]] = position
            entries[place[p]] = value[e]
            place[p] += 1
    return begin, row, entries


@numba.njit(inline="always")
@no_type_check
def _accumulate(total, first, last, index, value, matrix):
    """total ← total + Σ value[e] matrix[index[e], :] over e in [first, last), four rows at a time."""
    e = first
    while e + 4 <= last:
        r0, r1, r2, r3 = matrix[index[e]], matrix[index[e + 1]], matrix[index[e + 2]], matrix[index[e + 3]]
        v0, v1, v2, v3 = value[e], value[e + 1], value[e + 2], value[e + 3]
        for j in range(total.size):
            total[j] += (v0 * r0[j] + v1 * r1[j]) + (v2 * r2[j] + v3 * r3[j])
        e += 4
    while e < last:
        r, v = matrix[index[e]], value[e]
        for j in range(total.size):
            total[j] += v * r[j]
        e += 1


@numba.njit(parallel=True, nogil=True, cache=True, fastmath={"contract"})
@no_type_check
def forward(batch, start, column, value, weight, bias, out):
    """out[i] = bias + Σ_p x[batch[i], p] weight[p]; weight is [inputs, outputs]."""
    for i in numba.prange(batch.size):
        total = out[i]
        for j in range(total.size):
            total[j] = bias[j]
        _accumulate(total, start[batch[i]], start[batch[i] + 1], column, value, weight)


@numba.njit(parallel=True, nogil=True, cache=True, fastmath={"contract"})
@no_type_check
def weight_gradient(start, row, value, gradient, out):
    """out[p] = Σ_i x[i, p] gradient[i], for every input p; zeros where no example has that input."""
    for p in numba.prange(out.shape[0]):
        total = out[p]
        for j in range(total.size):
            total[j] = 0
        _accumulate(total, start[p], start[p + 1], row, value, gradient)
