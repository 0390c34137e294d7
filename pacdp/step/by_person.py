"""Gradients person by person, where records are people: what one of them adds is the mean of their examples' gradients.

The sum over people is divided by their number, and no step depends on how many examples there are: that would be a
function of the records, on which neither steps nor noise may depend ("Noisy sums" in docs/guarantees.md, people as
records).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from pacdp.chains.network import Network
from pacdp.data import Dataset
from pacdp.losses import Loss
from pacdp.step.units import records_of


class People(NamedTuple):
    """Whose the examples of a data set are."""

    number: Int[np.ndarray, " n"]
    """Of each example's person, as the data set has it."""
    parts: Sequence[Int[Tensor, " _"]]
    """The examples of each person."""
    unit: str
    """What a person is called."""
    digest: str
    """Of the examples and their people."""

    @classmethod
    def of(cls, data: Dataset, device: torch.device) -> "People":
        """The people of a data set that names them."""
        assert data.people is not None
        parts = [own.to(device) for own in records_of(torch.from_numpy(data.people))]
        return cls(data.people, parts, data.unit, data.people_hash)

    def to_dict(self) -> dict[str, Any]:
        """What a checkpoint says of them."""
        return {"unit": self.unit, "count": len(self.parts), "hash": self.digest}


def mean_over_people(
    network: Network,
    weights: Float[Tensor, " dim"],
    parts: Sequence[Int[Tensor, " _"]],
    labels: Int[Tensor, " n"],
    loss: Loss,
    *,
    into: Float[Tensor, " dim"],
) -> tuple[Float[Tensor, "2"], float]:
    """The mean over people of their mean gradient into ``into``; the means over people of their mean loss and error;
    and Σ over people of ‖their mean gradient‖².

    Args:
        parts: the examples of each person.
        labels: of all examples.
    """
    into.zero_()
    own, seen, squares = torch.empty_like(into)[None], torch.zeros(2, dtype=torch.float64), 0.0
    for part in parts:
        batches: list[Any] = [network.gather(part)]
        found = network.backward(weights[None], batches, [0], [labels[part]], loss, own)
        seen += found[:, 0].double().cpu()
        into += own[0]
        squares += float(own[0].double().square().sum())
    into /= len(parts)
    return (seen / len(parts)).to(weights), squares
