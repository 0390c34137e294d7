"""Examples from wherever a user keeps them: tensors, arrays, data sets, loaders, batches as tuples or as dictionaries.

Everything is read once, batch by batch, so that what is held at a time is one batch. Of a memory-mapped file, too, no
more than a batch is held: its pages are handed back to the system as soon as they were read.
"""

import functools
import math
import mmap
from collections.abc import Iterator, Mapping, Sized
from dataclasses import replace
from itertools import count
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Bool, Int64, UInt64
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    default_collate,
)

from pacdp.certify.examples import BoundSet
from pacdp.data import Dataset as Images
from pacdp.data.hashing import pair_hashes, precision_of, require_no_mask, row_hashes
from pacdp.data.places import require_each_once
from pacdp.data.rows import SEVERAL, Rows
from pacdp.errors import said
from pacdp.store.record import record
from pacdp.trials import kept_draws, require_arithmetic, twin
from pacdp.trials.buffers import Holdings

Inputs = dict[str, Tensor]
"""What the network is called with, by keyword; one tensor that is given by itself has the keyword ""."""
BATCH = 250
"""Examples at a time, where neither a loader nor the caller says how many; layers of more leave the caches."""
_TWICE = 32
"""Examples of a data set that are read twice, or put into batches twice."""
_OF_ROWS = 1e-5
"""Rounding, which other batches may bring."""
MIXED = (
    "what becomes of an example depends on the others that collate_fn of the loader, or __getitems__ of its data set, "
    "puts into its batch, or on random numbers that it draws: let it look at each by itself, pad to one length for "
    "all, and leave random transforms out"
)
_LABELS = ("labels", "label")
_PEOPLE = ("people", "person")
FORMS = (
    "(inputs, labels) or (inputs, labels, people) as tensors or arrays, a BoundSet, a Dataset of such pairs, or "
    "a DataLoader whose batches are such tuples or dictionaries with the key 'labels'"
)


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
    """Hashes of rows, and whose they are, as they grow batch by batch."""

    def __init__(self) -> None:
        self.inputs, self.pairs, self.owners = (list[np.ndarray]() for _ in range(3))
        self.mark, self._forms, self._first = 0, set[Any](), dict[str, np.uint64]()
        self._precision = 0

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
        self._precision = max(self._precision, *map(precision_of, given))
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
            rows = one[torch.from_numpy(own) & ~_straight(one.cpu())]
            if len(rows):
                holdings.require_none(rows, whose=whose)

    @property
    def people(self) -> Int64[np.ndarray, " n"] | None:
        """Whose the rows are."""
        return np.concatenate(self.owners) if self.owners else None

    @property
    def rows(self) -> Rows:
        """All of them."""
        owners = None if self.people is None else row_hashes(self.people, name="people")
        width = next(iter(self._forms))[0] if len(self._forms) == 1 else SEVERAL
        return Rows.sorted(
            np.concatenate(self.pairs), np.concatenate(self.inputs), owners, self.mark, width=width,
            precision=self._precision
        )  # fmt: skip


