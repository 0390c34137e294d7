"""From a question to certificates: exact for counts of errors, betting for other losses, people and weights.

Which of the two is decided by the type of the losses, truth values or real numbers, and never by what they are: a
choice that the sample made would have to be paid for. Every certificate bounds a mean from above; the lower end of an
interval is one minus the certificate of the complement. The largest gap between groups follows from the intervals of
all of them, at no failure probability beyond theirs.

A confidence bin is a fifteenth of [0, 1], fixed before any example was seen. For people, the mean over people of their
mean gap in a bin takes the place of the mean over examples ("Calibration error of people" in docs/guarantees.md).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bounds
from bounds._rounding import outward
from bounds.hypotheses import declared, together
from bounds.means import ratio_betting_upper
from bounds.needs import declared_by
from pacdp.predictions.answers import Answers
from pacdp.predictions.columns import Codes
from pacdp.predictions.examples import Examples
from pacdp.predictions.parts import Part

BY = "whoever gave these predictions"
NEW = "new_examples"
"""What the names of certificates of predictions begin with."""
_FORMULA = "the caller of bounds.clopper_pearson_upper"
ROUNDED = 2.0**-40
"""Added to bounds on losses that were themselves computed: far more than their rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One row of a report: a quantity, what was measured, and what is certified of it.

    Attributes:
        family: the entry of the ledger that pays for it.
        quantity: what it is, such as "error" or "recall of class 'cat'".
        of: the model.
        measured: the value on the examples.
        lower: the quantity is at least so much; None where that was not asked.
        upper: the quantity is at most so much; None where that was not asked.
        n: the independent records behind it, people or examples.
        range: the quantity is low + (high - low) mean, for the mean that certificates bound.
        upper_by: place of the certificate behind the upper end; None without one.
        lower_by: place of the certificate behind the lower end.
        term: the term of that certificate that holds the upper end, where its value does not.
    """

    family: str
    quantity: str
    of: str
    measured: float
    lower: float | None = None
    upper: float | None
    n: int
    range: tuple[float, float] = (0.0, 1.0)
    upper_by: int | None = 0
    lower_by: int | None = None
    term: str = ""

    def after(self, certificates: int) -> "Statement":
        """The same row, with places that count so many certificates before its own."""
        places = {name: getattr(self, name) for name in ("upper_by", "lower_by")}
        return replace(
            self, **{name: at + certificates for name, at in places.items() if at is not None}
        )


Found = tuple[list[Statement], list[bounds.Certificate]]
"""Rows, and the certificates in whose list the rows' places count."""


def records(part: Part, examples: Examples) -> int:
    """How many independent records a question rests on."""
    if examples.people is None:
        return len(part.losses)
    return 0 if part.sample is None else part.sample.n


def by_person(part: Part, examples: Examples) -> Part:
    """The question with the sample of people that it rests on, where people are counted."""
    if examples.people is None or not len(part.losses):
        return part
    owners = examples.people if part.rows is None else examples.people[part.rows]
    sample = bounds.people_sample(losses=part.losses.astype(np.float64), people=owners)
    return replace(part, sample=sample)


def answer(part: Part, examples: Examples, *, failure_prob: float, interval: bool) -> Found:
    """The rows on a question and their certificates, which fail together with at most ``failure_prob``."""
    two = interval or part.both
    each = math.nextafter(failure_prob / 2, 0.0) if two else failure_prob
    made = [_upper(part, examples, failure_prob=each)]
    if two:
        rest = ~part.losses if part.losses.dtype == np.bool_ else 1.0 - part.losses
        turned = replace(part, losses=rest, measures=part.otherwise)
        made.append(_upper(by_person(turned, examples), examples, failure_prob=each))
    low, high = part.low, part.high
    row = Statement(
        family=part.family,
        quantity=part.named or (part.measures if part.measures != "0-1 risk" else "error"),
        of=part.of,
        measured=low + (high - low) * _mean(part, examples),
        lower=_below(low, high, made[1].value) if two else None,
        upper=_above(low, high, made[0].value),
        n=records(part, examples),
        range=(low, high),
        lower_by=1 if two else None,
    )
    if part.family == "recall":  # the error on a class, and its recall
        return [row, _turned(row, part.otherwise)], made
    return [_turned(row, part.otherwise) if part.family == "precision" else row], made


