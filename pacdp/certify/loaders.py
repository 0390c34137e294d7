"""Examples from wherever a user keeps them: tensors, arrays, data sets, and loaders, which are tried.

Everything is read once, batch by batch, so that what is held at a time is one batch. Of a memory-mapped file, too, no
more than a batch is held: its pages are handed back to the system as soon as they were read.
"""

import copy
import functools
import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from itertools import chain, count, zip_longest
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import UInt64
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    default_collate,
)

from pacdp.certify.batches import Batch, batch_of, dense, is_pair
from pacdp.certify.examples import BoundSet
from pacdp.data import Dataset as Images
from pacdp.data.places import behind, require_each_once
from pacdp.errors import said
from pacdp.trials import kept_draws, twin

BATCH = 250
"""Examples at a time, where neither a loader nor the caller says how many; layers of more leave the caches."""
_TWICE = 32
"""Examples of a data set that are read twice, or put into batches twice."""
_OF_ROWS = 1e-5
"""Rounding, which other batches may bring."""
MIXED = (
    "what becomes of an example, or its place, depends on the others that collate_fn of the loader, or __getitems__ of "
    "its data set, puts into its batch, or on random numbers that it draws: let it look at each by itself, keep their "
    "order (pack_padded_sequence takes enforce_sorted=False), pad to one length for all, and leave random transforms "
    "out"
)
FORMS = (
    "(inputs, labels) or (inputs, labels, people) as tensors or arrays, a BoundSet, a Dataset of such pairs, or "
    "a DataLoader whose batches are such tuples or dictionaries with the key 'labels'"
)


def require_steady(data: Any, name: str) -> None:
    """Refuse a data set that is not steady (:func:`is_steady`) where its rows are compared with others.

    Args:
        data: anything that can be data.
        name: of the argument, for the error's sentence.

    Raises:
        ValueError: it is not.
    """
    source = behind(data) if hasattr(data, "__iter__") else data
    if isinstance(source, DataLoader | Dataset) and not is_steady(data, name):
        held = source.dataset if isinstance(source, DataLoader) else source
        raise ValueError(
            f"{name} must be the same rows at every reading, where they are compared with others, and its "
            f"{type(held).__name__} draws them anew: leave its random transforms out"
        )


