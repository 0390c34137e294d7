"""Some examples at a time, from tuples or dictionaries of whatever holds numbers, and the hashes of their rows."""

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int64, UInt64
from torch import Tensor

from pacdp.data.hashing import FINER, pair_hashes, precision_of, require_no_mask, row_hashes
from pacdp.data.rows import READ_ONCE, SEVERAL, Rows
from pacdp.store.record import record
from pacdp.trials import require_arithmetic
from pacdp.trials.buffers import Holdings

Inputs = dict[str, Tensor]
"""What the network is called with, by keyword; one tensor that is given by itself has the keyword ""."""
_LABELS = ("labels", "label")
_PEOPLE = ("people", "person")
_WIDE = 16
"""Numbers of a row from which on equal rows are no chance."""
_PRIME = 2**61 - 1
"""Below which precisions of several inputs are one number, each input's a digit of it."""


@record(eq=False)
class Batch:
    """Some examples.

    Attributes:
        inputs: tensors [m, ...] by the keyword that the network takes them by.
        labels: [m, ...].
        people: int64 [m], the number of each example's person, or None.
    """

    inputs: Inputs
    labels: Tensor
    people: Int64[np.ndarray, " m"] | None = None

    @property
    def n(self) -> int:
        """How many examples."""
        return len(self.labels)

    @property
    def nbytes(self) -> int:
        """Bytes of the inputs."""
        return sum(one.nbytes for one in self.inputs.values())

    def at(self, places: Any) -> "Batch":
        """Some of the examples, by their places or as a slice."""
        return Batch(
            inputs={name: one[places] for name, one in self.inputs.items()},
            labels=self.labels[places],
            people=None if self.people is None else self.people[places],
        )

    def copied(self) -> "Batch":
        """The same in memory of its own."""
        inputs = {name: one.clone() for name, one in self.inputs.items()}
        return replace(self, inputs=inputs, labels=self.labels.clone())

    def hashes(self) -> UInt64[np.ndarray, " m"]:
        """One hash for each example's inputs; those of several keywords are hashed together, in the keywords' order."""
        first, *others = (
            row_hashes(self.inputs[name], name=name or "inputs") for name in sorted(self.inputs)
        )
        return functools.reduce(pair_hashes, others, first)

    @property
    def mark(self) -> int:
        """Which keywords the hashes are of; 0 for one alone, whose example is the same by any keyword or none."""
        if len(self.inputs) == 1:
            return 0
        return int(
            row_hashes(np.frombuffer(repr(sorted(self.inputs)).encode(), dtype=np.uint8)[None])[0]
        )


