"""What a training run of this paper is: data with people in them, a network, a strategy, and an attack afterwards."""

from dataclasses import dataclass, field
from typing import Literal

from pacdp.cli.private.config import Budget, PrivateConfig, Sampling
from pacdp.cli.private.methods import Method


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
