"""What follows from rows that hold together, at no cost: numbers that have names, and the ranks of models.

Of two classes, one of them positive: sensitivity and specificity are the recalls, positive and negative predictive
value the precisions, F1 = 2PR/(P + R) of the positive class, which grows with precision P and recall R, and balanced
accuracy the mean of the recalls. Each is a growing function of rows of the report, so that it holds whenever they do,
and costs nothing.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from pacdp.predictions.bounding import Statement
from pacdp.store.record import Values

_MARGIN = 1.0 - 2.0**-50
"""What rounding may take from a mean of numbers in [0, 1]."""


def named(
    rows: Sequence[Statement], positive: str, of: str, classes: Iterable[str] = ()
) -> tuple[Statement, ...]:
    """These numbers of one model; ``positive`` is the class as rows write it.

    What rests on a row that was not asked, or on a class of which too few examples have a row, is left out.

    Args:
        classes: both of them, where it is known that they were asked about; by default those of the rows.

    Raises:
        ValueError: neither recall nor precision of two classes was certified, or ``positive`` is neither.
    """
    recalls, precisions = (
        {
            row.quantity.removeprefix(start): row
            for row in rows
            if row.of == of and row.quantity.startswith(start)
        }
        for start in ("recall of class ", "precision of class ")
    )
    classes = dict.fromkeys(classes) or {**recalls, **precisions}
    if len(classes) != 2:
        raise ValueError(
            f"positive goes with recall or precision of two classes, got rows of {len(classes)}: ask for one of them, "
            "of labels with two classes, each of some examples, or leave positive out"
        )
    if positive not in classes:
        raise ValueError(f"positive must be one of {', '.join(classes)}, got {positive}")
    (negative,) = {*classes} - {positive}
    sensitivity, specificity = recalls.get(positive), recalls.get(negative)
    value = precisions.get(positive)
    found = {
        "sensitivity": sensitivity,
        "specificity": specificity,
        "balanced accuracy": _of(lambda a, b: 0.5 * (a + b), sensitivity, specificity),
        "positive predictive value": value,
        "F1": _of(_f1, value, sensitivity),
        "negative predictive value": precisions.get(negative),
    }
    return tuple(replace(row, quantity=name) for name, row in found.items() if row is not None)


def _f1(precision: float, recall: float) -> float:
    return 2.0 * precision * recall / (precision + recall) if precision + recall else 0.0


def _of(
    form: Callable[[float, float], float], first: Statement | None, second: Statement | None
) -> Statement | None:
    """A growing function of two rows, its ends rounded outwards; None where one of them is missing."""
    if first is None or second is None:
        return None

    def end(one: float | None, other: float | None) -> float | None:
        return None if one is None or other is None else form(one, other)

    lower, upper = end(first.lower, second.lower), end(first.upper, second.upper)
    return Statement(
        family="named",
        quantity="",
        of=first.of,
        measured=form(first.measured, second.measured),
        lower=None if lower is None else lower * _MARGIN,
        upper=None if upper is None else min(1.0, math.nextafter(upper / _MARGIN, 2.0)),
        n=min(first.n, second.n),
        upper_by=None,
    )


def ranks(rows: Sequence[Statement], models: Sequence[str]) -> list[Values]:
    """Between which ranks each model stands, from all pairs of them; those with the fewest errors seen come first.

    A model is told apart from another where the interval of their difference leaves out 0.
    """
    beats = set[tuple[str, str]]()
    named = {f"{one} against {other}": (one, other) for one in models for other in models}
    for row in rows:
        if row.family == "leaderboard" and row.upper is not None and row.lower is not None:
            one, other = named[row.of]
            beats |= {(one, other)} if row.upper < 0.0 else set()
            beats |= {(other, one)} if row.lower > 0.0 else set()
    seen = {row.of: row.measured for row in rows if row.family == "error"}
    board = list[Values]()
    for one in sorted(models, key=lambda one: seen[one]):
        better = {other for other in models if (other, one) in beats}
        worse = {other for other in models if (one, other) in beats}
        tied = [other for other in models if other not in better | worse | {one}]
        ranks = {"best": 1 + len(better), "worst": len(models) - len(worse)}
        board.append({"of": one, "measured": seen[one], **ranks, "tied": tied})
    return board


def rank_lines(board: Sequence[Values]) -> list[str]:
    """A leaderboard in words, a line a model."""
    return [
        f"{one['of']}: rank {one['best']}"
        + f" to {one['worst']}" * (one["best"] < one["worst"])
        + (f", not told apart from {', '.join(one['tied'])}" if one["tied"] else "")
        for one in board
    ]
