"""Labelled examples, and whose they are where that is known.

Privacy of a person covers all of their examples at once, people and not examples are independent of each other, and a
test set measures what it should only if none of its people was trained on.

Random labels in place of the true ones are the test that a bound must pass to say anything about generalisation (Zhang
et al., 2017).
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float32, Int64, UInt8

from pacdp.data.errors import DataError
from pacdp.data.rows import Rows
from pacdp.data.splits import LABEL_SUBSET, LABEL_VALUES, Split, permutation, words

Labels = Int64[np.ndarray, " n"]
People = Labels | None
"""The number of each example's person, where it is known."""
Pixels = UInt8[np.ndarray, "n *shape"]
_BLOCK = 1000
"""Examples whose numbers are made, hashed and looked at together."""


def numbers_of(pixels: Pixels) -> Float32[np.ndarray, "n *shape"]:
    """Bytes as the numbers in [0, 1] that networks read, value/255 in float32."""
    return np.divide(pixels, 255, dtype=np.float32)


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
    `torch.from_numpy` would warn that it cannot write to them. A data set of `of_pixels` holds bytes, and makes
    `inputs` when they are first asked for; `blocks` and `hash` do without.
    """

    name: str
    inputs: Float32[np.ndarray, "n *shape"]
    labels: Labels
    classes: int
    people: People = None
    unit: str = "example"
    _hash: list[str] = field(default_factory=list, init=False, repr=False)
    _pixels: list[Pixels] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def of_pixels(
        cls,
        name: str,
        pixels: Pixels,
        labels: Labels,
        classes: int,
        people: People = None,
        unit: str = "example",
    ) -> "Dataset":
        """Images whose inputs are `numbers_of` their bytes, in a quarter of the memory.

        Raises:
            DataError: pixels are no bytes [n, ...], or as for the constructor.
        """
        if pixels.dtype != np.uint8 or pixels.ndim < 2:
            raise DataError(
                f"pixels of {name} must be uint8 [n, ...]; give numbers to the constructor."
            )
        nothing = np.broadcast_to(np.float32(0), pixels.shape)  # of the shape, in four bytes
        made = cls(name, nothing, labels, classes, people, unit)
        pixels = pixels.view()
        pixels.setflags(write=False)
        made._pixels.append(pixels)
        object.__delattr__(made, "inputs")
        return made

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The inputs of bytes, made once."""
            if name != "inputs" or not self._pixels:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            made = numbers_of(self._pixels[0])
            made.setflags(write=False)
            object.__setattr__(self, "inputs", made)
            return made

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
        if not all(
            np.isfinite(self.inputs[i : i + _BLOCK]).all() for i in range(0, self.n, _BLOCK)
        ):
            raise DataError(f"inputs of {self.name} hold values that are not finite; remove them.")
        if self.people is None:
            if self.unit != "example":
                raise DataError(
                    f"unit of {self.name} is {self.unit!r} and people are not given; give both or neither."
                )
        elif self.people.dtype != np.int64 or self.people.ndim != 1:
            raise DataError(f"people of {self.name} must be int64 [n]; convert them.")
        elif len(self.people) != self.n:
            raise DataError(
                f"{self.name} has {self.n} examples and people for {len(self.people)}; give each example one person."
            )
        elif self.people.min() < 0:
            raise DataError(
                f"people of {self.name} must be at least 0, got {self.people.min()}; number people from 0."
            )
        elif not self.unit.strip() or self.unit == "example":
            raise DataError(
                f"unit of {self.name} is {self.unit!r}; say what a person is, such as 'patient'."
            )
        for name in ("inputs", "labels", "people"):
            if getattr(self, name) is not None:
                view = getattr(self, name).view()
                view.setflags(write=False)
                object.__setattr__(self, name, view)

    @property
    def n(self) -> int:
        """How many examples."""
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one example's inputs."""
        return self.inputs.shape[1:] if self.pixels is None else self.pixels.shape[1:]

    @property
    def pixels(self) -> Pixels | None:
        """The bytes of which inputs are made; None where inputs are held as numbers."""
        return self._pixels[0] if self._pixels else None

    def blocks(self) -> Iterator[Float32[np.ndarray, "m *shape"]]:
        """The inputs in turn, at most 1,000 examples at a time."""
        for start in range(0, self.n, _BLOCK):
            rows = slice(start, start + _BLOCK)
            yield self.inputs[rows] if self.pixels is None else numbers_of(self.pixels[rows])

    @property
    def units(self) -> int:
        """How many independent records: distinct people, or examples where nobody is known."""
        return self.n if self.people is None else len(np.unique(self.people))

    @property
    def hash(self) -> str:
        """sha256 (hex) of shapes, dtypes, inputs and labels, as little-endian bytes; not of name and people."""
        if not self._hash:
            digest = hashlib.sha256()
            digest.update(f"<f4{(self.n, *self.shape)}".encode())
            for block in self.blocks():
                digest.update(np.ascontiguousarray(block, dtype="<f4").data)
            digest.update(f"<i8{self.labels.shape}".encode())
            digest.update(np.ascontiguousarray(self.labels, dtype="<i8").data)
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

    def rows(self) -> Rows:
        """The hashes of the examples and of their people; see `Rows.of`."""
        return Rows.of(self.inputs, self.labels, self.people)

    def subset(self, split: Split) -> "Dataset":
        """The examples at ``split.indices``, in that order, with their people; all of them are the dataset itself."""
        return self if split.n == self.n else self._at(split.indices)

    def renamed(self, name: str, **changes: Any) -> "Dataset":
        """The same inputs under another name, with other ``labels``, or ``people`` and their ``unit``."""
        return self._at(slice(None), name=name, **changes)

    def _at(self, places: Any, **changes: Any) -> "Dataset":
        """The examples at some places, with changes; images in bytes stay so."""
        known = {
            "name": self.name,
            "labels": self.labels[places],
            "classes": self.classes,
            "people": None if self.people is None else self.people[places],
            "unit": self.unit,
            **changes,
        }
        if self.pixels is None:
            return Dataset(inputs=self.inputs[places], **known)
        return Dataset.of_pixels(pixels=self.pixels[places], **known)


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