def _turned(row: Statement, quantity: str) -> Statement:
    """The row of one minus a quantity in [0, 1], by the same certificates with their places exchanged."""
    lower = None if row.upper is None else _below(0.0, 1.0, row.upper)
    upper = None if row.lower is None else min(1.0, math.nextafter(1.0 - row.lower, math.inf))
    return replace(
        row, quantity=quantity, measured=1.0 - row.measured, lower=lower, upper=upper, upper_by=row.lower_by,
        lower_by=row.upper_by
    )  # fmt: skip


def _above(low: float, high: float, value: float) -> float:
    """low + (high - low) value, rounded up."""
    found = low + (high - low) * value
    return min(high, found if low == 0.0 else math.nextafter(found, math.inf))


def _below(low: float, high: float, value: float) -> float:
    """high - (high - low) value, rounded down, for the certificate of the complement."""
    return max(low, math.nextafter(high - (high - low) * value, -math.inf)) if value < 1.0 else low


def described(
    made: bounds.Certificate,
    examples: Examples,
    *,
    of: str,
    measures: str = "",
    ranged: bool = False,
) -> bounds.Certificate:
    """A certificate with its predictor, its risk, and the hypotheses that whoever gave the predictions vouches for."""
    unit = examples.unit
    said = [
        declared(one.name, BY, unit if one.name == "records independent" else "")
        for one in made.hypotheses
    ]
    if ranged:
        said.append(
            declared("losses within their range", examples.range_by or f"{BY}: they lie in 0 to 1")
        )
    return replace(made, of=of, measures=measures or made.measures).resting_on(*said)


def _upper(part: Part, examples: Examples, *, failure_prob: float) -> bounds.Certificate:
    """The certificate of the mean of a question's losses."""
    measures, counted = part.measures + examples.new, part.losses.dtype == np.bool_
    if part.sample is not None:
        made = bounds.new_person_betting(sample=part.sample, failure_prob=failure_prob)
        made = replace(made, value=_computed(made.value), name=f"{NEW}_{made.name}")
    elif counted and examples.weights is None:
        made = clopper_pearson(int(part.losses.sum()), len(part.losses), failure_prob, name=NEW)
    else:
        made = _betting(part, examples, failure_prob)
    if examples.weights is not None:
        measures = f"weighted {'error' if measures == '0-1 risk' else measures}"
    ranged = part.given and (
        not counted or bool(examples.range_by)
    )  # else their type says that they lie in [0, 1]
    return described(made, examples, of=part.of, measures=measures, ranged=ranged)


def clopper_pearson(
    errors: int, n: int, failure_prob: float, *, name: str = "test_set", of: str = ""
) -> bounds.Certificate:
    """Clopper and Pearson's bound on the 0-1 risk of a predictor that errs on ``errors`` of ``n`` examples new to it.

    Formal guarantee: see :func:`bounds.clopper_pearson_upper`.
    """
    value = bounds.clopper_pearson_upper(errors, n, failure_prob)
    return _certificate(
        name, "clopper_pearson", value, failure_prob, risk=errors / n, inputs={"k": errors, "n": n},
        reference="Clopper and Pearson (1934)", of=of,
    )  # fmt: skip


def about(
    made: bounds.Certificate, name: str = "", *, of: str, measures: str = "0-1 risk"
) -> bounds.Certificate:
    """The certificate under the name of the predictor and the risk that it is about."""
    return replace(made, name=name or made.name, of=of, measures=measures)


def _betting(part: Part, examples: Examples, failure_prob: float) -> bounds.Certificate:
    """Betting on examples; by weight, on the ratio of the mean weighted loss to the mean weight."""
    if examples.weights is None:
        name, where = "betting", 'docs/guarantees.md, "Betting"'
        value = bounds.betting_upper(part.losses, failure_prob)
        risk = outward(math.fsum(part.losses) / len(part.losses))
    else:
        name, where = "weighted_betting", 'docs/people.md, "Betting on a ratio"'
        share = _of_rows(examples.weights, part)
        value = ratio_betting_upper(part.losses.astype(np.float64), share, failure_prob)
        risk = _mean(part, examples)
    risk = min(1.0, risk)
    return _certificate(
        NEW, name, _computed(value), failure_prob, risk=risk, inputs={"risk": risk, "n": len(part.losses)},
        reference=f"Waudby-Smith and Ramdas 2024; {where}"
    )  # fmt: skip


