"""Convolution, ReLU and pooling as one compiled layer over views of flat vectors."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from pacdp.chains.native.convolution import ConvBlock


class ConvLayer:
    """Conv2d -> [ReLU] -> [MaxPool2d], in torch's own weight layout."""

    def __init__(
        self, layer: nn.Conv2d, *, relu: bool, pool: int, height: int, width: int, first: bool, batch_size: int,
        dtype: torch.dtype,
    ) -> None:  # fmt: skip
        kernel = int(layer.kernel_size[0])
        self._block = ConvBlock(
            in_channels=layer.in_channels, out_channels=layer.out_channels, kernel=kernel, pool=pool, relu=relu,
            height=height, width=width, needs_input_gradient=not first, batch=batch_size,
            dtype=torch.empty(0, dtype=dtype).numpy().dtype,
        )  # fmt: skip
        shape = (layer.out_channels, layer.in_channels, kernel, kernel)
        self.shapes: tuple[tuple[int, ...], ...] = (shape, shape[:1])
        self.sizes = (math.prod(shape), layer.out_channels)
        self.output_shape = self._block.output_shape

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor, *, keep: bool) -> Tensor:
        """Outputs [B, channels, H', W']; with ``keep`` they lie in memory that the next call overwrites."""
        return torch.from_numpy(self._block.forward(x.numpy(), weight.numpy(), bias.numpy(), keep=keep))

    def backward(self, slope: Tensor, weight: Tensor, weight_gradient: Tensor, bias_gradient: Tensor) -> Tensor:
        """The gradient by the layer's input; its own gradients go into the given views."""
        found = self._backward(slope, weight, weight_gradient, bias_gradient)
        assert found is not None
        return torch.from_numpy(found)

    def last(self, slope: Tensor, x: Any, weight: Tensor, weight_gradient: Tensor, bias_gradient: Tensor) -> None:
        """As :meth:`backward`, for the first layer of the network, whose input needs no gradient."""
        self._backward(slope, weight, weight_gradient, bias_gradient)

    def _backward(self, slope: Tensor, weight: Tensor, weight_gradient: Tensor, bias_gradient: Tensor) -> Any:
        outputs = slope.reshape(-1, *self.output_shape).numpy()
        return self._block.backward(
            outputs, weight.numpy(), weight_grad=weight_gradient.numpy(), bias_grad=bias_gradient.numpy()
        )