def random_labels(labels: Labels, *, fraction: float, classes: int, seed: int) -> Labels:
    """Labels of which a fixed part was drawn anew, uniformly over all classes.

    A drawn label may equal the true one, so about `fraction * (1 - 1/classes)` of the labels change. Subset
    and draws depend on `seed`, `n` and `classes` alone: a larger fraction with the same seed draws for a
    superset of the examples and gives the common ones the same labels.

    Args:
        labels: int64 [n], each in 0 .. classes - 1.
        fraction: in [0, 1]; `round(fraction * n)` examples are drawn for.
        classes: how many classes there are, at least 2.
        seed: a non-negative integer.

    Returns:
        A new int64 array [n]; equal to `labels` for fraction 0.

    Raises:
        DataError: fraction outside [0, 1], too few classes, labels out of range, a bad seed.
    """
    if not 0.0 <= fraction <= 1.0:
        raise DataError(f"fraction must lie in [0, 1], got {fraction}.")
    if classes < 2:
        raise DataError(f"classes must be at least 2, got {classes}.")
    if labels.size and not (labels.min() >= 0 and labels.max() < classes):
        raise DataError(f"labels must lie in 0 .. {classes - 1}; pass the right number of classes.")
    n = len(labels)
    chosen = permutation(n, seed=seed, stream=LABEL_SUBSET)[: round(fraction * n)]
    # 64-bit words modulo the classes: uniform to within classes / 2**64
    drawn = (words(n, seed=seed, stream=LABEL_VALUES) % np.uint64(classes)).astype(np.int64)
    mixed = labels.astype(np.int64, copy=True)
    mixed[chosen] = drawn[chosen]
    return mixed


def randomise(dataset: Dataset, *, fraction: float, seed: int) -> Dataset:
    """The same inputs under `random_labels`; the name says so, as in "mnist2+random1.0@7".

    Raises:
        DataError: as `random_labels`.
    """
    labels = random_labels(dataset.labels, fraction=fraction, classes=dataset.classes, seed=seed)
    return dataset.renamed(f"{dataset.name}+random{float(fraction)}@{seed}", labels=labels)
