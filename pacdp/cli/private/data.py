"""Data for private training as tensors, with the person behind every example where the method protects people."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from pacdp.cli.console import progress
from pacdp.cli.serial import record
from pacdp.data import Dataset, Progress, load
from pacdp.errors import CheckpointError
from pacdp.features import embed
from pacdp.features.named import seen_through
from pacdp.features.spots import spot_features

_MADE_UP = 12
"""Consecutive examples that count as one person, in data sets without people."""


@record
class Examples:
    """Training examples, the people they belong to, and test examples of other people."""

    train: Dataset
    test: Dataset
    people: Tensor | None
    """The person's number for each training example, (n,), int64."""
    unit: str
    """Whom privacy is counted by."""

    @property
    def units(self) -> int:
        """How many of them there are in the training set."""
        return self.train.n if self.people is None else len(self.people.unique())

    def tensors(self) -> TensorDataset:
        """The training examples as (input, label) pairs."""
        return TensorDataset(torch.tensor(self.train.inputs), torch.tensor(self.train.labels))


def examples(
    name: str, *, features: str = "pixels", by_person: bool, root: str | None = None,
    progressbar: bool | Progress = False,
) -> Examples:  # fmt: skip
    """The data set of that name, as images or as fixed features of each.

    Where people are needed and the data set names none, twelve consecutive examples are made up to be one person's;
    ``unit`` says so.

    Raises:
        DataError: see :func:`pacdp.data.load`.
    """
    if features == "pixels":
        train, test = load(name, root=root, progressbar=progressbar)
    else:
        train, test = _in_features(name, features, root, progressbar)
    people, unit = None, "example"
    if by_person and train.people is None:
        people, unit = torch.arange(train.n) // _MADE_UP, "made-up person"
    elif by_person:
        people, unit = torch.tensor(train.people), train.unit
    return Examples(train=train, test=test, people=people, unit=unit)


def require_trained_on(data: Dataset, path: Path | str, header: Mapping[str, Any]) -> None:
    """Refuse training examples that a private run's checkpoint did not learn from.

    Raises:
        CheckpointError: they are others.
    """
    learnt = (header.get("about") or {}).get("data") or {}
    if data.hash != learnt.get("train"):
        raise CheckpointError(
            f"{path} was trained on other data than {data.name} is here: give the data it was trained on"
        )


# a study's runs of one process share them; to read and recognise the images takes seconds
@lru_cache(maxsize=2)
def _in_features(
    name: str, features: str, root: str | None, progressbar: bool | Progress
) -> tuple[Dataset, ...]:
    seen = list[Dataset]()
    for data in load(name, root=root, progressbar=progressbar):
        if features == "spots":
            data = replace(data, inputs=spot_features(data.inputs))
        elif features == "backbone":
            said = "embedding images, which are kept for later runs"
            with progress(said, data.n) as advance:
                rows = embed(data.inputs, progress=lambda done, _, to=advance: to(done))
            data = replace(data, inputs=rows)
        else:
            data = seen_through(data, features)
        seen.append(replace(data, name=f"{data.name}-{features}"))
    return tuple(seen)