def _certificate(
    examples: str, formula: str, value: float, failure_prob: float, *, risk: float, inputs: dict[str, float | int],
    reference: str, of: str = "",
) -> bounds.Certificate:  # fmt: skip
    return bounds.Certificate(
        name=f"{examples}_{formula}",
        value=value,
        failure_prob=failure_prob,
        of=of,
        measures="0-1 risk",
        hypotheses=declared_by(_FORMULA, formula),
        terms={"empirical_risk": risk},
        budget={"test set": failure_prob},
        reference=reference,
        inputs={**inputs, "failure_prob": failure_prob},
    )


def _computed(value: float) -> float:
    return min(1.0, value + ROUNDED)


def _mean(part: Part, examples: Examples) -> float:
    """The mean as it is certified: over people of their own means, or by weight."""
    if part.sample is not None:
        return float(np.mean(part.sample.sums / part.sample.sizes))
    values = part.losses
    if examples.weights is not None:
        share = _of_rows(examples.weights, part)
        return float((share * values).sum() / share.sum())
    if values.dtype == np.bool_:
        return int(values.sum()) / values.size
    return math.fsum(values) / values.size


def _of_rows(column: NDArray[Any] | None, part: Part) -> NDArray[Any]:
    """A column of all examples, at those that a question is about."""
    assert column is not None
    return column if part.rows is None else column[part.rows]


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


EDGES = tuple(k / 15 for k in range(16))
MIN_COUNT = 30
"""Bins with fewer examples are not certified: by counts alone, which the gap in a bin does not decide."""


def calibration_error(examples: Examples, of: str, said: Answers, *, failure_prob: float) -> Found:
    """The expected calibration error: at most so much, whatever the number of bins."""
    if examples.people is None:
        sample = sample_of(said, examples.labels)
        error, squared = sample.calibration_error, sample.mean_squared_gap
    else:
        error, squared = _of_people(examples, said)
    n = examples.units
    made = bounds.ece_second_moment(
        calibration_error=error, mean_squared_gap=squared, n=n, failure_prob=failure_prob
    )
    made = described(
        replace(made, name="new_examples_ece"), examples, of=of, measures=f"ECE{examples.new}"
    )
    row = Statement(
        family="calibration", quantity="calibration error (ECE)", of=of, measured=error, upper=made.value, n=n
    )  # fmt: skip
    return [row], [made]


def bins(examples: Examples, of: str, said: Answers, *, failure_prob: float) -> Found:
    """The gap between confidence and accuracy in every bin with enough examples, all at once, or nothing."""
    sample = sample_of(said, examples.labels)
    certified = {
        f"gap_{place}": one for place, one in enumerate(sample.bins) if one.count >= MIN_COUNT
    }
    if not certified:
        return [], []
    made = bounds.mce_clopper_pearson(
        bins=sample.bins, min_count=MIN_COUNT, failure_prob=failure_prob
    )
    made = described(replace(made, name=f"new_examples_{made.name}"), examples, of=of)
    return [
        Statement(
            family="bins", quantity=f"calibration gap at confidence {one.low:.2f} to {one.high:.2f}", of=of,
            measured=one.gap, upper=made.terms[term], n=one.count, term=term
        )
        for term, one in certified.items()
    ], [made]  # fmt: skip


def sample_of(said: Answers, labels: Codes | None) -> bounds.CalibrationSample:
    """Confidences and errors by bin."""
    return bounds.calibration_sample(
        confidence=_known(said.confidence), correct=said.predicted == labels, edges=EDGES
    )


def _of_people(examples: Examples, said: Answers) -> tuple[float, float]:
    """The plug-in ECE of people's mean gaps, and the mean over people of the square of their mean absolute gap."""
    owners = np.unique(_known(examples.people), return_inverse=True)[1]
    sizes, confidence = np.bincount(owners), _known(said.confidence)
    gap = (said.predicted == examples.labels) - confidence
    slot = np.minimum(
        np.searchsorted(np.asarray(EDGES), confidence, side="right") - 1, len(EDGES) - 2
    )
    means = (
        np.bincount(owners, weights=np.where(slot == b, gap, 0.0)) / sizes
        for b in range(len(EDGES) - 1)
    )
    error = math.fsum(abs(math.fsum(mean)) for mean in means) / sizes.size
    squared = math.fsum((np.bincount(owners, weights=np.abs(gap)) / sizes) ** 2) / sizes.size
    return _up(error), _up(max(squared, error * error))


def _known(column: np.ndarray | None) -> np.ndarray:
    assert column is not None
    return column


def _up(value: float) -> float:
    """Rounded up by far more than the sums' errors."""
    return min(1.0, value * (1.0 + 1e-12) + 2.0**-50)
