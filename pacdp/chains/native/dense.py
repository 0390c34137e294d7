"""Fully connected layers without an autograd graph: matrix products of torch, or compiled loops where these are faster.

Arrays are NumPy's, views of flat vectors; weights are input-major [inputs, outputs].
"""

from typing import Any

import numpy as np
import torch

from pacdp.chains.native import narrow, sparse, threads

Array = np.ndarray[Any, np.dtype[Any]]
_FEW = 16
"""Outputs up to which a layer is a compiled loop."""


class DenseLayer:
    """x W + b, with ReLU or without."""

    def __init__(self, inputs: int, outputs: int, *, relu: bool) -> None:
        self.relu = relu
        self.shapes = ((inputs, outputs), (outputs,))
        self.sizes = (inputs * outputs, outputs)
        self._x = self._out = np.empty((0, 0))

    def forward(self, x: Any, weight: Array, bias: Array, *, keep: bool, rows: sparse.Rows | None = None) -> Array:
        """Outputs [batch, outputs] of x [batch, ...] or, with the data set's ``rows``, of the examples x [batch]."""
        out = np.empty((len(x), len(bias)), weight.dtype)
        if rows is not None:
            threads.use(len(x) * self.sizes[0] // 16)
            sparse.forward(x, rows, weight, bias, out)
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

    def backward(self, slope: Array, weight: Array, weight_gradient: Array, bias_gradient: Array) -> Array:
        """The gradient by the layer's input; its own gradients go into the given views. ``slope`` is overwritten."""
        if len(bias_gradient) <= _FEW and not self.relu:
            into = np.empty_like(self._x)
            narrow.backward(slope, self._x, weight, weight_gradient, bias_gradient, into)
            return into
        self.last(slope, None, weight_gradient, bias_gradient)
        return torch.mm(_tensor(slope), _tensor(weight).t()).numpy()

    def last(self, slope: Array, columns: sparse.Columns | None, weight_gradient: Array, bias_gradient: Array) -> None:
        """As :meth:`backward`, for the first layer of the network, whose input needs no gradient."""
        if self.relu:
            narrow.through_relu(slope, self._out, bias_gradient)
        else:
            np.sum(slope, axis=0, out=bias_gradient)
        if columns is not None:
            threads.use(len(slope) * self.sizes[0] // 16)
            sparse.weight_gradient(columns, slope, weight_gradient)
        else:
            torch.mm(_tensor(self._x).t(), _tensor(slope), out=_tensor(weight_gradient))


_tensor = torch.from_numpy
