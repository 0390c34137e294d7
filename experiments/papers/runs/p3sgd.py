"""A training run of the P3SGD studies: data with people in them, a network, a strategy, and an attack afterwards."""

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, pad

from pacdp.cli.config import Runtime
from pacdp.cli.private.config import Budget, PrivateConfig, Sampling
from pacdp.cli.private.data import Examples, examples
from pacdp.cli.private.methods import Method
from pacdp.layers.dropout import ExampleDropout


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A linear layer, or two convolutions and a linear layer."""

    width: int = 0
    """Channels of the first convolution, half of the second's; 0 for the linear layer alone."""
    hidden: int = 0
    """Units between the convolutions and the outputs; 0 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropout:
    """Numbers set to zero: behind every activation, or at the inputs of a network that has none."""

    rate: float = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class DropBlock:
    """Squares set to zero, behind every convolution's activation."""

    rate: float = 0.3
    block_size: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """SGD without privacy, on shuffled minibatches of images whosever they are."""

    epochs: int = 20
    """0 leaves the first weights."""
    learning_rate: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 1e-4
    batch_size: int = 128
    regulariser: Dropout | DropBlock | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Private:
    """A private method whose unit is the person."""

    method: Method
    sampling: Sampling
    budget: Budget


Strategy = Plain | Private


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """Inversion of the trained network: of some images' features, and of every class."""

    images: int = 32
    """Attacked ones, of the training set and of the test set each, drawn evenly over either set."""
    pictures: int = 3
    """How many of them, and of the classes, are kept as pictures."""
    feature_steps: int = 300
    class_steps: int = 100
    class_step_size: float = 0.1
    """Euclidean length of a step over all pixels, whose range is 1."""
    smoothness: float = 0.05
    """Weight of the total variation in the search for features, whose distance is relative."""
    class_smoothness: float = 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """One run: everything that decides its numbers."""

    dataset: str = "digits"
    features: Literal["pixels", "spots"] = "pixels"
    network: Network = field(default_factory=Network)
    strategy: Strategy = field(default_factory=Plain)
    attack: Attack | None = None
    records: int = 10
    """How often, evenly spaced, loss and error on train and test data are recorded, beside the first weights'."""
    seed: int = 0
    """Of first weights, batches, masks and noise: whoever knows it can subtract the noise."""

    def __post_init__(self) -> None:
        if self.records < 1:
            raise ValueError(f"expected records >= 1, got {self.records}")
        if self.features == "spots" and (self.network.width or self.attack):
            raise ValueError("spots are no images: take network.width 0 and no attack, or features 'pixels'")
        plain = self.strategy if isinstance(self.strategy, Plain) else None
        if plain and isinstance(plain.regulariser, DropBlock) and not self.network.width:
            raise ValueError("DropBlock drops squares of convolutions' outputs: take network.width > 0")

    def private(self, strategy: Private) -> PrivateConfig:
        """The same run as the private trainers' configuration."""
        return PrivateConfig(dataset=self.dataset, features=self.features, method=strategy.method,
                             sampling=strategy.sampling, budget=strategy.budget, seed=self.seed, reproducible=True,
                             records=self.records)  # fmt: skip


class Material(NamedTuple):
    """Images or features and labels, of people of whom none is in both sets."""

    data: Examples
    inputs: Tensor
    labels: Tensor
    test_inputs: Tensor
    test_labels: Tensor

    @property
    def majority(self) -> float:
        """Share of the test set that naming its most frequent class gets right."""
        return float(self.test_labels.bincount().max()) / len(self.test_labels)


def material(config: Training, runtime: Runtime) -> Material:
    """The run's data. Raises DataError: see :func:`pacdp.data.load`."""
    data = examples(config.dataset, features=config.features, by_person=True, root=runtime.data_root)
    arrays = (data.train.inputs, data.train.labels, data.test.inputs, data.test.labels)
    return Material(data, *(torch.tensor(array, device=runtime.device) for array in arrays))


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
