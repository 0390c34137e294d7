"""Fully connected layers without an autograd graph: matrix products of torch, or compiled loops where these are faster.

Arrays are NumPy's, views of flat vectors; weights are input-major [inputs, outputs].
"""

from typing import Any

import numpy as np
import torch

from pacdp.chains.native import clipped, narrow, sparse
from pacdp.chains.native.products import product

Array = np.ndarray[Any, np.dtype[Any]]
_FEW = 16
"""Outputs up to which a layer is a compiled loop."""


class DenseLayer:
    """x W + b, with ReLU or without; the ``first`` layer of a network needs no gradient by its input."""

    def __init__(self, *, relu: bool, first: bool) -> None:
        self.relu, self.first = relu, first
        self._x: Any = None
        self._out = np.empty((0, 0))

    def forward(
        self, x: Array | sparse.Batch, weight: Array, bias: Array, *, keep: bool = True
    ) -> Array:
        """Outputs [batch, outputs] of x [batch, ...], or of the examples of a data set of few non-zeros."""
        out = np.empty((len(x), len(bias)), weight.dtype)
        if isinstance(x, sparse.Batch):
            sparse.forward(x.examples, x.rows, weight, bias, out)
        else:
            x = x.reshape(len(x), -1)
            if len(bias) <= _FEW:
                narrow.forward(x, weight, bias, out)
            else:
                torch.addmm(_tensor(bias), _tensor(x), _tensor(weight), out=_tensor(out))
        if self.relu:
            torch.relu_(_tensor(out))
        if keep:
            self._x, self._out = x, out
        return out

    def backward(
        self,
        slope: Array,
        weight: Array,
        weight_gradient: Array,
        bias_gradient: Array,
        squares: Array | None = None,
    ) -> Array:
        """The gradient by the layer's input; its own gradients go into the given views. ``slope`` is overwritten.

        Args:
            squares: float64 [batch]; where given, it gains the squared norm of each example's part of these gradients.
        """
        x, back = self._x, slope
        if len(bias_gradient) <= _FEW and not self.relu and not self.first:
            back = np.empty_like(x)
            narrow.backward(slope, x, weight, weight_gradient, bias_gradient, back)
        else:
            if self.relu:
                narrow.through_relu(slope, self._out, bias_gradient)
            else:
                np.sum(slope, axis=0, out=bias_gradient)
            if isinstance(x, sparse.Batch):
                sparse.weight_gradient(x.columns, slope, weight_gradient)
            else:
                torch.mm(_tensor(x).t(), _tensor(slope), out=_tensor(weight_gradient))
            if not self.first:
                back = torch.mm(_tensor(slope), _tensor(weight).t()).numpy()
        if squares is not None:
            inputs = x.squares if isinstance(x, sparse.Batch) else row_squares(x)
            clipped.through_layer(slope, self._out, False, inputs, squares)
        return back


def row_squares(rows: Array) -> Array:
    """The squared norm of every row, in double precision."""
    found = np.empty(len(rows))
    clipped.row_squares(rows, found)
    return found


class PaddedDense:
    """x W + b, with ReLU or without, in two halves: every example's squared norm first, then sums of scaled gradients.

    Arrays have :func:`padded` rows, so that products come in few shapes. The rows beyond the examples are exact zeros,
    in inputs and in slopes, and add nothing to a gradient.
    """

    def __init__(self, *, relu: bool, first: bool) -> None:
        self.relu, self.first = relu, first
        self._x: Any = None
        self._out = self._slope = np.empty((0, 0))
        self._squares = np.empty(0)

    def forward(self, x: Array | sparse.Batch, weight: Array, bias: Array, count: int) -> Array:
        """Outputs [padded, outputs] of the first ``count`` rows of x, or of so many examples of few non-zeros."""
        if isinstance(x, sparse.Batch):
            self._squares, out = x.squares, np.empty((padded(count), len(bias)), weight.dtype)
            sparse.forward(x.examples, x.rows, weight, bias, out[:count])
        else:
            x = filled(x.reshape(len(x), -1), padded(count))
            self._squares = row_squares(x[:count])
            out = product(_tensor(x), _tensor(weight), bias=_tensor(bias)).numpy()
        if self.relu:
            torch.relu_(_tensor(out))
        out[count:] = 0
        self._x, self._out = x, out
        return out

    def propagate(self, slope: Array, weight: Array, squares: Array) -> Array:
        """``squares`` [count] gain the squared norms of this layer's gradients; returns the slope by its input.

        Args:
            slope: by the outputs, which is overwritten; of the first layer, whose input needs none, it is returned.
        """
        slope = self._slope = filled(slope, len(self._out))
        clipped.through_layer(slope, self._out, self.relu, self._squares, squares)
        return slope if self.first else product(_tensor(slope), _tensor(weight).mT).numpy()

    def collect(self, scale: Array, weight_gradient: Array, bias_gradient: Array) -> None:
        """The sum over examples of ``scale`` [count] times their gradients. The slopes are spent."""
        clipped.scale_rows(self._slope, scale, bias_gradient, np.finfo(scale.dtype).tiny)
        if isinstance(self._x, sparse.Batch):
            sparse.weight_gradient(self._x.columns, self._slope[: len(scale)], weight_gradient)
        else:
            product(_tensor(self._x).mT, _tensor(self._slope), out=_tensor(weight_gradient))


_ROWS = 16
"""Rows are a multiple of this: few shapes, and few zeros."""


def padded(count: int) -> int:
    """The number of rows that arrays of ``count`` examples have."""
    return -(-count // _ROWS) * _ROWS


def filled(rows: Array, count: int) -> Array:
    """``rows`` with rows of zeros behind, ``count`` in all."""
    if len(rows) == count:
        return rows
    whole = np.zeros((count, rows.shape[1]), rows.dtype)
    whole[: len(rows)] = rows
    return whole


_tensor = torch.from_numpy