def is_steady(data: Any, name: str) -> bool:
    """Whether a data set gives the same rows at every reading, as one with random transforms does not.

    A hash is then of one reading and not of an example, and shows nothing of what others saw. Some examples are read
    twice; what can be read once alone is taken as it comes.

    Args:
        data: a data set, or a loader of one, or what stands around that.
        name: of the argument, for sentences of errors.
    """
    source = behind(data)
    loader = source if isinstance(source, DataLoader) else DataLoader(source, batch_size=1)
    try:
        places = _some(loader)
        order = [places, places] if _in_batches(loader) else places * 2
        made = _passed_on(data, loader, _fetched(loader, order))
        hashes = [batch_of(one, name).hashes() for one in made]
        first, again = hashes[: len(hashes) // 2], hashes[len(hashes) // 2 :]
    except Exception:  # it is said where all of the data are read, and a stream has no places
        return True
    return all(map(np.array_equal, first, again))


def comes_again(data: Any, first: Iterable[UInt64[np.ndarray, "_"]]) -> bool:
    """Whether another reading gives the same rows, as far as no places of the data were read twice.

    Args:
        data: what was read to its end.
        first: hashes of the inputs, batch by batch.
    """
    source = behind(data)
    loader = isinstance(source, DataLoader)
    held = source.dataset if loader else source
    places = BoundSet | Images | Dataset | Sequence | Tensor | np.ndarray
    if not isinstance(held, IterableDataset) and (loader or isinstance(held, places)):
        return True
    if isinstance(data, Iterator):
        return False
    with suppress(Exception), kept_draws():  # a stranger's stream may raise anything
        before = chain.from_iterable(one.tolist() for one in first)
        again = chain.from_iterable(one.hashes().tolist() for one in batches_of(data))
        return all(one == other for one, other in zip_longest(before, again))
    return False


def batches_of(data: Any, *, batch_size: int | None = None) -> Iterator[Batch]:
    """The batches of whatever holds examples, of at most so many; without a number those of a loader as it makes them.

    Raises:
        ValueError: it holds something else, or a batch whose parts do not have one entry for each example.
    """
    if isinstance(data, Images):
        data = BoundSet.part(data)
    if isinstance(data, BoundSet):
        data = (data.inputs, data.labels, *(() if data.people is None else (data.people,)))
    if is_pair(data) and isinstance(data[0], Tensor | np.ndarray):
        named = zip(("inputs", "labels", "people"), data, strict=False)
        data = [
            one if isinstance(one, np.ndarray) else dense(one, f"{name} in data")
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
        raise ValueError(
            f"expected data as {FORMS}, or a list of such batches, got {type(data).__name__}"
        )
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
        made = batch_of(given, f"batch {number} of the data")
        size = batch_size or made.n or 1
        yield from (made.at(slice(start, start + size)) for start in range(0, made.n, size))


def bound_set(data: Any) -> BoundSet:
    """All examples of anything that can be data, of one input each and labels of classes.

    Raises:
        ValueError: nothing of the kind.
    """
    if isinstance(data, BoundSet | Images):
        return data.read_again() if isinstance(data, BoundSet) else BoundSet.part(data)
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
    made = BoundSet(
        inputs=torch.cat([one for batch in found for one in batch.inputs.values()]),
        labels=labels.long() if whole else labels,
        people=np.concatenate(people) if people else None,
    ).read_from(data)
    return made if comes_again(data, (one.hashes() for one in found)) else made.read_once()


def collated(data: Any) -> tuple[Batch, list[Batch]] | None:
    """Some examples as a loader, or its data set, makes one batch of all, and of each alone.

    None where neither has a function of its own that does, where these cannot be read by their places, or have not one
    row each, and where a data set that fetches batches by ``__getitems__`` draws them anew at every reading.

    Raises:
        ValueError: it makes more rows than there are examples, and says of none whose it is.
    """
    if isinstance(data, BoundSet | tuple | list):
        return None
    around, data = data, behind(data)
    if isinstance(data, Dataset) and not isinstance(data, IterableDataset):
        data = DataLoader(data)
    if not isinstance(data, DataLoader) or not _in_batches(data):
        return None
    held: Any = data.dataset
    while isinstance(held, Subset):
        held = held.dataset
    fetched = hasattr(held, "__getitems__") or data.batch_sampler is None
    if data.collate_fn is default_collate and not fetched:
        return None
    try:
        places = _some(data)
        if fetched:
            order = [places, *([one] for one in places), places]
            made = _fetched(data, order)
        else:
            apart = functools.partial(_apart, data.collate_fn)
            ((first, *others),) = _read(data, apart, batch_sampler=[places])
            made = [first, *others, first]
        made = _passed_on(around, data, made)
        whole, *each, again = (batch_of(one, "data") for one in made)
    except Exception:  # it is said where all of the data are read, and a stream has no places
        return None
    if whole.n > len(each) and whole.people is None:
        raise ValueError(
            f"collate_fn of the loader makes {whole.n} rows of {len(each)} examples, and n counts each row: let it "
            "make one row of each, or say by people of which example a row is"
        )
    if whole.n != len(each) or {one.n for one in each} != {1}:
        return None
    return (whole, each) if np.array_equal(whole.hashes(), again.hashes()) else None


def _some(loader: DataLoader[Any]) -> list[int]:
    """Some places of a loader's data set, from its first to its last."""
    n = len(cast(Any, loader.dataset))
    return np.linspace(0, n - 1, min(n, _TWICE)).astype(np.int64).tolist()


def _in_batches(loader: DataLoader[Any]) -> bool:
    """Whether batches are made of lists of places, by the loader or by its data set."""
    return loader.batch_sampler is not None or isinstance(loader.sampler, BatchSampler)


def _fetched(loader: DataLoader[Any], order: list[Any]) -> list[Any]:
    """What a loader makes of places, or of lists of places, of its data set, in this order."""
    if loader.batch_sampler is None:
        return _read(loader, loader.collate_fn, batch_size=None, sampler=order)
    return _read(loader, loader.collate_fn, batch_sampler=order)


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
    """Examples in one batch, and each in its own; of copies, since padding may be written into the examples.

    An example of which no batch of its own can be made, as where those that a file lacks are left out, is in none.
    """
    alone = []
    for one in given:
        with suppress(Exception):  # a stranger's function may raise anything
            alone.append((one, collate(twin([one]))))
    return [collate(twin([one for one, _ in alone])), *(made for _, made in alone)]


def _passed_on(around: Any, loader: DataLoader[Any], made: list[Any]) -> list[Any]:
    """Batches as an object around a loader passes them on; as they are where it has no copy, as a progress bar."""
    if isinstance(around, DataLoader | Dataset):
        return made
    with suppress(Exception), kept_draws():  # a stranger's object may raise anything
        known = {id(loader): made, id(loader.dataset): loader.dataset}
        return list(copy.deepcopy(around, known))
    return made


def _batches_due(data: Any) -> int:
    """How many batches a loader of places makes by its own count, where nobody else puts them together."""
    if not isinstance(data, DataLoader) or isinstance(data.dataset, IterableDataset):
        return 0
    own = data.batch_sampler is None or type(data.batch_sampler) is BatchSampler
    return len(data) if own and isinstance(data.sampler, Sized) else 0


def _parts(columns: list[Any], batch_size: int) -> Iterator[Batch]:
    """Batches of whole columns; those in files that are memory-mapped are copied and let go part by part."""
    mapped = [_mapping(one) for one in columns]
    if not all(one.ndim for one in columns) or len(columns[0]) != len(columns[1]):
        batch_of(tuple(columns), "data")  # which says what is wrong
    for start in range(0, len(columns[1]), batch_size):
        rows = slice(start, start + batch_size)
        part = [
            one[rows] if m is None else np.array(one[rows])
            for one, m in zip(columns, mapped, strict=True)
        ]
        yield batch_of(tuple(part), "data")
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