def require_steady(data: Any, name: str) -> None:
    """Refuse a data set that gives other rows at every reading, as one with random transforms does.

    A hash is then of one reading and not of an example, and shows nothing of what others saw. Some examples are read
    twice; what can be read once alone is taken as it comes.

    Args:
        data: anything that can be data.
        name: of the argument, for the error's sentence.

    Raises:
        ValueError: it does.
    """
    if not isinstance(data, DataLoader | Dataset):
        return
    loader = data if isinstance(data, DataLoader) else DataLoader(data, batch_size=1)
    try:
        places = _some(loader)
        how: Any = (
            {"batch_size": None, "sampler": places * 2}
            if loader.batch_sampler is None
            else {"batch_sampler": [places, places]}
        )
        hashes = [_batch(one, name).hashes() for one in _read(loader, loader.collate_fn, **how)]
        first, again = hashes[: len(hashes) // 2], hashes[len(hashes) // 2 :]
    except Exception:  # it is said where all of the data are read, and a stream has no places
        return
    if not all(map(np.array_equal, first, again)):
        raise ValueError(
            f"{name} must be the same rows at every reading, where they are compared with others, and its "
            f"{type(loader.dataset).__name__} draws them anew: leave its random transforms out"
        )


def _some(loader: DataLoader[Any]) -> list[int]:
    """Some places of a loader's data set, from its first to its last."""
    n = len(cast(Any, loader.dataset))
    return np.linspace(0, n - 1, min(n, _TWICE)).astype(np.int64).tolist()


def _read(loader: DataLoader[Any], collate: Any, **how: Any) -> list[Any]:
    """What a loader makes of places of its data set, in the order that ``how`` says.

    By a worker where it has workers: a file or a connection that a data set opens when it is first read is each
    worker's own, and one opened here would be shared by all, which move its position.
    """
    with kept_draws():
        return list(
            DataLoader(
                loader.dataset, collate_fn=collate, num_workers=min(1, loader.num_workers),
                worker_init_fn=loader.worker_init_fn, multiprocessing_context=loader.multiprocessing_context, **how
            )
        )  # fmt: skip


def _apart(collate: Any, given: list[Any]) -> list[Any]:
    """Examples in one batch, and each in its own; of copies, since padding may be written into the examples."""
    return [collate(twin(some)) for some in (given, *([one] for one in given))]


def collated(data: Any) -> tuple[Batch, list[Batch]] | None:
    """Some examples as a loader, or its data set, makes one batch of all, and of each alone.

    None where neither has a function of its own that does, where these cannot be read by their places, or have not one
    row each, and where a data set that fetches batches by ``__getitems__`` draws them anew at every reading.

    Raises:
        ValueError: it makes more rows than there are examples, and says of none whose it is.
    """
    if isinstance(data, Dataset) and not isinstance(data, IterableDataset):
        data = DataLoader(data)
    if not isinstance(data, DataLoader) or data.batch_sampler is None:
        return None
    held: Any = data.dataset
    while isinstance(held, Subset):
        held = held.dataset
    fetched = hasattr(held, "__getitems__")
    if data.collate_fn is default_collate and not fetched:
        return None
    try:
        places = _some(data)
        if fetched:
            order = [places, *([one] for one in places), places]
            made = _read(data, data.collate_fn, batch_sampler=order)
        else:
            apart = functools.partial(_apart, data.collate_fn)
            ((first, *others),) = _read(data, apart, batch_sampler=[places])
            made = [first, *others, first]
        whole, *each, again = (_batch(one, "data") for one in made)
    except Exception:  # it is said where all of the data are read, and a stream has no places
        return None
    if whole.n > len(places) and whole.people is None:
        raise ValueError(
            f"collate_fn of the loader makes {whole.n} rows of {len(places)} examples, and n counts each row: let it "
            "make one row of each, or say by people of which example a row is"
        )
    if whole.n != len(places) or {one.n for one in each} != {1}:
        return None
    return (whole, each) if np.array_equal(whole.hashes(), again.hashes()) else None


def batches_of(data: Any, *, batch_size: int | None = None) -> Iterator[Batch]:
    """The batches of whatever holds examples, of at most so many; without a number those of a loader as it makes them.

    Raises:
        ValueError: it holds something else, or a batch whose parts do not have one entry for each example.
    """
    if isinstance(data, Images):
        data = BoundSet.part(data)
    if isinstance(data, BoundSet):
        data = (data.inputs, data.labels, *(() if data.people is None else (data.people,)))
    if _is_tuple(data) and isinstance(data[0], Tensor | np.ndarray):
        named = zip(("inputs", "labels", "people"), data, strict=False)
        data = [
            one if isinstance(one, np.ndarray) else _tensor(one, f"{name} in data")
            for name, one in named
        ]
        yield from _parts(data, batch_size or BATCH)
        return
    if isinstance(data, Dataset) and not isinstance(data, IterableDataset):
        if not isinstance(data, Sized):
            raise ValueError(
                f"the data set {type(data).__name__} has no length: give it __len__, or pass a loader of it"
            )
        data = DataLoader(data, batch_size=batch_size or BATCH)
    plain = isinstance(data, str | bytes | Mapping | Tensor | np.ndarray)
    if plain or not hasattr(data, "__iter__"):
        raise ValueError(f"expected data as {FORMS}, got {type(data).__name__}")
    parts = iter(data)
    for number in count():
        try:
            given = next(parts)
        except StopIteration:
            if number < (due := _batches_due(data)):
                raise ValueError(
                    f"the loader ends after {number} of {due} batches, as where __getitem__ of its data set raises "
                    "StopIteration, and n would leave the others out: raise another error there"
                ) from None
            return
        except Exception as error:  # a stranger's data set may raise anything
            raise ValueError(f"batch {number} of the data cannot be read: {said(error)}") from error
        made = _batch(given, f"batch {number} of the data")
        size = batch_size or made.n or 1
        yield from (made.at(slice(start, start + size)) for start in range(0, made.n, size))


def _batches_due(data: Any) -> int:
    """How many batches a loader of places makes by its own count, where nobody else puts them together."""
    if not isinstance(data, DataLoader) or isinstance(data.dataset, IterableDataset):
        return 0
    own = data.batch_sampler is None or type(data.batch_sampler) is BatchSampler
    return len(data) if own and isinstance(data.sampler, Sized) else 0


def bound_set(data: Any) -> BoundSet:
    """All examples of anything that can be data, of one input each and labels of classes.

    Raises:
        ValueError: nothing of the kind.
    """
    if isinstance(data, BoundSet | Images):
        return data if isinstance(data, BoundSet) else BoundSet.part(data)
    require_each_once(data)
    both = collated(data)
    lasts = isinstance(data, tuple | list)  # what is no list may write each batch into one
    found = [one if lasts else one.copied() for one in batches_of(data)]
    if not found:
        raise ValueError("there are no examples: give at least one")
    if any(len(one.inputs) > 1 for one in found):
        raise ValueError("data must have one input an example, got several: join them into one")
    if both is not None:
        (whole,), each = (
            both[0].inputs.values(),
            [one for own in both[1] for one in own.inputs.values()],
        )
        if not all(one.shape[1:] == whole.shape[1:] for one in each) or not torch.allclose(
            torch.cat(each).double(), whole.double(), rtol=_OF_ROWS, atol=_OF_ROWS, equal_nan=True
        ):
            raise ValueError(MIXED)
    people = [one.people for one in found if one.people is not None]
    labels = torch.cat([one.labels for one in found])
    whole = not (labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool)
    return BoundSet(
        inputs=torch.cat([one for batch in found for one in batch.inputs.values()]),
        labels=labels.long() if whole else labels,
        people=np.concatenate(people) if people else None,
    )


def _batch(given: Any, what: str) -> Batch:
    """A tuple (inputs, labels) or (inputs, labels, people), or a dictionary, as a batch."""
    if _is_tuple(given):
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
    held = {str(name): _tensor(one, f"{name or 'inputs'} in {what}") for name, one in named.items()}
    found = _tensor(labels, f"labels in {what}")
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
        raise ValueError(f"expected people in {what} as one whole number from 0 on for each of {n} examples, got "
                         f"{who.dtype} {list(who.shape)}")  # fmt: skip
    return Batch(inputs=held, labels=found, people=who.astype(np.int64))


def _tensor(value: Any, what: str) -> Tensor:
    require_no_mask(value, what)
    if isinstance(value, np.ndarray) and (
        not value.flags.writeable or min(value.strides, default=0) < 0
    ):
        value = value.copy()  # torch takes no steps backwards, and would write where nobody may
    try:
        found = torch.as_tensor(value).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"{what} are no tensor ({error}): give one of numbers, and several inputs by keyword in a dictionary"
        ) from error
    if found.layout != torch.strided or found.is_nested or found.device.type == "meta":
        raise ValueError(
            f"{what} must be a dense tensor that holds values, got {found.layout} on {found.device}: make it one"
        )
    if found.itemsize == 1:
        require_arithmetic(found, what)
    return found


