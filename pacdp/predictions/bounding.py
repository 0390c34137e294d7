"""From a question to certificates: exact for counts of errors, betting for other losses, people and weights.

Which of the two is decided by the type of the losses, truth values or real numbers, and never by what they are: a
choice that the sample made would have to be paid for. Every certificate bounds a mean from above; the lower end of an
interval is one minus the certificate of the complement. The largest gap between groups follows from the intervals of
all of them, at no failure probability beyond theirs. Values of losses that were themselves computed have room for their
rounding.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bounds
from bounds._arithmetic import log_inverse, outward
from bounds.hypotheses import declared, declared_by, together
from bounds.kl import binary_kl_upper
from bounds.means import betting_upper, clopper_pearson_upper, paired_upper, ratio_betting_upper
from bounds.people import PeopleSample
from pacdp.predictions.columns import Floats
from pacdp.predictions.examples import BY, Examples
from pacdp.store.record import record

NEW = "new_examples"
"""What the names of certificates of predictions begin with."""
_CALLER = "the caller of bounds.clopper_pearson_upper"


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """One question: the mean of a loss over the examples that meet a condition.

    Attributes:
        family: the entry of the ledger that pays for it.
        of: the model.
        measures: what the mean is called in certificates, such as "error on class 'cat'".
        otherwise: what one minus it is called, such as "recall of class 'cat'".
        losses: of these examples, in [0, 1]; as int8 differences of two errors, of which it is half of one plus them.
        sample: where people are counted, who has such examples and the sums of their losses, which are not here then.
        weights: of each of them, where these are given.
        low: the quantity that is reported is low + (high - low) mean.
        high: see ``low``.
        named: the reported quantity where it is not the mean.
        both: whether both ends are always asked.
        empty: what is missing where no example meets the condition; "" where the question is about all examples.
        given: whether the losses were given as such, and do not follow from labels and what a model said.
    """

    family: str
    of: str
    measures: str
    otherwise: str
    losses: NDArray[Any]
    sample: PeopleSample | None = None
    weights: Floats | None = None
    low: float = 0.0
    high: float = 1.0
    named: str = ""
    both: bool = False
    empty: str = ""
    given: bool = False

    @property
    def n(self) -> int:
        """How many independent records it rests on."""
        return len(self.losses) if self.sample is None else self.sample.n

    @property
    def mean(self) -> float:
        """The mean as it is certified: over people of their own means, or by weight."""
        if self.sample is not None:
            return float(np.mean(self.sample.sums / self.sample.sizes))
        if self.weights is not None:
            return float((self.weights * self.losses).sum() / self.weights.sum())
        if self.losses.dtype == np.bool_:
            return int(self.losses.sum()) / self.losses.size
        if self.losses.dtype == np.int8:
            return 0.5 + 0.5 * int(self.losses.sum(dtype=np.int64)) / self.losses.size
        return math.fsum(self.losses) / self.losses.size

    @property
    def complement(self) -> "Part":
        """The question of one minus the losses."""
        kind = self.losses.dtype
        rest = (
            ~self.losses
            if kind == np.bool_
            else -self.losses
            if kind == np.int8
            else 1.0 - self.losses
        )
        sample = self.sample
        if sample is not None:
            sizes, sums = sample.sizes, sample.sizes - sample.sums
            if kind != np.bool_:  # sums of which were rounded up
                sums = np.minimum(sizes, sums + sizes * (sizes + 8) * 2.0**-51)
            sample = PeopleSample(sizes=sizes, sums=sums)
        return replace(self, losses=rest, sample=sample, measures=self.otherwise)


@record
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
        upper, lower = (
            None if at is None else at + certificates for at in (self.upper_by, self.lower_by)
        )
        return replace(self, upper_by=upper, lower_by=lower)


Found = tuple[list[Statement], list[bounds.Certificate]]
"""Rows, and the certificates in whose list the rows' places count."""


