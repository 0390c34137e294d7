"""The networks of the P3SGD studies: small enough for few people and much noise, the same for every strategy.

DropBlock (Ghiasi, Lin and Le 2018, Algorithm 1): dropout of squares of feature maps.

Every place of a map where a square of side b fits is the square's corner with probability

    γ = (1 - keep_prob)/b² · side²/(side - b + 1)²,

each channel of each example by itself; what no square covers is scaled by (numbers)/(numbers kept). With b = 1 this is
dropout, up to that scale.
"""

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, pad

from experiments.papers.runs.p3sgd_config import DropBlock, Dropout, Network
from pacdp.layers.dropout import ExampleDropout

_MAP = 14
"""The first convolution strides so that its maps have about this side."""


def network(
    settings: Network, input_shape: tuple[int, ...], classes: int, *, generator: torch.Generator
) -> nn.Sequential:
    """First weights from ``generator``: a linear layer begins at zero, others uniform in ±1/√fan_in.

    The convolutional network: 3x3 convolution, tanh, pool, 3x3 convolution, tanh (a square map ends here, what
    :func:`maps` gives), pool, then one or two fully connected layers.

    Raises:
        ValueError: convolutions over anything but images with sides of at least 8.
    """
    if not settings.width:
        layers = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(input_shape), classes))
        for parameter in layers.parameters():
            nn.init.zeros_(parameter)
        return layers
    if len(input_shape) != 3 or min(input_shape[1:]) < 8:
        raise ValueError(f"expected images [channels, height, width] of at least 8x8, got shape {tuple(input_shape)}")
    channels, *sides = input_shape
    stride, width = max(1, min(sides) // _MAP), settings.width
    last = math.prod(((side - 1) // stride + 1) // 4 for side in sides) * 2 * width
    head = [nn.Linear(last, settings.hidden), nn.Tanh()] if settings.hidden else []
    layers = nn.Sequential(
        nn.Conv2d(channels, width, 3, stride=stride, padding=1), nn.Tanh(), nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.Tanh(), nn.MaxPool2d(2),
        nn.Flatten(), *head, nn.Linear(settings.hidden or last, classes),
    )  # fmt: skip
    _initialise(layers, generator)
    return layers


def maps(layers: nn.Sequential) -> nn.Sequential:
    """The network up to the activation of its last convolution, or all of it where there is none."""
    places = [k for k, layer in enumerate(layers) if isinstance(layer, nn.Conv2d)]
    return nn.Sequential(*list(layers)[: places[-1] + 2]) if places else layers


def regularised(
    layers: nn.Sequential, regulariser: Dropout | DropBlock | None, *, generator: torch.Generator
) -> nn.Sequential:
    """The same layers, sharing their weights, with the regulariser's between them."""
    match regulariser:
        case None:
            return layers
        case Dropout(rate=rate):
            mask = ExampleDropout(rate, generator=generator)
            behind: list[nn.Module] = [layer for layer in layers if isinstance(layer, nn.Tanh)]
            return _behind(layers, behind or [layers[0]], mask)
        case DropBlock(rate=rate, block_size=block_size):
            behind = [activation for layer, activation in pairwise(layers) if isinstance(layer, nn.Conv2d)]
            return _behind(layers, behind, DropBlock2d(rate, block_size, generator=generator))


def _behind(layers: nn.Sequential, places: list[nn.Module], added: nn.Module) -> nn.Sequential:
    return nn.Sequential(*(part for layer in layers for part in ((layer, added) if layer in places else (layer,))))


@torch.no_grad()
def _initialise(layers: nn.Sequential, generator: torch.Generator) -> None:
    for layer in layers:
        if isinstance(layer, nn.Linear | nn.Conv2d):
            bound = 1.0 / math.sqrt(layer.weight[0].numel())
            for parameter in layer.parameters():
                parameter.uniform_(-bound, bound, generator=generator)


class DropBlock2d(nn.Module):
    """Sets squares of side ``block_size`` (at most the map's own) to zero, in training mode."""

    def __init__(self, rate: float, block_size: int, *, generator: torch.Generator) -> None:
        """``rate`` is about the share of numbers dropped (a little less, since squares overlap)."""
        super().__init__()
        if not 0.0 <= rate < 1.0:
            raise ValueError(f"expected 0 <= rate < 1, got {rate}")
        if block_size < 1:
            raise ValueError(f"expected block_size >= 1, got {block_size}")
        self.rate, self.block_size, self.generator = rate, block_size, generator

    def forward(self, maps: Tensor) -> Tensor:
        """Maps (examples, channels, height, width), some squares of them zero."""
        if not self.training or self.rate == 0.0:
            return maps
        kept = self._kept(maps)
        return maps * kept * (kept.numel() / kept.sum().clamp(min=1.0))

    @torch.no_grad()
    def _kept(self, maps: Tensor) -> Tensor:
        height, width = maps.shape[-2:]
        side = min(self.block_size, height, width)
        places = (height - side + 1, width - side + 1)
        gamma = min(1.0, self.rate / side**2 * height * width / (places[0] * places[1]))
        corners = maps.new_empty((*maps.shape[:2], *places)).bernoulli_(gamma, generator=self.generator)
        around = side - 1
        return 1.0 - max_pool2d(pad(corners, (around, around, around, around)), side, stride=1)
