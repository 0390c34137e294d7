"""The examples that a certificate rests on: as tensors, with whose they are and which of a data set they are."""

import math
import sys
from collections.abc import Iterator
from dataclasses import field, replace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from pacdp.chains.pixels import Pixels
from pacdp.data import Dataset, Split
from pacdp.data.hashing import pair_hashes, precision_of, row_hashes
from pacdp.data.places import order_of
from pacdp.data.rows import READ_ONCE, Rows
from pacdp.objective import Objective
from pacdp.predictions.examples import Counted
from pacdp.predictions.order import told_by_order
from pacdp.store.record import Values, record

MAX = sys.float_info.max
"""The largest finite number; Python's whole numbers go on beyond."""
Unit = Literal["example", "person"]
Device = torch.device | str


@record(eq=False)
class BoundSet(Counted):
    """Examples, and whose they are where that is known: then people, not examples, are counted as independent.

    Attributes:
        inputs: [n, ...].
        labels: int64 [n].
        indices: which examples of the data set they are, where that is known.
        data_hash: hash of the data set that the indices count in, where it is known.
        people: int64 [n], the number of each example's person; None declares the examples independent.

    Raises ValueError when there are no examples, labels are not int64, or something is not one for each example.
    """

    inputs: Tensor
    labels: Tensor
    indices: Split | None = None
    data_hash: str = ""
    people: Int64[np.ndarray, " n"] | None = None
    _kept: Values = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        require_kinds(self, inputs=Tensor, labels=Tensor, indices=Split | None, data_hash=str,
                      people=np.ndarray | None)  # fmt: skip
        if not self.inputs.ndim or not self.labels.ndim:
            raise ValueError(
                "expected inputs [n, ...] and labels [n], got a single number; give an axis of examples"
            )
        n = self.n
        if len(self.inputs) != n or n == 0:
            got = f"{len(self.inputs)}, {n}"
            raise ValueError(f"expected one label for each of n >= 1 inputs, got {got}")
        if self.labels.dtype != torch.int64 or self.labels.ndim != 1:
            raise ValueError(
                f"expected int64 labels [n], got {self.labels.dtype} {list(self.labels.shape)}: smaller types wrap "
                "around and floats would be cut; call .long() on whole numbers"
            )
        if self.indices is not None and self.indices.n != n:
            raise ValueError(f"expected indices of the {n} examples, got {self.indices.n}")
        who = self.people
        if who is not None and (who.dtype != np.int64 or who.shape != (n,) or who.min() < 0):
            raise ValueError(
                "expected people as int64 [n], the number of each example's person, at least 0"
            )

    @classmethod
    def of(cls, inputs: Tensor, labels: Tensor, indices: Split | None = None) -> "BoundSet":
        """The examples at these places of a data set that is at hand as tensors, or all of them."""
        if indices is None:
            return cls(inputs=inputs, labels=labels)
        _require_within(indices, len(inputs), f"{len(inputs)} examples")
        places = torch.tensor(indices.indices)
        return cls(inputs=inputs[places], labels=labels[places], indices=indices)

    @classmethod
    def part(cls, data: Dataset, indices: Split | None = None) -> "BoundSet":
        """A data set with its people, or the examples at these places of it.

        Raises ValueError when an index lies beyond the data.
        """
        if indices is not None:
            _require_within(indices, data.n, f"the {data.n} examples of {data.name}")
        chosen = data if indices is None else data.subset(indices)
        inputs, labels = torch.tensor(chosen.inputs), torch.tensor(chosen.labels)
        return cls(
            inputs=inputs, labels=labels, indices=indices, data_hash=data.hash, people=chosen.people
        )

    @classmethod
    def behind(cls, objective: Objective) -> "BoundSet":
        """The examples of an objective, with the labels of its first chain; on the CPU.

        One set, with its hashes, for all objectives that share the examples, as long as nobody writes on these. Of
        examples that are kept in bytes it holds hashes and bytes alone.
        """
        if objective.pixels is not None:
            if "set" not in objective.kept:
                objective.kept["set"] = cls._of_pixels(objective.pixels, objective.labels[0])
            return objective.kept["set"]
        at = _versions(*objective.examples)
        if objective.kept.get("at") != at:
            inputs, labels = (each.cpu() for each in objective.examples)
            objective.kept.update(
                {"at": at, "set": cls(inputs=inputs, labels=labels.to(torch.int64))}
            )
        return objective.kept["set"]

    @classmethod
    def _of_pixels(cls, pixels: Pixels, labels: Int64[Tensor, " n"]) -> "BoundSet":
        # inputs are not held: whoever computes with those of ``meta`` gets an error and no number
        made = cls(inputs=torch.empty(pixels.shape, device="meta"), labels=labels)
        hashed = np.concatenate([row_hashes(block, name="inputs") for block in pixels.blocks()])
        pairs = pair_hashes(hashed, row_hashes(labels, name="labels"))
        axes, precision = pixels.shape[1:], precision_of(next(pixels.blocks()))
        rows = Rows.sorted(
            pairs, hashed, None, width=math.prod(axes), precision=precision, axes=axes
        )
        made._kept.update(at=made.version, rows=rows, pixels=pixels)
        return made

    def blocks(self) -> Iterator[Tensor]:
        """The inputs in one block, or in several where they are kept in bytes."""
        pixels = self._kept.get("pixels")
        yield from (self.inputs,) if pixels is None else pixels.blocks()

    @classmethod
    def of_records(cls, objective: Objective) -> "BoundSet":
        """The same with their people, where these are the records that a chain paid for."""
        found, people = cls.behind(objective), objective.people
        return found if people is None else replace(found, people=people.number)

    @property
    def n(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How many examples."""
        return len(self.labels)

    @property
    def rows(self) -> Rows:
        """Hashes of the examples, computed once as long as nobody writes on the tensors."""
        at = self.version
        if self._kept.get("at") != at:
            made = Rows.of(self.inputs, self.labels, self.people)
            self._kept.update(at=at, rows=replace(made, source=self._kept.get("source")))
        return self._kept["rows"]

    def read_from(self, source: Any) -> "BoundSet":
        """Itself, whose rows know the data set or loader that they were read from."""
        self._kept["source"] = source
        return self

    def read_once(self) -> "BoundSet":
        """Itself, with rows that prove nothing, since another reading may give others."""
        self._kept.update(at=self.version, rows=replace(self.rows, width=READ_ONCE))
        return self

    def read_again(self) -> "BoundSet":
        """Itself, to hash its rows anew: nothing counts what NumPy or ``.data`` wrote on tensors since they were."""
        kept = self._kept
        if "pixels" not in kept and ("rows" not in kept or kept["rows"].width != READ_ONCE):
            kept.pop("at", None)
        return self

    @property
    def version(self) -> int:
        """How often inputs and labels were written on in place."""
        return sum(_versions(self.inputs, self.labels))

    @property
    def told_by_order(self) -> tuple[str, ...]:
        """What the order of the labels tells of examples that are no independent draws, where no people are known."""
        if self.people is not None:
            return ()
        order = order_of(self._kept.get("source"), self.n)
        return tuple(told_by_order([], {"labels": self.labels.cpu().numpy()[order]}, []))

    def risk(self, name: str = "0-1 risk") -> str:
        """The risk that an error on these examples speaks of."""
        return name + self.new


def require_labels(labels: Int64[Tensor, " n"], classes: int) -> None:
    """Refuse labels that name no class: ValueError for a label outside 0 ... classes - 1."""
    if not len(labels):
        return
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise ValueError(
            f"expected labels from 0 to {classes - 1}, as the network's outputs say, got {low} to {high}"
        )


def _require_within(indices: Split, n: int, whose: str) -> None:
    require_kind("indices", indices, Split)
    if not indices.n or indices.indices[-1] >= n:
        raise ValueError(f"expected some of {whose}, got {indices.n} indices, some beyond them")


def _versions(*tensors: Tensor) -> tuple[int, ...]:
    return tuple(0 if each.is_inference() else each._version for each in tensors)


def require_kind(name: str, value: object, kind: Any) -> None:
    """Refuse a value of another type, booleans among numbers too; raises ValueError."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        wanted = getattr(kind, "__name__", str(kind))
        raise ValueError(
            f"expected {name} to be of type {wanted}, got {type(value).__name__} {str(value)[:60]!r}"
        )


def python_number(value: Any) -> Any:
    """A whole number of NumPy as one of Python; anything else as it is."""
    return int(value) if isinstance(value, np.integer) else value


def require_kinds(owner: object, **kinds: Any) -> None:
    """The same for attributes of a record."""
    for name, kind in kinds.items():
        require_kind(f"{type(owner).__name__}.{name}", getattr(owner, name), kind)


def require_counts(owner: object, *names: str) -> None:
    """Refuse attributes of a record that are no whole numbers from 1 to 2**31 - 1, and keep Python's; ValueError."""
    for name in names:
        object.__setattr__(owner, name, python_number(getattr(owner, name)))
    require_kinds(owner, **dict.fromkeys(names, int))
    for name in names:
        if not 1 <= getattr(owner, name) < 2**31:
            place = f"{type(owner).__name__}.{name}"
            raise ValueError(f"expected {place} from 1 to 2**31 - 1, got {getattr(owner, name)}")
