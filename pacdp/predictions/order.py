"""What the order of rows tells of examples that are no independent draws: copies, the same again, alike neighbours.

A random order shows none of it but once in a million. An order that somebody made may, so nothing is refused for it.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bounds

RARE = math.log(1e-6)
_SHORT = 20
"""How many rows classes that take turns may have on purpose."""


def copied(columns: Sequence[NDArray[Any]]) -> Iterator[str]:
    """The same rows several times over in the same order, as copies of a file bring them."""
    n, first = columns[0].size, _period(columns)
    if first < n:
        yield (
            f"the {first} first rows stand {n // first} times over: if these are copies, records "
            "are not independent and n counts each of them as often; drop the copies, or give ids"
        )


def again(what: str, column: NDArray[Any]) -> Iterator[str]:
    """One column several times over beside others that are not, as where the same examples were answered again."""
    n, first = column.size, _period([column])
    if _SHORT < first < n:
        yield (
            f"the {what} of the {first} first rows stand {n // first} times over: if seeds, epochs, models or "
            "annotators had the same examples, n counts each of them as often; give people, a name for each example"
        )


def neighbours(labels: NDArray[Any], others: Sequence[NDArray[Any]]) -> Iterator[str]:
    """Rows that have the label of the row before far more often than chance, in a file that nothing sorts."""
    n = labels.size
    share = np.unique(labels, return_counts=True)[1] / n
    by_chance, found = (
        float(share @ share),
        float((labels[1:] == labels[:-1]).sum()) / max(1, n - 1),
    )
    # every other pair is independent of the rest
    rare = found > by_chance and n // 2 * float(bounds.binary_kl(found, by_chance)) > -RARE
    if rare and not any(map(_in_order, (labels, *others))):
        yield (
            f"{found:.0%} of all rows have the label of the row before, where a random order would bring "
            f"{by_chance:.0%}: if neighbours are of one person, record or image, they are not independent and n counts "
            "each of them; give people"
        )


def _period(columns: Sequence[NDArray[Any]]) -> int:
    """After how many rows all columns begin anew, as chance would not bring it; or the number of rows."""
    columns = [np.nan_to_num(one) for one in columns]
    n = columns[0].size
    sizes = (size for size in range(1, n // 2 + 1) if n % size == 0)
    first = next((k for k in sizes if all((one[k:] == one[:-k]).all() for one in columns)), n)
    shares = [np.unique(one, return_counts=True)[1] / n for one in columns]
    agree = min(float(share @ share) for share in shares)  # how often two rows have the same
    return first if (n - first) * math.log(agree) < RARE else n


def _in_order(column: NDArray[Any]) -> bool:
    """Whether rows stand by the size of their values, or with equal ones together."""
    steps = np.diff(column.astype(np.float64))
    together = 1 + np.count_nonzero(steps) == np.unique(column).size < column.size
    return together or bool((steps >= 0.0).all() or (steps <= 0.0).all())
