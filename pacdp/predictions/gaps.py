"""The largest gap between groups, from the intervals of all of them: no failure probability beyond theirs."""

import math
from collections.abc import Sequence

import bounds
from bounds.hypotheses import together
from pacdp.predictions.bounding import Found, Statement

_REFERENCE = 'docs/guarantees.md, "The largest gap between groups"'


def largest_gap(found: Sequence[Found], *, of: str, groups: int, new: str, n: int) -> Found:
    """At most the largest difference between the upper end of one group and the lower end of another.

    Formal guarantee: on the event on which the groups' intervals hold, |error in one group - error in another| ≤ value
    for all pairs at once.

    Args:
        found: the rows of the groups, at least two, with both ends, and their certificates.
        of: the model.
        groups: how many groups there are, with those of which nothing is certified.
        new: what the name of a risk ends in, such as " of a new person".
        n: the independent records of all groups.
    """
    rows = [row for own, _ in found for row in own]
    made = [one for _, own in found for one in own]
    uppers, lowers = (
        [end for row in rows if (end := getattr(row, name)) is not None]
        for name in ("upper", "lower")
    )
    value = max(uppers[a] - lowers[b] for a, b in _pairs(uppers, lowers))
    measured = [row.measured for row in rows]
    empirical = max(measured) - min(measured)
    paid = math.fsum(one.failure_prob for one in made)
    called = (
        f"largest gap between {'' if len(rows) == groups else f'{len(rows)} of {groups} '}groups"
    )
    gap = bounds.Certificate(
        name="largest_gap",
        value=min(1.0, math.nextafter(max(0.0, value), math.inf)),
        failure_prob=paid,
        of=of,
        measures=called + new,
        hypotheses=together(*(one.hypotheses for one in made)),
        terms={"empirical_gap": empirical},
        budget={"groups": paid},
        reference=_REFERENCE,
        inputs={
            "uppers": ", ".join(map(repr, uppers)),
            "lowers": ", ".join(map(repr, lowers)),
            "n": n,
        },
    )
    row = Statement(
        family="groups", quantity=called, of=of, measured=empirical, upper=gap.value, n=n
    )
    return [row], [gap]


def _pairs(uppers: Sequence[float], lowers: Sequence[float]) -> list[tuple[int, int]]:
    """Pairs of different groups among which the largest difference is."""
    top = sorted(range(len(uppers)), key=lambda place: -uppers[place])[:2]
    low = sorted(range(len(lowers)), key=lambda place: lowers[place])[:2]
    return [(a, b) for a in top for b in low if a != b]
