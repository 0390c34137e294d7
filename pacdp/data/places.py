"""Which examples of which data set stand behind a torch data set or a loader, and whether each stands there once.

Lists of places name an example twice where no hash would tell: with random transforms no two copies are equal. What a
sampler or a data set of somebody else's does is not seen.
"""

from collections.abc import Iterator, Sequence, Sized
from itertools import chain
from operator import index
from typing import Any, cast

import numpy as np
from torch import Tensor
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    Subset,
    WeightedRandomSampler,
)


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
    if isinstance(sampler, SequentialSampler) and _drops(data):
        raise ValueError(
            "the loader leaves out its last batch by drop_last, which is no random part where examples stand in order, "
            "as by their classes: set drop_last=False"
        )
    places: list[Any] = list(_places(held)) if isinstance(held, Subset | ConcatDataset) else []
    if (listed := _listed(data)) is not None:
        places = [places[k] for k in listed] if places else listed
    if len(set(places)) < len(places):
        raise ValueError(
            f"the data set gives {len(places) - len(set(places))} of its {len(places)} examples again, and n counts "
            "each of them once: give every example once"
        )


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
    held = list(_places(dataset)) if isinstance(dataset, Subset | ConcatDataset) else []
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


def _places(held: Any) -> Iterator[tuple[int, Any]]:
    """Which examples of which data set stand in one made of others."""
    if isinstance(held, Subset):
        whole = isinstance(held.dataset, Subset | ConcatDataset)
        own = list(_places(held.dataset)) if whole else None
        for k in _from_the_start(held.indices, held.dataset):
            yield (id(held.dataset), k) if own is None else own[k]
    elif isinstance(held, ConcatDataset):
        for one in held.datasets:
            yield from _places(one)
    else:
        yield from ((id(held), place) for place in range(len(held)))


def _from_the_start(places: Any, held: Any) -> list[int]:
    """Places as plain numbers, since tensors are equal to themselves alone, and -1 as that of the last example."""
    n = len(held) if isinstance(held, Sized) else 0
    return [k + n if k < 0 else k for k in map(index, places)]
