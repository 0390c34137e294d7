"""A small convolutional network without normalisation, whose layers all take fresh weights for every example."""

import math
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallCNN:
    """Convolution 5x5, pool, two convolutions 3x3, pool, one hidden layer; ReLU throughout."""

    channels: tuple[int, int] = (24, 48)
    hidden: int = 128

    def __post_init__(self) -> None:
        if min(*self.channels, self.hidden) < 1:
            raise ValueError(f"expected positive widths, got channels {self.channels} and hidden {self.hidden}")


def small_cnn(
    settings: SmallCNN, *, input_shape: tuple[int, ...], classes: int, generator: torch.Generator
) -> nn.Module:
    """The network with weights from ``generator`` alone: He et al.'s uniform law, biases 0, last layer a tenth of it.

    Images with a side below 20 are padded so that convolutions keep their size.

    Raises:
        ValueError: inputs are not images [channels, height, width] of at least 8x8, or classes < 2.
    """
    if len(input_shape) != 3 or min(input_shape[1:]) < 8 or classes < 2:
        raise ValueError(f"expected images of at least 8x8 and classes >= 2, got {tuple(input_shape)} and {classes}")
    padded = min(input_shape[1:]) < 20
    sides = [side // 4 if padded else ((side - 4) // 2 - 4) // 2 for side in input_shape[1:]]
    first, second = settings.channels
    with torch.device("meta"):
        model = nn.Sequential(
            nn.Conv2d(input_shape[0], first, 5, padding=2 * padded), nn.MaxPool2d(2), nn.ReLU(),
            nn.Conv2d(first, second, 3, padding=int(padded)), nn.ReLU(),
            nn.Conv2d(second, second, 3, padding=int(padded)), nn.MaxPool2d(2), nn.ReLU(),
            nn.Flatten(), nn.Linear(second * math.prod(sides), settings.hidden), nn.ReLU(),
            nn.Linear(settings.hidden, classes),
        )  # fmt: skip
    model = model.to_empty(device="cpu")
    layers = [layer for layer in model if isinstance(layer, nn.Conv2d | nn.Linear)]
    with torch.no_grad():
        for layer in layers:
            limit = math.sqrt(6.0 / layer.weight[0].numel()) * (0.1 if layer is layers[-1] else 1.0)
            layer.weight.uniform_(-limit, limit, generator=generator)
            if layer.bias is not None:
                layer.bias.zero_()
    return model
