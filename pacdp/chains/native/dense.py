"""Fully connected layers without an autograd graph: matrix products of torch, or compiled loops where these are faster.

Arrays are NumPy's, views of flat vectors; weights are input-major [inputs, outputs].

Layers with few outputs, and the way back through ReLU, are compiled loops: too little work for matrix products. Sums
over a layer's inputs may be taken in another order than written, the same in every call.

Matrix products are taken on one thread, so that their bits are a function of shapes and numbers alone. torch hands
float32 products to MKL, which keeps to AVX2 on processors that are not Intel's. oneDNN, which torch carries as well,
uses all that the processor has, twice as fast where that is AVX-512; it compiles a program for each new shape in some
milliseconds, so that whoever calls it often should call it with few shapes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, no_type_check

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pacdp.chains.native import clipped, sparse
from pacdp.random.kernels import kernel

Array = np.ndarray[Any, np.dtype[Any]]
_FEW = 16
"""Outputs up to which a layer is a compiled loop."""
_ROWS = 16
"""Rows are a multiple of this: few shapes, and few zeros."""
_tensor = torch.from_numpy
_WORTH_A_PROGRAM = 2_000_000
"""Multiplications and additions from which on the faster product is worth compiling; part of the arithmetic."""


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
                narrow_forward(x, weight, bias, out)
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
            narrow_backward(slope, x, weight, weight_gradient, bias_gradient, back)
        else:
            if self.relu:
                through_relu(slope, self._out, bias_gradient)
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


@kernel(fastmath={"reassoc", "contract"})
@no_type_check
def _narrow_forward(x, columns, bias, out):
    for i in range(len(x)):
        row = x[i]
        for o in range(len(bias)):
            column, total = columns[o], bias[o]
            for j in range(row.size):
                total += row[j] * column[j]
            out[i, o] = total


@kernel(fastmath={"contract"})
@no_type_check
def _narrow_backward(slope, x, columns, sums, bias_gradient, into):
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


def narrow_forward(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, out: np.ndarray) -> None:
    """out = x W + b, for x [batch, inputs] and W [inputs, outputs]."""
    _narrow_forward(x, np.ascontiguousarray(weight.T), bias, out)


def narrow_backward(
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
    _narrow_backward(slope, x, columns, sums, bias_gradient, into)
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


def product(
    left: Float[Tensor, "rows inner"],
    right: Float[Tensor, "inner columns"],
    *,
    bias: Float[Tensor, " columns"] | None = None,
    out: Float[Tensor, "rows columns"] | None = None,
) -> Float[Tensor, "rows columns"]:
    """left right + bias, on one thread whatever torch is set to."""
    multiplications = left.shape[0] * left.shape[1] * right.shape[1]
    with one_thread():
        if _linear and left.dtype == torch.float32 and multiplications >= _WORTH_A_PROGRAM:
            found = _linear(left, right.mT, bias, "none", [], "")
            return found if out is None else out.copy_(found)
        if bias is None:
            return torch.mm(left, right, out=out)
        return torch.addmm(bias, left, right, out=out)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread within."""
    threads = torch.get_num_threads()
    if threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _find() -> Any:
    """The product of oneDNN, or None where this build of torch has none."""
    try:
        found = torch.ops.mkldnn._linear_pointwise
        found(torch.zeros(2, 3), torch.zeros(4, 3), None, "none", [], "")
    except (AttributeError, RuntimeError):
        return None
    return found


_linear: Any = _find()
