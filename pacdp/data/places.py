"""Which examples of which data set stand behind a torch data set or a loader, and whether each stands there once.

Lists of places name an example twice where no hash would tell: with random transforms no two copies are equal. What a
sampler or a data set of somebody else's does is not seen.
"""

import gc
from collections.abc import Iterator, Sequence, Sized
from contextlib import suppress
from itertools import chain
from operator import index
from typing import Any, cast

import numpy as np
from jaxtyping import Int64
from torch import Tensor
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from pacdp.data.errors import DataError

_SMALL, _SPACED = 2**16, 2**12
"""Numbers of an array that are all compared; of a larger one so many, evenly spaced."""


def behind(data: Any) -> Any:
    """The loader whose batches an object passes on, as a progress bar does, or what moves them to a device.

    That is the one loader among its attributes, and theirs; itself where there are none or several.
    """
    found, asked, left = dict[int, Any](), set[int](), [data]
    while left:
        one = left.pop()
        if isinstance(one, DataLoader):
            found[id(one)] = one
        elif id(one) not in asked and hasattr(one, "__iter__") and not isinstance(one, Dataset):
            asked.add(id(one))
            left += getattr(one, "__dict__", {}).values()
    return next(iter(found.values())) if len(found) == 1 else data


def require_each_once(data: Any) -> None:
    """Refuse loaders and data sets that give examples several times, some more often than others, or not the last.

    Raises:
        ValueError: they do.
    """
    data = behind(data)
    sampler = _sampler(data) if isinstance(data, DataLoader) else None
    held = data.dataset if isinstance(data, DataLoader) else data
    if isinstance(data, DataLoader) and isinstance(held, IterableDataset) and data.num_workers > 1:
        raise ValueError(
            f"the loader reads its {type(held).__name__} by {data.num_workers} workers, each of which may read the "
            "whole stream, and n counts every example as often: give it num_workers=1"
        )
    drawn = _draws(sampler)
    if (
        not drawn
        and isinstance(held, Dataset)
        and isinstance(sampler, Sized)
        and isinstance(held, Sized)
    ):
        drawn = len(sampler) > len(held)
    if drawn:
        raise ValueError(
            f"the loader draws its examples by a {type(sampler).__name__}, several times or some more often than "
            "others, and n counts each of them once: leave its sampler out"
        )
    if isinstance(data, DataLoader) and _drops(data) and not _at_random(sampler):
        raise ValueError(
            "the loader leaves out its last batch by drop_last, which is no random part where examples stand in order, "
            "as by their classes: set drop_last=False"
        )
    places: list[Any] = []
    if _made_of(held):
        first = _first_of_same(held)
        places = [(first[whose], place) for whose, place in _places(held)]
    if (listed := _listed(data)) is not None:
        places = [places[k] for k in listed] if places else listed
    if len(set(places)) < len(places):
        raise ValueError(
            f"the data set gives {len(places) - len(set(places))} of its {len(places)} examples again, and n counts "
            "each of them once (data sets that list the same files or rows are one): give every example once"
        )


def require_other_places(one: Any, other: Any, names: tuple[str, str]) -> None:
    """Refuse two data sets, or loaders, of an example that both give, which another transform hides from a hash.

    Raises:
        DataError: they do.
    """
    given = [behind(one), behind(other)]
    held = [each.dataset if isinstance(each, DataLoader) else each for each in given]
    if not all(map(_has_places, given, held)):
        return
    first = _first_of_same(*held)
    known = [{first[id(leaf)] for leaf in _leaves(each)} for each in held]
    if not known[0] & known[1]:
        return
    own, others = (set(_given(*each, first)) for each in zip(given, held, strict=True))
    if shared := len(own & others):
        raise DataError(
            f"{names[0]} and {names[1]} give {shared} of the same examples, whose rows differ by a transform alone "
            "(data sets that list the same files or rows are one): draw one split, and take both sides by its places"
        )


def order_of(data: Any, n: int) -> Int64[np.ndarray, " n"]:
    """In which order examples of a part of a data set, which come as somebody listed them, stand in that data set.

    A random split is listed in a random order, which tells nothing of neighbours.

    Returns:
        The places to take n examples from; as they come where these are not known.
    """
    data = behind(data)
    held = data.dataset if isinstance(data, DataLoader) else data
    random = isinstance(data, DataLoader) and not isinstance(_sampler(data), SequentialSampler)
    if random or not _made_of(held) or not _has_places(data, held):
        return np.arange(n)
    numbers = {id(leaf): number for number, leaf in enumerate(_leaves(held))}
    listed = [(numbers[whose], place) for whose, place in _places(held)]
    order = np.lexsort(np.array(listed, dtype=np.int64).reshape(-1, 2).T[::-1])
    return order if len(order) == n else np.arange(n)


