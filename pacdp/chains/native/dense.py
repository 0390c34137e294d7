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
            add_squares(slope, inputs, squares)
        return back


def add_squares(slope: Array, inputs: Array, squares: Array) -> None:
    """``squares`` gain those of the gradients δ (x, 1)ᵀ of single examples, ``inputs`` being those of x."""
    squares += row_squares(slope) * (inputs + 1.0)


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

    def __init__(self, layer: DenseLayer) -> None:
        self.relu = layer.relu
        self._x = self._out = self._slope = np.empty((0, 0))
        self._columns: sparse.Columns | None = None
        self._squares = np.empty(0)

    def forward(
        self,
        x: Array,
        squares: Array,
        weight: Array,
        bias: Array,
        rows: sparse.Rows | None = None,
    ) -> Array:
        """Outputs [padded, outputs] of x [padded, inputs], or of the examples x [count] of the data set's ``rows``.

        Args:
            squares: float64 [count], the squared norms of the first rows of the input, those of examples.
        """
        count = len(squares)
        if rows is not None:
            out = np.empty((padded(count), len(bias)), weight.dtype)
            sparse.forward(x, rows, weight, bias, out[:count])
            self._columns = sparse.columns_of(x, rows, self._columns)
        else:
            out = product(_tensor(x), _tensor(weight), bias=_tensor(bias)).numpy()
        if self.relu:
            torch.relu_(_tensor(out))
        out[count:] = 0
        self._x, self._squares, self._out = x, squares, out
        return out

    def propagate(self, slope: Array, weight: Array, squares: Array, *, further: bool) -> Array:
        """``squares`` [count] gain the squared norms of this layer's gradients; returns the slope by its input.

        Args:
            slope: by the outputs, [padded, outputs], which is overwritten.
            further: False for the first layer, whose input needs no slope: ``slope`` itself is returned.
        """
        clipped.through_layer(slope, self._out, self.relu, self._squares, squares)
        self._slope = slope
        return product(_tensor(slope), _tensor(weight).mT).numpy() if further else slope

    def collect(self, scale: Array, weight_gradient: Array, bias_gradient: Array) -> None:
        """The sum over examples of ``scale`` [count] times their gradients. The slopes are spent."""
        clipped.scale_rows(self._slope, scale, bias_gradient, np.finfo(scale.dtype).tiny)
        if self._columns is not None:  # the layer reads sparse rows
            sparse.weight_gradient(self._columns, self._slope[: len(scale)], weight_gradient)
        else:
            product(_tensor(self._x).mT, _tensor(self._slope), out=_tensor(weight_gradient))


_ROWS = 16
"""Rows are a multiple of this: few shapes, and few zeros."""


def padded(count: int) -> int:
    """The number of rows that arrays of ``count`` examples have."""
    return -(-count // _ROWS) * _ROWS


_tensor = torch.from_numpy
