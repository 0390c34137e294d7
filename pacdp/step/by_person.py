"""Sums of gradients person by person, where records are people: what one of them adds is that of all their examples.

A person's gradients are added up before anything is squared: ‖Σ_j g_j‖², over the examples that the batch has of
theirs, is what a certificate of the sum pays for ("Noisy sums" in docs/guarantees.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pacdp.chains.network import Network
from pacdp.data import Dataset
from pacdp.losses import Loss


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class People:
    """Whose the examples of a data set are.

    Attributes:
        number: int64 [n], of each example's person, as the data set has it.
        place: the same, counted from 0 without gaps.
        unit: what a person is called.
        digest: of the examples and their people.
    """

    number: Int[np.ndarray, " n"]
    place: Int[Tensor, " n"]
    unit: str
    digest: str

    @classmethod
    def of(cls, data: Dataset, device: torch.device) -> "People | None":
        """Of a data set that names them."""
        if data.people is None:
            return None
        places = np.unique(data.people, return_inverse=True)[1].astype(np.int64).ravel()
        place = torch.from_numpy(places).to(device)
        return cls(number=data.people, place=place, unit=data.unit, digest=data.people_hash)

    @property
    def count(self) -> int:
        """How many people there are."""
        return int(self.place.max()) + 1

    def to_dict(self) -> dict[str, Any]:
        """What a checkpoint says of them."""
        return {"unit": self.unit, "count": self.count, "hash": self.digest}

    def groups(self, examples: Int[Tensor, " batch"]) -> Sequence[Int[Tensor, " part"]]:
        """The drawn examples, person by person; one that was drawn twice stands there twice."""
        own = self.place[examples]
        order = torch.argsort(own, stable=True)
        sizes = torch.unique_consecutive(own[order], return_counts=True)[1]
        return examples[order].split(sizes.tolist())


def summed_by_person(
    network: Network,
    weights: Float[Tensor, " dim"],
    parts: Sequence[Int[Tensor, " part"]],
    labels: Int[Tensor, " n"],
    loss: Loss,
    *,
    divisor: float,
    into: Float[Tensor, " dim"],
) -> tuple[Float[Tensor, "2"], float]:
    """The sum of all gradients over ``divisor`` into ``into``; mean loss and error, and Σ over people of ‖their sum‖².

    Args:
        parts: examples of a person each, as :meth:`People.groups` gives them.
        labels: of all examples.
    """
    into.zero_()
    own, seen, squares = torch.empty_like(into)[None], torch.zeros(2, dtype=torch.float64), 0.0
    for part in parts:
        found = network.backward(weights[None], [network.gather(part)], [0], [labels[part]], loss, own)
        seen += found[:, 0].double().cpu() * len(part)
        own *= len(part)  # a mean becomes a sum
        into += own[0]
        squares += float(own[0].double().square().sum())
    into /= divisor
    return (seen / max(1, sum(map(len, parts)))).to(weights), squares
