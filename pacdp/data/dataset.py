"""Labelled examples, and whose they are where that is known.

Privacy of a person covers all of their examples at once, people and not examples are independent of each other, and a
test set measures what it should only if none of its people was trained on.
"""

import hashlib
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float32, Int64

from pacdp.data.errors import DataError
from pacdp.data.rows import Rows
from pacdp.data.splits import Split


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Labelled examples.

    Attributes:
        name: what errors and reports call it; it does not enter `hash`.
        inputs: float32 [n, ...], finite, read-only.
        labels: int64 [n], each in 0 .. classes - 1, read-only.
        classes: how many classes there are, at least 2.
        people: int64 [n], the number of each example's person, at least 0, read-only; None where nobody is known.
            Numbers need not be consecutive; the train and test set of one name share one numbering.
        unit: what counts as one independent record here, in the singular: "example", or with people what a person is
            called, such as "writer" or "patient".

    The arrays are read-only views, because `hash` is computed once. `torch.tensor(data.inputs)` copies them;
    `torch.from_numpy` would warn that it cannot write to them.
    """

    name: str
    inputs: Float32[np.ndarray, "n *shape"]
    labels: Int64[np.ndarray, " n"]
    classes: int
    people: Int64[np.ndarray, " n"] | None = None
    unit: str = "example"
    _hash: list[str] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the arrays; raises DataError naming the dataset and what is wrong with it."""
        if self.inputs.dtype != np.float32 or self.inputs.ndim < 2:
            raise DataError(f"inputs of {self.name} must be float32 [n, ...]; convert them.")
        if self.labels.dtype != np.int64 or self.labels.ndim != 1:
            raise DataError(f"labels of {self.name} must be int64 [n]; convert them.")
        if len(self.inputs) != len(self.labels):
            raise DataError(
                f"{self.name} has {len(self.inputs)} inputs and {len(self.labels)} labels; give one label each."
            )
        if len(self.labels) == 0:
            raise DataError(f"{self.name} has no examples; give at least one.")
        if self.classes < 2 or self.labels.min() < 0 or self.labels.max() >= self.classes:
            raise DataError(
                f"labels of {self.name} must lie in 0 .. classes - 1, classes being at least 2 "
                f"(got {self.labels.min()} .. {self.labels.max()} and {self.classes} classes); correct them."
            )
        if not np.isfinite(self.inputs).all():
            raise DataError(f"inputs of {self.name} hold values that are not finite; remove them.")
        self._check_people()
        for name in ("inputs", "labels", "people"):
            if getattr(self, name) is not None:
                view = getattr(self, name).view()
                view.setflags(write=False)
                object.__setattr__(self, name, view)

    def _check_people(self) -> None:
        if self.people is None:
            if self.unit != "example":
                raise DataError(f"unit of {self.name} is {self.unit!r} and people are not given; give both or neither.")
            return
        if self.people.dtype != np.int64 or self.people.ndim != 1:
            raise DataError(f"people of {self.name} must be int64 [n]; convert them.")
        if len(self.people) != self.n:
            raise DataError(
                f"{self.name} has {self.n} examples and people for {len(self.people)}; give each example one person."
            )
        if self.people.min() < 0:
            raise DataError(f"people of {self.name} must be at least 0, got {self.people.min()}; number people from 0.")
        if not self.unit.strip() or self.unit == "example":
            raise DataError(f"unit of {self.name} is {self.unit!r}; say what a person is, such as 'patient'.")

    @property
    def n(self) -> int:
        """How many examples."""
        return len(self.labels)

    @property
    def units(self) -> int:
        """How many independent records: distinct people, or examples where nobody is known."""
        return self.n if self.people is None else len(np.unique(self.people))

    @property
    def hash(self) -> str:
        """sha256 (hex) of shapes, dtypes, inputs and labels, as little-endian bytes; not of name and people."""
        if not self._hash:
            digest = hashlib.sha256()
            for array, dtype in ((self.inputs, "<f4"), (self.labels, "<i8")):
                digest.update(f"{dtype}{array.shape}".encode())
                digest.update(np.ascontiguousarray(array, dtype=dtype).data)
            self._hash.append(digest.hexdigest())
        return self._hash[0]

    @property
    def people_hash(self) -> str:
        """sha256 (hex) of `hash` and the people as little-endian bytes; not of name and unit. Empty without people."""
        if self.people is None:
            return ""
        digest = hashlib.sha256(f"grouped{self.hash}".encode())
        digest.update(np.ascontiguousarray(self.people, dtype="<i8").data)
        return digest.hexdigest()

    def rows(self, *, key: bytes = b"") -> Rows:
        """The hashes of the examples and of their people; see `Rows.of`."""
        return Rows.of(self.inputs, self.labels, self.people, key=key)

    def subset(self, split: Split) -> "Dataset":
        """The examples at ``split.indices``, in that order, with their people; all of them are the dataset itself."""
        if split.n == self.n:
            return self
        people = None if self.people is None else self.people[split.indices]
        return replace(self, inputs=self.inputs[split.indices], labels=self.labels[split.indices], people=people)


def require_other_people(train: Dataset, test: Dataset) -> None:
    """Refuse two sets that share a person; sets without people share none.

    Raises:
        DataError: they do; the sentence counts the shared people and names the first.
    """
    if train.people is None or test.people is None:
        return
    shared = np.intersect1d(train.people, test.people)
    if len(shared):
        several = f"{train.unit}s" if len(shared) > 1 else train.unit
        raise DataError(
            f"train and test of {train.name} share {len(shared)} {several} (the first has number {shared[0]}); move "
            f"all examples of a {train.unit} to one side."
        )
