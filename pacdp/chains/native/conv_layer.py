"""Convolution, ReLU and pooling as one compiled layer over views of flat vectors."""

import math
from typing import Any

import numpy as np
import torch
from torch import nn

from pacdp.chains.native.convolution import ConvBlock

Array = np.ndarray[Any, np.dtype[Any]]


class ConvLayer:
    """Conv2d -> [ReLU] -> [MaxPool2d], in torch's own weight layout."""

    def __init__(
        self,
        layer: nn.Conv2d,
        *,
        relu: bool,
        pool: int,
        height: int,
        width: int,
        first: bool,
        batch_size: int,
        dtype: torch.dtype,
        each: bool = False,
    ) -> None:
        kernel = int(layer.kernel_size[0])
        self._block = ConvBlock(
            in_channels=layer.in_channels,
            out_channels=layer.out_channels,
            kernel=kernel,
            pool=pool,
            relu=relu,
            height=height,
            width=width,
            needs_input_gradient=not first,
            batch=batch_size,
            dtype=torch.empty(0, dtype=dtype).numpy().dtype,
            each=each,
        )
        shape = (layer.out_channels, layer.in_channels, kernel, kernel)
        self.shapes: tuple[tuple[int, ...], ...] = (shape, shape[:1])
        self.sizes = (math.prod(shape), layer.out_channels)
        self.output_shape = self._block.output_shape

    def forward(self, x: Array, weight: Array, bias: Array, *, keep: bool) -> Array:
        """Outputs [B, channels, H', W']; with ``keep`` they lie in memory that the next call overwrites."""
        return self._block.forward(x, weight, bias, keep=keep)

    def backward(
        self, slope: Array, weight: Array, weight_gradient: Array, bias_gradient: Array
    ) -> Array:
        """The gradient by the layer's input (empty for the first layer); its own gradients go into the given views."""
        outputs = slope.reshape(-1, *self.output_shape)
        found = self._block.backward(
            outputs, weight, weight_grad=weight_gradient, bias_grad=bias_gradient
        )
        return slope[:0] if found is None else found

    def propagate(self, slope: Array, weight: Array, squares: Array) -> Array:
        """As :meth:`backward`, of a layer with ``each``: gradients of single examples stay, their squares are added."""
        found = self._block.propagate(slope.reshape(-1, *self.output_shape), weight, squares)
        return slope[:0] if found is None else found

    def collect(self, scale: Array, weight_gradient: Array, bias_gradient: Array) -> None:
        """The sum of the kept gradients, each times its ``scale``."""
        self._block.collect(scale, weight_grad=weight_gradient, bias_grad=bias_gradient)