def answer(part: Part, examples: Examples, *, failure_prob: float, interval: bool) -> Found:
    """The rows on a question and their certificates, which fail together with at most ``failure_prob``."""
    two = interval or part.both
    each = math.nextafter(failure_prob / 2, 0.0) if two else failure_prob
    asked = (part, part.complement) if two else (part,)
    made = [_upper(one, examples, failure_prob=each) for one in asked]
    low, high = part.low, part.high
    row = Statement(
        family=part.family,
        quantity=part.named or (part.measures if part.measures != "0-1 risk" else "error"),
        of=part.of,
        measured=low + (high - low) * part.mean,
        lower=below_one(low, high, made[1].value) if two else None,
        upper=_above(low, high, made[0].value),
        n=part.n,
        range=(low, high),
        lower_by=1 if two else None,
    )
    if part.family == "recall":  # the error on a class, and its recall
        return [row, _turned(row, part.otherwise)], made
    return [_turned(row, part.otherwise) if part.family == "precision" else row], made


def _turned(row: Statement, quantity: str) -> Statement:
    """The row of one minus a quantity in [0, 1], by the same certificates with their places exchanged."""
    return replace(
        row, quantity=quantity, measured=1.0 - row.measured, upper_by=row.lower_by, lower_by=row.upper_by,
        lower=None if row.upper is None else below_one(0.0, 1.0, row.upper),
        upper=None if row.lower is None else min(1.0, math.nextafter(1.0 - row.lower, math.inf)),
    )  # fmt: skip


def _above(low: float, high: float, value: float) -> float:
    """low + (high - low) value, rounded up."""
    found = low + (high - low) * value
    return min(high, found if low == 0.0 else math.nextafter(found, math.inf))


def below_one(low: float, high: float, value: float) -> float:
    """high - (high - low) value, rounded down, for the certificate of the complement."""
    return max(low, math.nextafter(high - (high - low) * value, -math.inf)) if value < 1.0 else low


def _upper(part: Part, examples: Examples, *, failure_prob: float) -> bounds.Certificate:
    """The certificate of the mean of a question's losses."""
    measures, losses, n = part.measures + examples.new, part.losses, len(part.losses)
    counted = losses.dtype.kind in "bi"
    if part.weights is not None:
        measures = f"weighted {'error' if measures == '0-1 risk' else measures}"
    if part.sample is not None:
        made = bounds.new_person_betting(sample=part.sample, failure_prob=failure_prob)
        made = replace(made, value=computed(made.value), name=f"{NEW}_{made.name}")
    elif part.weights is not None:
        made = betting(losses, part.mean, failure_prob, part.weights)
    elif losses.dtype == np.bool_:
        made = clopper_pearson(int(losses.sum()), n, failure_prob, name=NEW)
    elif counted:
        made = paired(int((losses > 0).sum()), int((losses < 0).sum()), n, failure_prob)
    else:
        made = betting(losses, outward(part.mean), failure_prob)
    ranged = part.given and (not counted or bool(examples.range_by))  # else they are truth values
    return described(made, examples, of=part.of, measures=measures, ranged=ranged)


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
        by = examples.range_by or f"{BY}: they lie in 0 to 1"
        said.append(declared("losses within their range", by))
    return replace(made, of=of, measures=measures or made.measures).resting_on(*said)


_REFERENCE = 'docs/guarantees.md, "The largest gap between groups"'


def largest_gap(found: Sequence[Found], examples: Examples, *, of: str, groups: int) -> Found:
    """At most the largest difference between the upper end of one group and the lower end of another.

    Formal guarantee: on the event on which the groups' intervals hold, |error in one group - error in another| ≤ value
    for all pairs at once.

    Args:
        found: the rows of the groups, at least two, with both ends, and their certificates.
        of: the model.
        groups: how many groups there are, with those of which nothing is certified.
    """
    rows = [row for own, _ in found for row in own]
    made = [one for _, own in found for one in own]
    uppers, lowers = ([float(getattr(row, end)) for row in rows] for end in ("upper", "lower"))
    top = sorted(range(len(rows)), key=lambda place: -uppers[place])[:2]
    low = sorted(range(len(rows)), key=lambda place: lowers[place])[:2]
    value = max(uppers[a] - lowers[b] for a in top for b in low if a != b)
    measured = [row.measured for row in rows]
    empirical, paid = max(measured) - min(measured), math.fsum(one.failure_prob for one in made)
    some = "" if len(rows) == groups else f"{len(rows)} of {groups} "
    called = f"largest gap between {some}groups"
    gap = bounds.Certificate(
        name="largest_gap",
        value=min(1.0, math.nextafter(max(0.0, value), math.inf)),
        failure_prob=paid,
        of=of,
        measures="weighted " * (examples.weights is not None) + called + examples.new,
        hypotheses=together(*(one.hypotheses for one in made)),
        terms={"empirical_gap": empirical},
        budget={"groups": paid},
        reference=_REFERENCE,
        inputs={
            "uppers": ", ".join(map(repr, uppers)),
            "lowers": ", ".join(map(repr, lowers)),
            "n": examples.units,
        },
    )
    row = Statement(family="groups", quantity=called, of=of, measured=empirical, upper=gap.value,
                    n=examples.units)  # fmt: skip
    return [row], [gap]


