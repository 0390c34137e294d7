"""How thresholds are tested so that the tests together fail with at most one probability, and what comes of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bounds._arithmetic import outward
from bounds._check import Array, as_given, doubles, names, rates, reals
from bounds.budget import FailureBudget
from bounds.certificate import Certificate
from bounds.hypotheses import Hypothesis, declared_by, merged
from bounds.means import betting_upper, clopper_pearson_upper
from bounds.numbers import confidence, percent, up
from bounds.record import record

THRESHOLDS = "thresholds"
_TIES = 1e-3
"""The share of scores beyond which it is no chance that they equal a threshold's value in a coarser precision."""
_COARSER = {"bfloat16": 8, "half precision": 11, "single precision": 24}
"""How many binary digits numbers have in these."""
REFERENCE = (
    'Angelopoulos, Bates, Candès, Jordan and Lei, "Learn then test", 2021; docs/guarantees.md, '
    '"Thresholds that control a risk"'
)


@record
class ThresholdTest:
    """What the records say of one threshold; with groups, what they say of the worst of them.

    Attributes:
        threshold: the threshold that was tested.
        records: how many records count at it; with groups, the fewest of any.
        risk: their mean loss; with groups, the largest of any.
        limit: the upper confidence limit of the risk, at the failure probability of one test; the largest of any group.
        passed: whether the limit is at most the target, in every group.
    """

    threshold: float
    records: int
    risk: float
    limit: float
    passed: bool


@record
class RiskControl:
    """A threshold, and the certificate that the risk at it is at most a target; or that no threshold qualifies.

    Attributes:
        threshold: the one that was chosen; None when none qualifies.
        target: what the risk was to stay below.
        certificate: of the risk at the threshold; its value is 1 when none qualifies.
        tests: the thresholds that were tested, in the order of the tests.
        level: the failure probability of each test.
        share: the share of all records that count at the threshold, such as the share answered; 0 when none qualifies.
    """

    threshold: float | None
    target: float
    certificate: Certificate
    tests: tuple[ThresholdTest, ...]
    level: float
    share: float

    @property
    def qualifies(self) -> bool:
        """Whether a threshold was found."""
        return self.threshold is not None

    def to_dict(self) -> dict[str, Any]:
        """Plain types for JSON."""
        record = {name: getattr(self, name) for name in ("threshold", "target", "level", "share")}
        return {**record, "tests": [asdict(one) for one in self.tests], "certificate": self.certificate.to_dict()}

    def __str__(self) -> str:
        if self.qualifies:
            made = self.certificate
            sure = confidence(made.failure_prob)
            said = f"{made.measures} of {made.of} at most {percent(made.value)}% ({sure} confidence)."
            return f"Threshold {self.threshold!r}: {said}"
        best = min(self.tests, key=lambda one: one.limit)
        return (
            f"No threshold qualifies: of {len(self.tests)} tested, {best.threshold!r} comes closest, with an upper "
            f"limit of {up(best.limit)} from {best.records} records, above the target {self.target:g}; take more "
            f"records, a larger target or other starts."
        )


Columns = Callable[[int], NDArray[Any]]
"""The losses of the records that count at one threshold, by its position in the order of the tests; NaN elsewhere."""


class Controlled(NamedTuple):
    """What is to stay below a target, and with what probability it may not."""

    function: str
    of: str
    measures: str
    target: float
    failure_prob: float

    def tested(self, threshold: float, samples: list[Array], limit: Callable[[Array], float]) -> ThresholdTest:
        """What the losses of the records that count, group by group, say of a threshold: the worst of the groups."""
        limits = [limit(sample) if sample.size else 1.0 for sample in samples]
        means = [min(1.0, outward(float(sample.mean()))) if sample.size else 0.0 for sample in samples]
        return ThresholdTest(
            threshold=threshold,
            records=min(sample.size for sample in samples),
            risk=max(means),
            limit=max(limits),
            passed=max(limits) <= self.target,
        )

    def result(
        self,
        tests: Sequence[ThresholdTest],
        chosen: ThresholdTest | None,
        *,
        value: float,
        share: float,
        level: float,
        inputs: Mapping[str, float | int | str],
        budget: str,
        reference: str,
        known: tuple[Hypothesis, ...] = (),
    ) -> RiskControl:
        """The threshold with the certificate that its risk is at most ``value``; without one, at most 1."""
        at, seen = dict[str, float](), dict[str, float]()
        if chosen is None:
            value, share = 1.0, 0.0
        else:
            at["threshold"] = chosen.threshold
            seen = {"empirical_risk": chosen.risk, "records_counted": chosen.records, "limit": chosen.limit}
        certificate = Certificate(
            name=self.function,
            value=value,
            failure_prob=self.failure_prob,
            of=self.of,
            measures=self.measures,
            hypotheses=merged(declared_by(f"the caller of bounds.{self.function}", self.function), known),
            terms=seen,
            budget={budget: self.failure_prob},
            reference=reference,
            inputs={**inputs, **at, "failure_prob": self.failure_prob},
        )
        return RiskControl(
            threshold=at.get("threshold"),
            target=self.target,
            certificate=certificate,
            tests=tuple(tests),
            level=level,
            share=share,
        )