def relatives(source: Any) -> tuple[set[int], set[int]]:
    """Which data sets of this process give an example of ``source``, under whatever transform, and which none of them,
    though they are made of the same ones, as parts to stop early by are; by their identities.
    """
    sharing, apart = {id(source)}, set[int]()
    if not _has_places(source, source):
        return sharing, apart
    first = _first_of_same(source)
    own = {(first[whose], place) for whose, place in _places(source)}
    leaves = {*first.values()}
    known = [each for each in gc.get_objects() if issubclass(type(each), Dataset)]
    for one in [*_inside(source), *known]:
        with suppress(Exception):  # a stranger's data set may raise anything
            first = _first_of_same(source, one)
            if leaves.isdisjoint(first[id(leaf)] for leaf in _leaves(one)):
                continue  # its places may be very many
            others = {(first[whose], place) for whose, place in _places(one)}
            if own & others:
                sharing.add(id(one))
            elif {whose for whose, _ in others} <= {whose for whose, _ in own}:
                apart.add(id(one))
    return sharing, apart


def _sampler(data: DataLoader[Any]) -> Any:
    """What draws the places of a loader, which may stand inside what puts them into batches."""
    found: Any = data.sampler if data.batch_sampler is None else data.batch_sampler
    while hasattr(found, "sampler"):
        found = found.sampler
    return found


def _drops(data: DataLoader[Any]) -> bool:
    """Whether a last batch that is not full is left out."""
    sampler = _sampler(data)
    in_batches = data if data.batch_sampler is None else data.batch_sampler
    dropped = bool(getattr(in_batches, "drop_last", False))
    if dropped and isinstance(sampler, Sized):
        dropped = len(sampler) % getattr(in_batches, "batch_size", 1) > 0
    return dropped


def _at_random(sampler: Any) -> bool:
    """Whether places come in a random order, of which a part is as good as any other; a stream's do not."""
    return isinstance(sampler, RandomSampler | SubsetRandomSampler) or bool(
        getattr(sampler, "shuffle", False)
    )


def _draws(sampler: Any) -> bool:
    """Whether examples come several times, or some more often than others."""
    return isinstance(sampler, WeightedRandomSampler) or bool(
        getattr(sampler, "replacement", False)
    )


def require_whole(data: Any, name: str) -> None:
    """Refuse a loader that leaves out other examples at every reading, whose hashes are not all that somebody saw.

    Args:
        data: anything that can be data.
        name: of the argument, for the error's sentence.

    Raises:
        ValueError: it draws its examples, drops a last batch, or reads fewer than its data set has, but
            for places that it lists.
    """
    data = behind(data)
    if not isinstance(data, DataLoader):
        return
    sampler, held = _sampler(data), cast(Any, data.dataset)
    dropped = _drops(data)
    fewer = isinstance(sampler, Sized) and isinstance(held, Sized) and len(sampler) < len(held)
    if dropped or _draws(sampler) or (fewer and _listed(data) is None):
        why = "by drop_last" if dropped else f"by its {type(sampler).__name__}"
        raise ValueError(
            f"{name} must be all that was seen, and its loader leaves out others at every reading ({why}): give its "
            "data set"
        )


def require_one_unit(dataset: Dataset[Any], people: Tensor | None = None) -> None:
    """Refuse a data set that gives an example to several units of privacy, of which a promise would hide one alone.

    Args:
        people: the person's number for each record; without it each place is a unit.

    Raises:
        ValueError: it does.
    """
    held = list(_places(dataset)) if _made_of(dataset) else []
    whose = range(len(held)) if people is None else people.tolist()
    again = len(set(zip(held, whose, strict=True))) - len(set(held)) if held else 0
    if again and people is None:
        raise ValueError(
            f"dataset gives {again} of its {len(held)} examples again, as records of their own, and epsilon would hide "
            "one record of an example: give every example once, or train by person, whose records may recur, by "
            "people= of pacdp.private.train"
        )
    if again:
        raise ValueError(
            f"people must give every example to one person, and {again} of the {len(held)} records are an example "
            "that another person has too: give every example once"
        )


def _listed(data: Any) -> list[int] | None:
    """Which places of its data set a loader reads, where its sampler lists them."""
    if not isinstance(data, DataLoader):
        return None
    drawn = _sampler(data)
    listed = getattr(drawn, "indices", drawn)
    if isinstance(data.batch_sampler, list | tuple):
        listed = list(chain.from_iterable(data.batch_sampler))
    known = isinstance(listed, Sequence | np.ndarray | Tensor)
    return _from_the_start(listed, data.dataset) if known else None


