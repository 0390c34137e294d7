"""Layers with few outputs, and the way back through ReLU, as compiled loops: too little work for matrix products.

Sums over a layer's inputs may be taken in another order than written, the same in every call.
"""

from typing import no_type_check

import numba
import numpy as np


@numba.njit(nogil=True, cache=True, fastmath={"reassoc", "contract"})
@no_type_check
def forward(x, weight, bias, out):
    """out = x W + b, for x [batch, inputs] and W [inputs, outputs]."""
    columns = np.ascontiguousarray(weight.T)
    for i in range(len(x)):
        row = x[i]
        for o in range(len(bias)):
            column, total = columns[o], bias[o]
            for j in range(row.size):
                total += row[j] * column[j]
            out[i, o] = total


@numba.njit(nogil=True, cache=True, fastmath={"contract"})
@no_type_check
def backward(slope, x, weight, weight_gradient, bias_gradient, into):
    """W's and b's gradients, and the one by x, from the gradient ``slope`` [batch, outputs] by the outputs."""
    columns = np.ascontiguousarray(weight.T)
    sums = np.zeros_like(columns)
    bias_gradient[:] = 0
    for i in range(len(x)):
        row, back = x[i], into[i]
        back[:] = 0
        for o in range(len(columns)):
            s, column, total = slope[i, o], columns[o], sums[o]
            bias_gradient[o] += s
            for j in range(row.size):
                total[j] += s * row[j]
                back[j] += s * column[j]
    for o in range(len(columns)):
        for j in range(columns.shape[1]):
            weight_gradient[j, o] = sums[o, j]


@numba.njit(nogil=True, cache=True)
@no_type_check
def through_relu(slope, out, bias_gradient):
    """Clear ``slope`` where the output ``out`` of ReLU is 0, in place; the bias's gradient is its sum over examples."""
    bias_gradient[:] = 0
    for i in range(len(slope)):
        row, value = slope[i], out[i]
        for j in range(row.size):
            row[j] = 0 if value[j] <= 0 else row[j]
            bias_gradient[j] += row[j]
