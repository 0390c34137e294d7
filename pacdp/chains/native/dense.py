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
_where_positive: Any = torch.ops.aten.threshold_backward.grad_input
_WORTH_A_PROGRAM = 2_000_000
"""Multiplications and additions from which on the faster product is worth compiling; part of the arithmetic."""


class DenseLayer:
    """x W + b, with ReLU or without; the ``first`` layer of a network needs no gradient by its input.

    Its gradients are made in two halves: each example's squared norm first, then the sum over examples.

    Args:
        each: for sums of scaled gradients: arrays have :func:`padded` rows, so that products come in few shapes. The
            rows beyond the examples are exact zeros, in inputs and in slopes, and add nothing to a gradient.
    """

    def __init__(self, *, relu: bool, first: bool, each: bool = False) -> None:
        self.relu, self.first, self.each = relu, first, each
        self._product: Any = product if each else torch.mm
        self._x: Any = None
        self._out = self._slope = np.empty((0, 0))

    def forward(
        self,
        x: Array | sparse.Batch,
        weight: Array,
        bias: Array,
        count: int | None = None,
        *,
        keep: bool = True,
    ) -> Array:
        """Outputs of x [batch, ...], or of the examples of a data set of few non-zeros.

        Args:
            count: examples; rows of x behind them are padding.
            keep: remember what the way back needs.
        """
        count = len(x) if count is None else count
        rows = padded(count) if self.each else count
        if isinstance(x, sparse.Batch):
            out = np.empty((rows, len(bias)), weight.dtype)
            sparse.add(x.by_example, weight, bias, out[:count])
        else:
            x = filled(x.reshape(len(x), -1), rows)
            out = self._outputs(x, weight, bias)
        if self.relu:
            torch.relu_(_tensor(out))
        out[count:] = 0
        if keep:
            self._x, self._out = x, out
        return out

    def _outputs(self, x: Array, weight: Array, bias: Array) -> Array:
        if self.each:
            return product(_tensor(x), _tensor(weight), bias=_tensor(bias)).numpy()
        if len(bias) <= _FEW:
            return _narrow(x, np.ascontiguousarray(weight.T), bias)
        return torch.addmm(_tensor(bias), _tensor(x), _tensor(weight)).numpy()

    def propagate(self, slope: Array, weight: Array, squares: Array | None = None) -> Array:
        """The gradient by the layer's input, from that by its outputs, which is overwritten; of the first layer, whose
        input needs none, that itself.

        Args:
            squares: float64 [batch]; where given, it gains the squared norm of each example's part of the layer's own
                gradients.
        """
        slope = self._slope = filled(slope, len(self._out))
        if self.relu:
            given = _tensor(slope)
            _where_positive(given, _tensor(self._out), 0, grad_input=given)
        if squares is not None:
            x = self._x
            inputs = x.squares if isinstance(x, sparse.Batch) else clipped.row_squares(x)
            clipped.add_squares(slope, inputs, squares)
        if self.first:
            return slope
        if self._is_narrow:
            return _combined(slope, np.ascontiguousarray(weight.T))
        return self._product(_tensor(slope), _tensor(weight).mT).numpy()

    def collect(self, scale: Array | None, weight_gradient: Array, bias_gradient: Array) -> None:
        """The sum over examples of ``scale`` [batch], or 1, times their gradients. The slopes are spent."""
        x, slope = self._x, self._slope
        if scale is not None:
            clipped.scale_rows(slope, scale, bias_gradient, np.finfo(scale.dtype).tiny)
        elif self._is_narrow:
            bias_gradient[:] = _combined(np.ones((1, len(slope)), slope.dtype), slope)[0]
        else:
            np.sum(slope, axis=0, out=bias_gradient)
        if isinstance(x, sparse.Batch):
            zeros = np.zeros_like(bias_gradient)
            sparse.add(x.by_input, slope[: len(x)], zeros, weight_gradient)
        elif self._is_narrow:
            weight_gradient[...] = _combined(np.ascontiguousarray(slope.T), x).T
        else:
            self._product(_tensor(x).mT, _tensor(slope), out=_tensor(weight_gradient))

    @property
    def _is_narrow(self) -> bool:
        return not (self.each or self.relu or self.first) and self._out.shape[1] <= _FEW


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
def _narrow(x, columns, bias):
    """out[i, o] = bias[o] + x[i] · columns[o]."""
    out = np.empty((len(x), len(bias)), x.dtype)
    for i in range(len(x)):
        row = x[i]
        for o in range(len(bias)):
            column, total = columns[o], bias[o]
            for j in range(row.size):
                total += row[j] * column[j]
            out[i, o] = total
    return out


@kernel(fastmath={"contract"})
@no_type_check
def _combined(factors, rows):
    """out[i] = Σ_o factors[i, o] rows[o], in this order."""
    out = np.zeros((len(factors), rows.shape[1]), rows.dtype)
    for i in range(len(factors)):
        total = out[i]
        for o in range(len(rows)):
            factor, row = factors[i, o], rows[o]
            for j in range(row.size):
                total[j] += factor * row[j]
    return out


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