def _parts(columns: list[Any], batch_size: int) -> Iterator[Batch]:
    """Batches of whole columns; those in files that are memory-mapped are copied and let go part by part."""
    mapped = [_mapping(one) for one in columns]
    if not all(one.ndim for one in columns) or len(columns[0]) != len(columns[1]):
        _batch(tuple(columns), "data")  # which says what is wrong
    for start in range(0, len(columns[1]), batch_size):
        rows = slice(start, start + batch_size)
        part = [
            one[rows] if m is None else np.array(one[rows])
            for one, m in zip(columns, mapped, strict=True)
        ]
        yield _batch(tuple(part), "data")
        for one in filter(None, mapped):
            one.madvise(mmap.MADV_DONTNEED)


def _mapping(one: Any) -> mmap.mmap | None:
    """The file in memory that an array lies in, where nothing would be lost by reading its pages again.

    What was written on memory that no file backs, or on a private copy of a file's pages, is nowhere else.
    """
    backed = False
    while isinstance(one, np.ndarray):
        if isinstance(one, np.memmap):
            backed = one.mode != "c"
        one = one.base
    return one if backed and isinstance(one, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED") else None


def _is_tuple(given: Any) -> bool:
    """Whether this has the form (inputs, labels) or (inputs, labels, people)."""
    return isinstance(given, tuple | list) and len(given) in (2, 3)
