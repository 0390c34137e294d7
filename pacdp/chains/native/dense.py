"""Fully connected layers without an autograd graph: matrix products of torch, or compiled loops on sparse inputs."""

from typing import Any

import torch
from torch import Tensor

from pacdp.chains.native import sparse, threads


class DenseLayer:
    """x W + b, with ReLU or without; W is input-major [inputs, outputs]."""

    def __init__(self, inputs: int, outputs: int, *, relu: bool) -> None:
        self.relu = relu
        self.shapes = ((inputs, outputs), (outputs,))
        self.sizes = (inputs * outputs, outputs)

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor, *, keep: bool) -> Tensor:
        x = x.flatten(1)
        out = torch.addmm(bias, x, weight)
        return self._activated(x, out, keep)

    def forward_sparse(self, examples: Any, rows: sparse.Rows, weight: Tensor, bias: Tensor, *, keep: bool) -> Tensor:
        out = weight.new_empty((len(examples), self.shapes[0][1]))
        threads.use(len(examples) * self.sizes[0] // 16)
        sparse.forward(examples, *rows, weight.numpy(), bias.numpy(), out.numpy())
        return self._activated(None, out, keep)

    def _activated(self, x: Tensor | None, out: Tensor, keep: bool) -> Tensor:
        if self.relu:
            out.relu_()
        if keep:
            self._x, self._out = x, out
        return out

    def backward(self, slope: Tensor, weight: Tensor, weight_gradient: Tensor, bias_gradient: Tensor) -> Tensor:
        """The gradient by the layer's input; its own gradients go into the given views."""
        slope = self.last(slope, self._x, weight, weight_gradient, bias_gradient)
        return torch.mm(slope, weight.t())

    def last(self, slope: Tensor, x: Any, weight: Tensor, weight_gradient: Tensor, bias_gradient: Tensor) -> Tensor:
        """As :meth:`backward`, for the first layer of the network, whose input needs no gradient."""
        slope = self._through_relu(slope)
        torch.mm(x.flatten(1).t(), slope, out=weight_gradient)
        torch.sum(slope, dim=0, out=bias_gradient)
        return slope

    def last_sparse(
        self, slope: Tensor, columns: sparse.Columns, weight_gradient: Tensor, bias_gradient: Tensor
    ) -> None:
        """As :meth:`last`, from the non-zero inputs."""
        slope = self._through_relu(slope)
        threads.use(len(slope) * self.sizes[0] // 16)
        sparse.weight_gradient(*columns, slope.numpy(), weight_gradient.numpy())
        torch.sum(slope, dim=0, out=bias_gradient)

    def _through_relu(self, slope: Tensor) -> Tensor:
        return torch.ops.aten.threshold_backward(slope, self._out, 0) if self.relu else slope