def control(
    what: Controlled,
    losses: Columns,
    *,
    n: int,
    thresholds: tuple[float, ...],
    starts: int,
    groups: ArrayLike | None,
    exact: bool,
    **inputs: int,
) -> RiskControl:
    """The last threshold that passed, with its certificate; tests go on from each start until one fails."""
    count = len(thresholds)
    if starts > count:
        raise ValueError(f"starts must be at most the number of thresholds, {count}, got {starts}.")
    level = FailureBudget(what.failure_prob).spend(THRESHOLDS, what.failure_prob).share(THRESHOLDS, starts)
    limit = partial(errors_upper if exact else betting_upper, failure_prob=level)
    parts, found = parts_of(groups, n), dict[int, ThresholdTest]()
    for start in range(starts):
        position = start * count // starts
        while position < count and position not in found:
            column = losses(position).astype(np.float64)
            samples = [column[part][~np.isnan(column[part])] for part in parts.values()]
            found[position] = what.tested(thresholds[position], samples, limit)
            if not found[position].passed:
                break
            position += 1
    last = max((position for position, one in found.items() if one.passed), default=-1)
    chosen = found.get(last)
    return what.result(
        [found[position] for position in sorted(found)],
        chosen,
        value=chosen.limit if chosen and starts == count else what.target,
        share=float(np.count_nonzero(~np.isnan(losses(last)))) / n,
        level=level,
        inputs={"n": n, "target": what.target, "starts": starts, "level": level}
        | {"thresholds": ", ".join(map(repr, thresholds)), **inputs},
        budget=THRESHOLDS,
        reference=REFERENCE,
    )


def errors_upper(errors: Array, failure_prob: float) -> float:
    """The exact upper limit of a rate of errors, given as zeros and ones."""
    return clopper_pearson_upper(int(errors.sum()), errors.size, failure_prob)


def parts_of(groups: Any, n: int) -> dict[str, NDArray[np.intp]]:
    """The positions of the records of each group, by its name; of all n records where ``groups`` is None."""
    if groups is None:
        return {"": np.arange(n)}
    named = names("groups", groups)
    if len(named) != n:
        raise ValueError(f"groups must be one name for each of the {n} records, got {len(named)}; name that of each.")
    return {str(name): np.flatnonzero(named == name) for name in np.unique(named)}


def scores_of(name: str, values: ArrayLike, n: int) -> Array:
    """``values`` as one number a record, none of them NaN."""
    scores = doubles(name, values)
    if scores.shape != (n,) or np.isnan(scores).any():
        raise ValueError(f"{name} must be one number for each of the {n} records, none NaN, got shape {scores.shape}.")
    return scores


def descending(thresholds: Any, **scores: ArrayLike) -> tuple[float, ...]:
    """Different thresholds, the highest first, as NumPy and torch compare them with one array of ``scores``.

    Beside numbers of single precision both round 0.9 to that, and so to a number below it, which a score can be. Scores
    that were of a coarser precision when a network made them are compared so again.
    """
    ((name, given),) = scores.items()
    kind, values = as_given(given).dtype, doubles(name, given)
    own = kind if kind.kind == "f" and kind.itemsize < values.itemsize else values.dtype
    with np.errstate(all="ignore"):
        rounded = np.array(finite(thresholds)).astype(own).tolist()
    listed = sorted(set(finite(rounded)), reverse=True)
    for coarser, digits in _COARSER.items():
        near = _of_digits(listed, digits).tolist() if digits <= np.finfo(own).nmant else listed
        for one, other in zip(listed, near, strict=True):
            if other >= one or (values == other).mean() <= _TIES:
                continue
            # bfloat16 has no arrays of its own, and is given in single precision; votes of 128 networks have 7 digits
            brain = (values == _of_digits(values, 8)).all() and (values != _of_digits(values, 7)).any()
            if digits > 8 or (own == np.float32 and brain):
                raise ValueError(
                    f"{name} holds {other!r}, which is the threshold {one!r} in {coarser}, and comparisons in that "
                    f"take them for equal: give {other!r} as the threshold, or {name} in that precision."
                )
    return tuple(listed)


def _of_digits(values: ArrayLike, digits: int) -> Array:
    """The nearest numbers of so many binary digits."""
    part, power = np.frexp(np.asarray(values, dtype=np.float64))
    return np.ldexp(np.rint(np.ldexp(part, digits)), power - digits)


def finite(thresholds: Any) -> tuple[float, ...]:
    """``thresholds`` as floats, if they are finite and at least one."""
    listed = reals(THRESHOLDS, thresholds)
    if not listed or not all(map(isfinite, listed)):
        raise ValueError(f"thresholds must be one or more finite numbers, got {len(listed)}; fix some beforehand.")
    return listed


def losses_of(values: Any, *, dimension: int) -> tuple[Array, bool]:
    """Losses as floats, and whether their type says that they are errors."""
    losses = rates("losses", values)
    if losses.ndim != dimension or losses.size == 0:
        what = "one row a record and one column a threshold" if dimension == 2 else "one number a record"
        raise ValueError(f"losses must be {what}, got shape {losses.shape}.")
    return losses, as_given(values).dtype.kind in "biu"
