"""Which examples of which data set stand in one that is made of others."""

from collections.abc import Iterator
from operator import index
from typing import Any

from torch.utils.data import ConcatDataset, Subset

MADE_OF_OTHERS = (Subset, ConcatDataset)


def places_in(held: Any) -> Iterator[tuple[int, Any]]:
    """The identity of the data set that each example comes from, and its place there."""
    if isinstance(held, Subset):
        whole = isinstance(held.dataset, MADE_OF_OTHERS)
        own = list(places_in(held.dataset)) if whole else None
        for k in map(index, held.indices):  # tensors are equal to themselves alone
            yield (id(held.dataset), k) if own is None else own[k]
    elif isinstance(held, ConcatDataset):
        for one in held.datasets:
            yield from places_in(one)
    else:
        yield from ((id(held), place) for place in range(len(held)))


def given_again(held: Any) -> int:
    """How many examples a data set made of others gives again; 0 of any other kind, which is not looked into."""
    places = [*places_in(held)] if isinstance(held, MADE_OF_OTHERS) else []
    return len(places) - len(set(places))
