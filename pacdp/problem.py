"""What is learnt from what: data, labels, network and loss, named so that a checkpoint can rebuild them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from pacdp.chains import Batching
from pacdp.data import Dataset, Progress, Split, load, make_splits, randomise
from pacdp.features.named import FEATURES, seen_through
from pacdp.losses import Loss, bounded_cross_entropy
from pacdp.models import Architecture, build
from pacdp.objective import Objective
from pacdp.store.canonical import JOINED_LATER, left_out


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A learning problem. Two equal problems have the same numbers everywhere."""

    dataset: str = "digits2"
    """A name that ``pacdp.data.load`` knows."""
    architecture: Architecture = field(default_factory=Architecture)
    train_size: int = 0
    """Examples to learn from, a seeded random subset of the data set's training part; 0 takes all of it."""
    split_seed: int = 0
    random_labels: float = 0.0
    """Share of the examples, train and test alike, whose labels are drawn anew, uniform over all classes."""
    label_seed: int = 0
    """Seed of that draw; the test set's is independent of the training set's."""
    max_loss: float = 4.0
    """Upper end of the bounded cross-entropy."""
    features: str = field(default="", metadata=JOINED_LATER)
    """Fixed features in place of the inputs, by a name of :data:`FEATURES`; no example enters them."""

    def __post_init__(self) -> None:
        if self.train_size < 0:
            raise ValueError(f"expected train_size >= 0, got {self.train_size}")
        if not 0 <= self.random_labels <= 1:
            raise ValueError(f"expected 0 <= random_labels <= 1, got {self.random_labels}")
        if self.features not in ("", *FEATURES):
            raise ValueError(
                f"expected features to be empty or one of {', '.join(FEATURES)}, got {self.features!r}"
            )

    def __str__(self) -> str:
        share = "" if self.random_labels == 1 else f"{self.random_labels:.0%} "
        return self.dataset + (f" with {share}random labels" if self.random_labels else "")

    def data(
        self, *, root: str | None = None, progressbar: bool | Progress = False
    ) -> tuple[Dataset, Dataset]:
        """Training and test set: the seeded subset, labels randomised where the problem says so."""
        return self.of(*load(self.dataset, root=root, progressbar=progressbar))

    def of(self, train: Dataset, test: Dataset) -> tuple[Dataset, Dataset]:
        """The same from the loaded data set."""
        if self.random_labels:
            train = randomise(train, fraction=self.random_labels, seed=2 * self.label_seed)
            test = randomise(test, fraction=self.random_labels, seed=2 * self.label_seed + 1)
        train = train.subset(self.split(train.n))
        return (
            (seen_through(train, self.features), seen_through(test, self.features))
            if self.features
            else (train, test)
        )

    def split(self, available: int) -> Split:
        """The indices, among ``available`` training examples, that are learnt from, with their hash."""
        size = self.train_size or available
        return make_splits(available, sizes={"train": size}, seed=self.split_seed)["train"]

    def loss(self, classes: int) -> Loss:
        """The bounded cross-entropy that training uses."""
        return bounded_cross_entropy(classes=classes, max_loss=self.max_loss)

    def model(self, data: Dataset, *, generator: torch.Generator) -> nn.Module:
        """A network for ``data`` with first weights from ``generator`` (on the CPU)."""
        return build(
            self.architecture, input_shape=data.shape, classes=data.classes, generator=generator
        )

    def objective(
        self, data: Dataset, *, generator: torch.Generator, batch_size: int, clip_norm: float | None = None,
        labels: Sequence[np.ndarray] | None = None, device: torch.device | str = "cpu", batching: Batching = "auto",
        bfloat16: bool = False, keep_norms: bool = False, every_record: bool = False, in_bytes: bool = False,
    ) -> Objective:  # fmt: skip
        """The empirical risk on ``data`` of a network whose first weights come from ``generator``."""
        return Objective(
            self.model(data, generator=generator), self.loss(data.classes), data, batch_size=batch_size,
            clip_norm=clip_norm, labels=labels, device=device, batching=batching, bfloat16=bfloat16,
            keep_norms=keep_norms, every_record=every_record, batch_statistics=self.architecture.norm == "batch",
            in_bytes=in_bytes,
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """JSON values only."""
        absent = left_out(self)
        return {name: value for name, value in asdict(self).items() if name not in absent}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Problem":
        """The inverse of :meth:`to_dict`."""
        architecture = dict(values["architecture"])
        architecture["hidden"] = tuple(architecture["hidden"])
        return cls(**{**values, "architecture": Architecture(**architecture)})
