"""Layers with few outputs, and the way back through ReLU, as compiled loops: too little work for matrix products.

Sums over a layer's inputs may be taken in another order than written, the same in every call.
"""

from typing import no_type_check

import numpy as np

from pacdp.random.kernels import kernel


@kernel(fastmath={"reassoc", "contract"})
@no_type_check
def _forward(x, columns, bias, out):
    for i in range(len(x)):
        row = x[i]
        for o in range(len(bias)):
            column, total = columns[o], bias[o]
            for j in range(row.size):
                total += row[j] * column[j]
            out[i, o] = total


@kernel(fastmath={"contract"})
@no_type_check
def _backward(slope, x, columns, sums, bias_gradient, into):
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


def forward(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, out: np.ndarray) -> None:
    """out = x W + b, for x [batch, inputs] and W [inputs, outputs]."""
    _forward(x, np.ascontiguousarray(weight.T), bias, out)


def backward(
    slope: np.ndarray,
    x: np.ndarray,
    weight: np.ndarray,
    weight_gradient: np.ndarray,
    bias_gradient: np.ndarray,
    into: np.ndarray,
) -> None:
    """W's and b's gradients, and the one by x, from the gradient ``slope`` [batch, outputs] by the outputs."""
    columns = np.ascontiguousarray(weight.T)
    sums = np.zeros_like(columns)
    _backward(slope, x, columns, sums, bias_gradient, into)
    weight_gradient[...] = sums.T


@kernel()
@no_type_check
def through_relu(slope, out, bias_gradient):
    """Clear ``slope`` where the output ``out`` of ReLU is 0, in place; the bias's gradient is its sum over examples."""
    bias_gradient[:] = 0
    for i in range(len(slope)):
        row, value = slope[i], out[i]
        for j in range(row.size):
            row[j] = 0 if value[j] <= 0 else row[j]
            bias_gradient[j] += row[j]