def about(
    made: bounds.Certificate, name: str = "", *, of: str, measures: str = "0-1 risk"
) -> bounds.Certificate:
    """The certificate under the name of the predictor and the risk that it is about."""
    return replace(made, name=name or made.name, of=of, measures=measures)


def computed(value: float) -> float:
    """The value of a loss that was computed, with far more room than its rounding takes."""
    return min(1.0, value + 2.0**-40)


def clopper_pearson(
    errors: int, n: int, failure_prob: float, *, name: str = "test_set", of: str = ""
) -> bounds.Certificate:
    """Clopper and Pearson's bound on the 0-1 risk of a predictor that errs on ``errors`` of ``n`` examples new to it.

    Formal guarantee: see :func:`bounds.clopper_pearson_upper`.
    """
    value = clopper_pearson_upper(errors, n, failure_prob)
    reference = "Clopper and Pearson (1934)"
    made = _made(
        "clopper_pearson", value, failure_prob, errors / n, {"k": errors, "n": n}, reference, name
    )
    return replace(made, of=of)


def paired(more: int, fewer: int, n: int, failure_prob: float) -> bounds.Certificate:
    """Of half of one plus the difference of two errors, from the examples on which one model alone errs.

    Formal guarantee: see :func:`bounds.means.paired_upper`.
    """
    half = math.nextafter(0.5 + 0.5 * paired_upper(more, fewer, n, failure_prob), math.inf)
    inputs = {"more": more, "fewer": fewer, "n": n}
    where = 'docs/guarantees.md, "Differences on the same examples"'
    return _made(
        "paired", min(1.0, half), failure_prob, 0.5 + 0.5 * (more - fewer) / n, inputs, where
    )


def betting(
    losses: NDArray[Any], mean: float, failure_prob: float, weights: Floats | None = None
) -> bounds.Certificate:
    """Betting on examples; by weight, on the ratio of the mean weighted loss to the mean weight.

    Formal guarantee: see :func:`bounds.betting_upper` and :func:`bounds.means.ratio_betting_upper`.
    """
    risk = min(1.0, mean)
    name, where = "betting", 'docs/guarantees.md, "Betting"'
    if weights is None:
        value = betting_upper(losses, failure_prob)
    else:
        name, where = "weighted_betting", 'docs/people.md, "Betting on a ratio"'
        value = ratio_betting_upper(losses.astype(np.float64), weights, failure_prob)
    inputs = {"risk": risk, "n": len(losses)}
    reference = f"Waudby-Smith and Ramdas 2024; {where}"
    return _made(name, computed(value), failure_prob, risk, inputs, reference)


def auc_upper(mean: float, n: int, failure_prob: float) -> bounds.Certificate:
    """Of the share of pairs of a positive and a negative record, n of them in the smaller class, from its mean.

    Formal guarantee: see :func:`pacdp.predictions.area.area`.
    """
    risk = computed(mean)
    value = computed(binary_kl_upper(risk, outward(log_inverse(failure_prob) / n)))
    where = 'Hoeffding 1963, 5a; docs/guarantees.md, "Area under the curve"'
    return _made("auc", value, failure_prob, risk, {"risk": risk, "n": n}, where)


def _made(
    formula: str, value: float, failure_prob: float, risk: float, inputs: Mapping[str, float | int], reference: str,
    name: str = NEW,
) -> bounds.Certificate:  # fmt: skip
    return bounds.Certificate(
        name=f"{name}_{formula}",
        value=value,
        failure_prob=failure_prob,
        measures="0-1 risk",
        hypotheses=declared_by(_CALLER, formula),
        terms={"empirical_risk": risk},
        budget={"test set": failure_prob},
        of="",
        reference=reference,
        inputs={**inputs, "failure_prob": failure_prob},
    )
