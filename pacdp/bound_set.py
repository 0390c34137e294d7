"""Examples that a certificate rests on, and which of a data set they are."""

from dataclasses import dataclass

import torch
from jaxtyping import Int64
from torch import Tensor

from pacdp.data import Dataset, Split


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundSet:
    """``inputs`` [n, ...] and int64 ``labels`` [n] of equal length.

    Raises:
        ValueError: no examples, or labels or indices of another number.
    """

    inputs: Tensor
    labels: Int64[Tensor, " n"]
    indices: Split | None = None
    """Which examples of the data set they are; needed where a prior learnt from others of them."""
    data_hash: str = ""
    """Of the data set that the indices count in, where it is known."""

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.labels) or len(self.labels) == 0:
            raise ValueError(
                f"expected one label for each of n >= 1 inputs, got {len(self.inputs)}, {len(self.labels)}"
            )
        if self.indices is not None and self.indices.n != len(self.labels):
            raise ValueError(f"expected indices of the {len(self.labels)} examples, got {self.indices.n}")

    @classmethod
    def of(cls, inputs: Tensor, labels: Tensor, indices: Split) -> "BoundSet":
        """The examples at these places of a data set that is at hand as tensors."""
        places = torch.tensor(indices.indices)
        return cls(inputs=inputs[places], labels=labels[places], indices=indices)

    @classmethod
    def part(cls, data: Dataset, indices: Split | None = None) -> "BoundSet":
        """A data set, or the examples at these places of it.

        Raises:
            ValueError: an index lies beyond the data.
        """
        if indices is None:
            return cls(inputs=torch.tensor(data.inputs), labels=torch.tensor(data.labels), data_hash=data.hash)
        if not indices.n or indices.indices[-1] >= data.n:
            raise ValueError(f"expected some of the {data.n} examples of {data.name}, got {indices.n} indices")
        chosen = data.subset(indices)
        return cls(inputs=torch.tensor(chosen.inputs), labels=torch.tensor(chosen.labels), indices=indices,
                   data_hash=data.hash)  # fmt: skip

    @property
    def n(self) -> int:
        """How many."""
        return len(self.labels)