def _straight(values: Tensor) -> Bool[Tensor, " m"]:
    """Which rows are whole numbers with at most four bends, and few for their length."""
    rows = values.reshape(len(values), -1).double()
    most = min(4, max(0, rows.shape[1] - 2) // 2)
    return (rows == rows.round()).all(1) & ((rows.diff(n=2, dim=1) != 0).sum(1) <= most)


class Hashed:
    """Hashes of rows, and whose they are, as they grow batch by batch.

    Attributes:
        again: whether another reading gives the same rows.
    """

    def __init__(self) -> None:
        self.again = True
        self.inputs, self.pairs, self.owners = (list[np.ndarray]() for _ in range(3))
        self.mark, self._forms, self._first = 0, set[Any](), dict[str, np.uint64]()
        self._axes = list[int]()
        self._precisions, self._parts = dict[str, int](), dict[str, list[np.ndarray]]()

    def add(self, batch: Batch) -> None:
        """Take a batch in.

        Raises:
            ValueError: it names people and others do not, or the other way round, or has inputs of other keywords.
        """
        if self.pairs and (batch.people is None) == bool(self.owners):
            raise ValueError(
                "some batches name the people of their examples and others do not: give all or none"
            )
        if self.pairs and batch.mark != self.mark:
            raise ValueError(
                f"some batches have inputs by other keywords than {sorted(batch.inputs)}: give all the same"
            )
        self.mark = batch.mark
        given = batch.inputs.values()
        width = sum(math.prod(one.shape[1:]) for one in given)
        self._forms.add((width, *(batch.inputs[name].dtype for name in sorted(batch.inputs))))
        self._axes = [k for name in sorted(batch.inputs) for k in batch.inputs[name].shape[1:]]
        for name, one in sorted(batch.inputs.items()):
            both = self._precisions.get(name, 0), precision_of(one)
            self._precisions[name] = max(both, key=FINER.index)
        self.inputs.append(batch.hashes())
        self.pairs.append(pair_hashes(self.inputs[-1], row_hashes(batch.labels, name="labels")))
        if batch.people is not None:
            self.owners.append(batch.people)

    def require_unheld(self, batch: Batch, holdings: Holdings, whose: str) -> None:
        """Refuse a network in which examples of the batch that was taken in last stand; raises DataError.

        One tensor is told by all of its rows. Beside others, a row tells nothing that makes up an eighth of the batch,
        and two of it, or is the first of all again, as a table that all examples share, or that is whole numbers in a
        few straight pieces: a mask, kinds of tokens, places counted up. Networks have buffers of such rows whatever
        they were trained on.
        """
        for name, one in batch.inputs.items():
            if len(batch.inputs) == 1:
                holdings.require_none(one, hashes=self.inputs[-1], whose=whose)
                continue
            hashes = row_hashes(one)
            _, place, times = np.unique(hashes, return_inverse=True, return_counts=True)
            seldom = times[place] < max(2, batch.n / 8)
            own = seldom & (hashes != self._first.setdefault(name, hashes[0]))
            own &= ~_straight(one.cpu()).numpy()
            if one[0].numel() >= _WIDE:
                self._parts.setdefault(name, []).append(hashes[own])
            rows = one[torch.from_numpy(own)]
            if len(rows):
                holdings.require_none(rows, whose=whose)

    def shared(self) -> Iterator[str]:
        """Remarks on inputs beside others of which most rows come again, as items do that stand in several pairs."""
        for name, parts in self._parts.items():
            hashes = np.concatenate(parts)
            items = len(np.unique(hashes))
            if 2 * items <= len(hashes) >= sum(map(len, self.pairs)) / 2:
                yield (
                    f"{name!r} has {items} different rows in {len(hashes)} examples: if these are items that stand in "
                    "several pairs, the pairs are not independent and n counts each of them; keep pairs that share none"
                )

    @property
    def people(self) -> Int64[np.ndarray, " n"] | None:
        """Whose the rows are."""
        return np.concatenate(self.owners) if self.owners else None

    @property
    def rows(self) -> Rows:
        """All of them."""
        owners = None if self.people is None else row_hashes(self.people, name="people")
        width = next(iter(self._forms))[0] if len(self._forms) == 1 else SEVERAL
        width = width if self.again else READ_ONCE
        precision = functools.reduce(
            lambda digits, one: (8 * digits + one) % _PRIME, self._precisions.values()
        )
        return Rows.sorted(
            np.concatenate(self.pairs), np.concatenate(self.inputs), owners, self.mark, width=width,
            precision=precision, axes=self._axes
        )  # fmt: skip


def batch_of(given: Any, what: str) -> Batch:
    """A tuple (inputs, labels) or (inputs, labels, people), or a dictionary, as a batch."""
    if is_pair(given):
        inputs, labels, people = (*given, None)[:3]
    elif isinstance(given, Mapping):
        inputs = dict(given)
        labels, people = (
            next((inputs.pop(key) for key in keys if key in inputs), None)
            for keys in (_LABELS, _PEOPLE)
        )
        if labels is None:
            raise ValueError(
                f"{what} has no key 'labels', got {sorted(map(str, inputs))}: add the labels to the batch"
            )
        if twice := {*_LABELS, *_PEOPLE} & inputs.keys():
            raise ValueError(
                f"{what} has labels or people under two keys, and the network would be told those of {min(twice)!r}: "
                "leave one out"
            )
    else:
        raise ValueError(f"expected {what} as (inputs, labels), (inputs, labels, people) or a dictionary, got "
                         f"{type(given).__name__}: let the loader return one of these, or pass inputs and labels both "
                         "as arrays or tensors")  # fmt: skip
    named: Any = inputs if isinstance(inputs, Mapping) else {"": inputs}
    held = {str(name): dense(one, f"{name or 'inputs'} in {what}") for name, one in named.items()}
    found = dense(labels, f"labels in {what}")
    sizes = [len(one) if one.ndim else 1 for one in held.values()]
    alone = not found.ndim or not all(one.ndim for one in held.values())
    if alone or not sizes or set(sizes) != {len(found)}:
        raise ValueError(
            f"expected one label for each of n inputs in {what}, got {sizes} inputs and labels of shape "
            f"{list(found.shape)}: give every part an axis of examples, as a "
            "DataLoader gives it to single examples"
        )
    if people is None:
        return Batch(inputs=held, labels=found)
    require_no_mask(people, f"people in {what}")
    who, n = np.asarray(people.cpu() if isinstance(people, Tensor) else people), len(found)
    if who.dtype.kind not in "iu" or who.shape != (n,) or (n and int(who.min()) < 0):
        raise ValueError(
            f"expected people, the third of a tuple, in {what} as one whole number from 0 on for each of {n} examples, "
            f"got {who.dtype} {list(who.shape)}: number names over all rows that are compared, as "
            "numpy.unique(names, return_inverse=True)[1] does"
        )
    return Batch(inputs=held, labels=found, people=who.astype(np.int64))


def dense(value: Any, what: str) -> Tensor:
    """Anything of numbers as a dense tensor.

    Raises:
        ValueError: it is none, a masked array, or holds no values.
    """
    require_no_mask(value, what)
    if isinstance(value, np.ndarray) and (
        not value.flags.writeable or min(value.strides, default=0) < 0
    ):
        value = value.copy()  # torch takes no steps backwards, and would write where nobody may
    try:
        found = torch.as_tensor(value).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{what} are no tensor ({error}): number classes from 0 on, leave texts out, and give several inputs by "
            "keyword in a dictionary"
        ) from error
    if found.layout != torch.strided or found.is_nested or found.device.type == "meta":
        kind = "a nested one" if found.is_nested else found.layout
        raise ValueError(
            f"{what} must be a dense tensor that holds values, got {kind} on {found.device}: make it one"
        )
    if found.itemsize == 1:
        require_arithmetic(found, what)
    return found


def is_pair(given: Any) -> bool:
    """Whether this has the form (inputs, labels) or (inputs, labels, people)."""
    return isinstance(given, tuple | list) and len(given) in (2, 3)
