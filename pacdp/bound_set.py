"""Examples that a certificate rests on, and which of a data set they are."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pacdp.data import Dataset, Split, require_disjoint


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundSet:
    """``inputs`` [n, ...] and int64 ``labels`` [n] of equal length.

    Raises:
        ValueError: no examples, labels that are not int64, or labels or indices of another number.
    """

    inputs: Tensor
    labels: Tensor
    indices: Split | None = None
    """Which examples of the data set they are; needed where a prior learnt from others of them."""
    data_hash: str = ""
    """Of the data set that the indices count in, where it is known."""

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.labels) or len(self.labels) == 0:
            raise ValueError(
                f"expected one label for each of n >= 1 inputs, got {len(self.inputs)}, {len(self.labels)}"
            )
        if self.labels.dtype != torch.int64:
            raise ValueError(f"expected int64 labels, got {self.labels.dtype}: smaller types wrap around; call .long()")
        if self.indices is not None and self.indices.n != len(self.labels):
            raise ValueError(f"expected indices of the {len(self.labels)} examples, got {self.indices.n}")

    @classmethod
    def of(cls, inputs: Tensor, labels: Tensor, indices: Split, *, data_hash: str = "") -> "BoundSet":
        """The examples at these places of a data set that is at hand as tensors."""
        places = torch.tensor(indices.indices)
        return cls(inputs=inputs[places], labels=labels[places], indices=indices, data_hash=data_hash)

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

    def require_labels(self, classes: int) -> None:
        """Refuse labels that name no class.

        Raises:
            ValueError: a label outside 0 ... classes - 1.
        """
        low, high = int(self.labels.min()), int(self.labels.max())
        if low < 0 or high >= classes:
            raise ValueError(
                f"expected labels from 0 to {classes - 1}, as the network's outputs say, got {low} to {high}"
            )

    def require_new(self, other: "BoundSet") -> None:
        """Refuse to share examples with ``other``, as far as indices and values tell.

        Raises:
            DataError: indices of one data set, or of data sets without a hash, that are not disjoint.
            ValueError: the same examples.
        """
        apart = other_data(self.data_hash, other.data_hash)
        if self.indices is not None and other.indices is not None and not apart:
            require_disjoint(self.indices, other.indices, ("the test set's examples", "the bound's examples"))
        if self.inputs.shape == other.inputs.shape and torch.equal(self.inputs, other.inputs):
            raise ValueError("the test set holds the bound's own examples: give examples that nothing was fitted to")

    @property
    def n(self) -> int:
        """How many."""
        return len(self.labels)


def other_data(one: str, other: str) -> bool:
    """Whether two hashes are known to be of different data sets, in which indices mean different examples."""
    return bool(one and other and one != other)
