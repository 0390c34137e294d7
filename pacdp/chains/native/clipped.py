"""Loops between the two halves of a clipped step: squared norms of each example's gradient, then scaled slopes.

The gradient of a fully connected layer by one example is δ (x, 1)ᵀ, of squared norm |δ|² (|x|² + 1) (Goodfellow 2015).
Squares are added up in double precision. Rows from ``len(squares)`` on are padding and become exact zeros.
"""

from typing import no_type_check

import numpy as np

from pacdp.random.kernels import kernel

_f8 = np.float64


@kernel(error_model="numpy", fastmath={"reassoc", "contract"})
@no_type_check
def row_squares(rows, out):
    """out[i] = |rows[i]|², for rows [n, ...] as matrices [n, width]."""
    for i in range(len(out)):
        row, total = rows[i], 0.0
        for j in range(row.size):
            total += _f8(row[j]) * _f8(row[j])
        out[i] = total


@kernel(error_model="numpy", fastmath={"reassoc", "contract"})
@no_type_check
def through_layer(slope, out, relu, inputs, squares):
    """Clear ``slope`` [rows, outputs] where the output ``out`` of ReLU is 0; squares[i] += |slope[i]|² (inputs[i] + 1).

    ``inputs`` [n] are the squared norms of what the layer was given.
    """
    n = len(squares)
    for i in range(n):
        row, value, total = slope[i], out[i], 0.0
        if relu:
            for j in range(row.size):
                row[j] = 0 if value[j] <= 0 else row[j]
        for j in range(row.size):
            total += _f8(row[j]) * _f8(row[j])
        squares[i] += total * (inputs[i] + 1.0)
    slope[n:] = 0


@kernel(error_model="numpy", fastmath={"contract"})
@no_type_check
def scale_rows(slope, scale, bias_gradient, tiny):
    """slope[i] *= scale[i]; ``bias_gradient`` becomes the sum of these rows.

    Products below ``tiny`` become 0: inputs would multiply their rounding (:func:`pacdp.step.clip.without_subnormals`).
    """
    bias_gradient[:] = 0
    for i in range(len(scale)):
        row, factor = slope[i], scale[i]
        for j in range(row.size):
            value = row[j] * factor
            row[j] = 0 if -tiny < value < tiny else value
            bias_gradient[j] += row[j]


@kernel(error_model="numpy", fastmath={"reassoc", "contract"})
@no_type_check
def add_filter_squares(filters, biases, patch, squares):
    """squares[i] += |filters[i, :, :patch]|² + |biases[i]|²: what lies beyond ``patch`` is padding."""
    for i in range(len(squares)):
        total = 0.0
        for o in range(filters.shape[1]):
            row = filters[i, o]
            for j in range(patch):
                total += _f8(row[j]) * _f8(row[j])
            total += _f8(biases[i, o]) * _f8(biases[i, o])
        squares[i] += total
