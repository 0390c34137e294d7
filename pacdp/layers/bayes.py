"""Linear and convolutional layers with a Gaussian law over their weights.

w = mean + softplus(rho) ⊙ ε, one ε for the whole batch and pass. With g_i the gradient of example i's loss at w, that
example's gradients are g_i for the mean and g_i ⊙ ε ⊙ sigmoid(rho) for rho (Blundell et al. 2015). The ε of a pass is
kept until its backward pass, where ghost clipping needs it (:mod:`pacdp.step.ghost`). All parts of a batch have one ε
there: with an ε each, one example more would push others into the next part, and move their gradients too.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from pacdp.errors import require_positive

Draw = tuple[Tensor | None, ...]
"""The ε of weights and biases."""


class BayesLinear(nn.Module):
    """A linear layer with independent N(mean, softplus(rho)²) weights and biases.

    Args:
        layer: where the means, the sizes, dtype and device come from.
        initial_std: standard deviation of every weight at the start.
        generator: draws the weights, on the device of the layer: move the network there before.
    """

    drawn: list[Draw]
    """Draws of passes in training, until ghost clipping takes them."""

    def __init__(self, layer: nn.Linear, *, initial_std: float, generator: torch.Generator) -> None:
        super().__init__()
        _lay_out(self, layer, initial_std, generator)

    def forward(self, inputs: Tensor, draw: Draw | None = None) -> Tensor:
        """Outputs under freshly drawn weights, or under those of a draw."""
        return functional.linear(inputs, *_weights(self, draw or _drawn(self)))


class BayesConv2d(nn.Module):
    """The same for a two-dimensional convolution with numeric padding of zeros."""

    drawn: list[Draw]

    def __init__(self, layer: nn.Conv2d, *, initial_std: float, generator: torch.Generator) -> None:
        super().__init__()
        if isinstance(layer.padding, str) or layer.padding_mode != "zeros":
            raise ValueError(
                f"expected numeric padding of zeros, got {layer.padding!r}, {layer.padding_mode!r}"
            )
        self.geometry = {
            "stride": layer.stride,
            "padding": layer.padding,
            "dilation": layer.dilation,
        }
        self.kernel_size, self.groups = layer.kernel_size, layer.groups
        _lay_out(self, layer, initial_std, generator)

    def forward(self, inputs: Tensor, draw: Draw | None = None) -> Tensor:
        """Outputs under freshly drawn weights, or under those of a draw."""
        weights = _weights(self, draw or _drawn(self))
        return functional.conv2d(inputs, *weights, groups=self.groups, **self.geometry)  # pyright: ignore


BAYES_LAYERS = (BayesLinear, BayesConv2d)


def bayesian(
    module: nn.Module, *, initial_std: float = 0.05, generator: torch.Generator
) -> nn.Module:
    """``module`` with every ``nn.Linear`` and ``nn.Conv2d`` inside it replaced, in place; a bare layer is returned new.

    Each new layer's generator is seeded from ``generator``.
    """
    kinds: dict[type[nn.Module], Any] = {nn.Linear: BayesLinear, nn.Conv2d: BayesConv2d}
    if type(module) in kinds:
        seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
        own = torch.Generator(next(module.parameters()).device).manual_seed(seed)
        return kinds[type(module)](module, initial_std=initial_std, generator=own)
    for name, child in module.named_children():
        setattr(module, name, bayesian(child, initial_std=initial_std, generator=generator))
    return module


def laws(module: nn.Module) -> list[tuple[nn.Parameter, nn.Parameter]]:
    """(mean, rho) of all weights and biases that have a law, layer by layer."""
    pairs: list[tuple[nn.Parameter, nn.Parameter]] = []
    layers: list[Any] = [layer for layer in module.modules() if isinstance(layer, BAYES_LAYERS)]
    for layer in layers:
        pairs += [(layer.weight_mean, layer.weight_rho)]
        pairs += [(layer.bias_mean, layer.bias_rho)] if layer.bias_mean is not None else []
    return pairs


def weight_generators(module: nn.Module) -> list[torch.Generator]:
    """What draws the weights of all layers that have a law."""
    layers: list[Any] = [layer for layer in module.modules() if isinstance(layer, BAYES_LAYERS)]
    return [layer.generator for layer in layers]


def _lay_out(self: Any, layer: Any, initial_std: float, generator: torch.Generator) -> None:
    require_positive(initial_std=initial_std)
    rho = initial_std + math.log(-math.expm1(-initial_std))  # softplus(rho) = initial_std
    self.generator = generator
    self.drawn = []
    for name in ("weight", "bias"):
        values = getattr(layer, name)
        for part in ("mean", "rho"):
            start = (
                None
                if values is None
                else values.detach().clone()
                if part == "mean"
                else torch.full_like(values, rho)
            )
            self.register_parameter(
                f"{name}_{part}", None if start is None else nn.Parameter(start)
            )


def _drawn(layer: Any) -> Draw:
    means = layer.weight_mean, layer.bias_mean
    noise, bias = (None if mean is None else _noise_like(mean, layer.generator) for mean in means)
    draw = noise, bias
    if layer.training and torch.is_grad_enabled():
        layer.drawn.append(draw)
    return draw


def _weights(layer: Any, draw: Draw) -> tuple[Tensor, ...]:
    laws = (layer.weight_mean, layer.weight_rho), (layer.bias_mean, layer.bias_rho)
    return tuple(
        torch.addcmul(mean, functional.softplus(rho), noise)
        for (mean, rho), noise in zip(laws, draw, strict=True)
        if noise is not None
    )


def _noise_like(values: Tensor, generator: torch.Generator) -> Tensor:
    return torch.empty_like(values, requires_grad=False).normal_(generator=generator)