def _made_of(held: Any) -> list[Any]:
    """The data sets that one is made of: by torch, or by somebody who hands on what one of the same length has.

    All else that such a one holds can be called, as transforms can.
    """
    if isinstance(held, Subset):
        return [held.dataset]
    if isinstance(held, ConcatDataset):
        return held.datasets
    if not (isinstance(held, Dataset) and isinstance(held, Sized)):
        return []
    own: list[Any] = [one for one in vars(held).values() if not (one is None or callable(one))]
    plain = len(own) == 1 and isinstance(own[0], Dataset) and isinstance(own[0], Sized)
    return own if plain and len(cast(Any, own[0])) == len(held) else []


def _places(held: Any) -> Iterator[tuple[int, Any]]:
    """Which examples of which data set stand in one made of others."""
    inner = _made_of(held)
    if isinstance(held, Subset):
        own = list(_places(held.dataset)) if _made_of(held.dataset) else None
        for k in _from_the_start(held.indices, held.dataset):
            yield (id(held.dataset), k) if own is None else own[k]
    elif inner:
        for one in inner:
            yield from _places(one)
    else:
        yield from ((id(held), place) for place in range(len(held)))


def _inside(held: Any) -> Iterator[Any]:
    """The data sets that one is made of, and what these are made of."""
    for one in _made_of(held):
        yield one
        yield from _inside(one)


def _leaves(held: Any) -> Iterator[Any]:
    """The data sets that one is made of, which are not made of others."""
    inner = _made_of(held)
    for one in inner:
        yield from _leaves(one)
    if not inner:
        yield held


def _has_places(data: Any, held: Any) -> bool:
    """Whether it is known which places of which data sets a loader of ``held``, or that itself, gives."""
    every = not isinstance(data, DataLoader) or isinstance(
        _sampler(data), SequentialSampler | RandomSampler
    )
    sized = isinstance(held, Dataset) and isinstance(held, Sized)
    streams = not sized or any(isinstance(leaf, IterableDataset) for leaf in _leaves(held))
    return not streams and (every or _listed(data) is not None)


def _given(data: Any, held: Any, first: dict[int, int]) -> list[Any]:
    """Which examples of which first data set a loader gives, or a data set."""
    places = [(first[whose], place) for whose, place in _places(held)]
    listed = _listed(data)
    return places if listed is None else [places[k] for k in listed]


def _first_of_same(*held: Any) -> dict[int, int]:
    """The first data set among those behind ``held`` that has the examples of each, both by their ids."""
    known, found = list[Any](), dict[int, int]()
    for one in chain.from_iterable(map(_leaves, held)):
        if id(one) not in found:
            same = next((other for other in known if _same_examples(one, other)), one)
            found[id(one)] = id(same)
            known.append(one)
    return found


def _same_examples(one: Any, other: Any) -> bool:
    """Whether two data sets list the same examples, as of one folder under two transforms.

    They have one type, a list or array of all examples, and attributes that differ by what can be called alone.
    """
    if type(one) is not type(other) or not hasattr(one, "__dict__") or len(one) != len(other):
        return False
    own, others = (
        {
            name: value
            for name, value in vars(each).items()
            if not (value is None or callable(value))
        }
        for each in (one, other)
    )
    listed = [
        value
        for held in own.values()
        for value in (held if isinstance(held, tuple) else (held,))  # as of a TensorDataset
        if isinstance(value, Sized)
        and not (isinstance(value, Tensor | np.ndarray) and not value.ndim)
    ]
    return (
        any(len(value) == len(one) for value in listed)
        and own.keys() == others.keys()
        and all(_equal(own[name], others[name]) for name in own)
    )


def _equal(one: Any, other: Any) -> bool:
    """Whether two attributes are equal; of large arrays and tensors some numbers speak for all."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    try:
        if isinstance(one, Tensor | np.ndarray):
            if one.shape != other.shape:
                return False
            size = int(np.prod(one.shape))
            step = 1 if size <= _SMALL else size // _SPACED
            few, others = (np.asarray(each.reshape(-1)[::step]) for each in (one, other))
            return np.array_equal(few, others)
        return bool(one.equals(other) if hasattr(one, "equals") else one == other)
    except Exception:  # a stranger's attribute may raise anything, and a list of arrays does
        listed = isinstance(one, list | tuple) and len(one) == len(other)
        return listed and all(map(_equal, one, other))


def _from_the_start(places: Any, held: Any) -> list[int]:
    """Places as plain numbers, since tensors are equal to themselves alone, and -1 as that of the last example."""
    n = len(held) if isinstance(held, Sized) else 0
    return [k + n if k < 0 else k for k in map(index, places)]
