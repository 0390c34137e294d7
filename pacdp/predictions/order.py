"""What the order of rows tells of examples that are no independent draws: copies, neighbours alike, labels in turns.

A random order shows none of it but once in a million. An order that somebody made may, so nothing is refused.
"""

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from bounds.kl import binary_kl

RARE = math.log(1e-6)
"""The logarithm of the chance at which something is remarked upon."""
_SHORT = 20
"""How many rows a turn of classes may have on purpose."""
_FAR = range(20, 40)
"""Between rows that are so far apart neighbours of one person, record or image tell little."""
_TURN = 100
"""Rows of a turn at most, in which several labels of an example are looked for."""


def told_by_order(
    rows: Sequence[NDArray[Any]], named: Mapping[str, NDArray[Any]], by: Sequence[NDArray[Any]]
) -> Iterator[str]:
    """What rows that repeat, or are like their neighbours, tell of examples.

    Args:
        rows: all columns, or none where rows are known to differ.
        named: the labels and predictions among them, or losses alone.
        by: by what else rows may have been sorted.
    """
    if (times := _times_over(rows)) > 1:
        yield (
            f"the {rows[0].size // times} first rows stand {times} times over: if these are copies, records are not "
            "independent and n counts each of them as often; drop the copies, or give ids"
        )
        return
    for what, own in named.items():
        first = own.size // (times := _times_over([own]))
        if times > 1 and first > _SHORT:
            yield (
                f"the {what} of the {first} first rows stand {times} times over: if seeds, epochs, models or "
                "annotators had the same examples, n counts each of them as often; give people, a name for each example"
            )
    compared = dict[str, NDArray[Any]]()
    for name, one in (("labels", "label"), ("losses", "loss")):
        if (own := named.get(name)) is not None:
            compared[f"the {one} of the row before"] = own
            if own.dtype.kind == "f":
                where = f"a {one} on the same side of the median as the row before"
                compared[where] = own > np.median(own)
    for what, own in compared.items():
        share = np.unique(own, return_counts=True)[1] / own.size
        by_chance, pairs = float(share @ share), max(1, own.size - 1)
        than = "a random order would bring"
        if "loss" in what and own.size > 2 * _FAR[-1]:  # benchmarks are sorted by subject
            apart = float(np.mean([np.mean(own[lag:] == own[:-lag]) for lag in _FAR]))
            by_chance, than = max(by_chance, apart), "rows further apart have up to"
        alike = np.count_nonzero(own[1:] == own[:-1]) / pairs
        # every other pair is independent of the rest
        rare = alike > by_chance and own.size // 2 * float(binary_kl(alike, by_chance)) > -RARE
        if rare and not any(map(_in_order, (*named.values(), *by))):
            yield (
                f"{alike:.0%} of all rows have {what}, where {than} {by_chance:.0%}: if neighbours "
                "are of one person, record, image or time, they are not independent and n counts each of them; give "
                "people"
            )
            return


def _times_over(columns: Sequence[NDArray[Any]]) -> int:
    """How often the first rows stand there one after another, where chance does not explain it; else once."""
    own = [np.nan_to_num(one) for one in columns]
    n = own[0].size if own else 0
    for first in (size for size in range(1, n // 2 + 1) if n % size == 0):
        again = ((one[first:], one[:-first]) for one in own)
        if all((one[:99] == two[:99]).all() and (one == two).all() for one, two in again):
            shares = [np.unique(one, return_counts=True)[1] / n for one in own]
            agree = min(
                float(share @ share) for share in shares
            )  # how often two rows have the same
            return n // first if (n - first) * math.log(agree) < RARE else 1
    return 1


def told_within_labels(
    labels: NDArray[Any],
    wrong: NDArray[Any],
    groups: Sequence[NDArray[Any]],
    by: Sequence[NDArray[Any]],
) -> Iterator[str]:
    """What tells of rows that are alike where labels in a row do not: they stand in folders of classes, or mixed.

    Errors of neighbours with one label are compared with those of rows further apart.

    Args:
        wrong: which rows are errors; losses that are none tell nothing.
        groups: within which rows are compared.
        by: by what rows may have been sorted, besides.
    """
    both = [0, 0], [0, 0]
    for lag in (1, *_FAR) if wrong.dtype == bool and wrong.size > 2 * _FAR[-1] else ():
        near = np.logical_and.reduce([one[lag:] == one[:-lag] for one in (labels, *groups)])
        counts = both[lag > 1]
        counts[0] += int(np.count_nonzero(near & (wrong[lag:] == wrong[:-lag])))
        counts[1] += int(np.count_nonzero(near))
    (same, pairs), (far, others) = both
    near, apart = same / max(1, pairs), far / max(1, others)
    rare = near > apart and pairs // 2 * float(binary_kl(near, apart)) > -RARE
    if rare and pairs <= others and not any(map(_in_order, (wrong, *by))):
        yield (
            f"{near:.0%} of neighbours with one label are both right or both wrong, where rows further apart are in up "
            f"to {apart:.0%}: if neighbours are of one person, record, image or time, they are not independent and n "
            "counts each of them; give people"
        )
    yield from _told_by_turns(labels)


def _told_by_turns(labels: NDArray[Any]) -> Iterator[str]:
    """Two labels in turns of so many rows, each place of which has a rate of its own.

    Several labels of an example that were written one after another are such; the same turn all over may be on purpose.
    """
    n, first = labels.size, labels == labels[0]
    rate = float(first.mean())
    most = min(_TURN, n // 20, int(min(rate, 1.0 - rate) * n / 5))  # five of each at every place
    turns = [size for size in range(2, most + 1) if n % size == 0]
    others = [np.count_nonzero(labels[size:] != labels[:-size]) for size in turns]
    same_all_over = any(map(operator.le, others, turns))  # or until one of two classes ran out
    for turn in turns if np.unique(labels).size == 2 and not same_all_over else ():
        counts, rows = first.reshape(-1, turn).sum(0), n // turn
        square = float(((counts - rate * rows) ** 2).sum() / (rows * rate * (1.0 - rate)))
        if chdtrc(turn - 1, square) < math.exp(RARE) / len(turns):
            yield (
                f"labels come in turns of {turn} rows, and how often each of two stands there depends on the place: if "
                "rows are several labels of one example, they are not independent and n counts each; give people"
            )
            return


def _in_order(column: NDArray[Any]) -> bool:
    """Whether rows stand by the size of their values, or with equal ones of a few values together."""
    steps, values = np.diff(column.astype(np.float64)), np.unique(column).size
    together = 1 + np.count_nonzero(steps) == values < column.size / 10
    return together or bool((steps >= 0.0).all() or (steps <= 0.0).all())
