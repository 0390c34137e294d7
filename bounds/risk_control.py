"""Thresholds chosen so that a risk stays below a target with a stated probability: risk control.

A rule with a threshold (answer or abstain, alarm or not, which labels to list) is tried on records that its predictor
did not see. Each threshold that is tested gets an upper confidence limit of its risk, exact for errors and by betting
for other losses, and the tests are arranged so that together they fail with at most ``failure_prob``: in a fixed
sequence, from several starts, or one by one (Bonferroni). Proofs:
docs/guarantees.md, "Thresholds that control a risk". Arguments out of range raise ValueError.

Rules whose errors cannot disappear as the threshold rises need no list of thresholds, and pay nothing: a detector that
sounds at scores from a threshold up misses more as it rises, and a prediction set that holds the labels from a
threshold up misses the true label more often. Then the scores themselves are the thresholds, and one exact confidence
limit is enough.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bounds._arithmetic import inward
from bounds._check import Array, as_given, door, doubles, nonnegative
from bounds._threshold_tests import (
    Controlled,
    RiskControl,
    control,
    descending,
    errors_upper,
    finite,
    losses_of,
    parts_of,
    scores_of,
)
from bounds.budget import FailureBudget
from bounds.hypotheses import proved
from bounds.means import clopper_pearson_upper

_REFERENCE = (
    'Bates, Angelopoulos, Lei, Malik and Jordan, "Distribution-free, risk-controlling prediction sets", JACM 2021; '
    'docs/guarantees.md, "Thresholds that control a risk"'
)
_MONOTONE = "no record that is missed at a threshold is found at a higher one, so that no list of thresholds is needed"


@door()
def control_risk(
    *,
    losses: ArrayLike,
    thresholds: Sequence[float],
    target: float,
    failure_prob: float,
    starts: int = 1,
    groups: ArrayLike | None = None,
) -> RiskControl:
    """The last threshold at which a risk passes its test, for losses that were computed at every threshold.

    From each of ``starts`` equally spaced positions of the list, at failure_prob/starts, thresholds are tested in their
    order until one fails. One start is fixed-sequence testing; as many starts as thresholds are Bonferroni's tests, and
    then the certificate's value is the limit at the chosen threshold, in place of the target.

    Formal guarantee: records drawn independently from one law, which neither the rule nor the list of thresholds
    depends on, give a risk at the chosen threshold of at most ``certificate.value`` ≤ target with probability at least
    1 - failure_prob; with ``groups``, the risk of each group, given which group each record belongs to.

    Args:
        losses: one row a record and one column a threshold. Of type bool or whole numbers 0 and 1 they are errors and
            get the exact bound; floats in [0, 1] get the betting bound, even where all of them are 0 or 1.
        thresholds: fixed beforehand, the safest first: the order of the tests.
        target: what the risk is to stay below.
        failure_prob: probability that the risk at the chosen threshold exceeds the certificate's value.
        starts: how many positions the tests start from.
        groups: one whole number or text a record: one threshold is to do for every group, at no further cost.
    """
    table, exact = losses_of(losses, dimension=2)
    listed = finite(thresholds)
    if table.shape[1] != len(listed) or len(set(listed)) < len(listed):
        raise ValueError(
            f"thresholds must be different numbers, one for each of the {table.shape[1]} columns of losses, got "
            f"{len(listed)}; give each column its threshold."
        )
    what = Controlled("control_risk", "rule", "risk", target, failure_prob)
    return control(
        what,
        lambda position: table[:, position],
        n=len(table),
        thresholds=listed,
        starts=starts,
        groups=groups,
        exact=exact,
    )


@door()
def control_selective_risk(
    *,
    confidence: ArrayLike,
    losses: ArrayLike,
    thresholds: Sequence[float],
    target: float,
    failure_prob: float,
    starts: int | None = None,
    groups: ArrayLike | None = None,
) -> RiskControl:
    """The threshold at which a predictor that abstains below it answers most and still errs rarely where it answers.

    The predictor answers where its confidence is at least the threshold. Its selective risk is the mean loss among the
    records that it answers, R = E[loss | answered]; ``share`` is the share answered. Thresholds are tested from the
    highest down. By default each is a start (Bonferroni), because at the highest few records are left to judge by.
    Thresholds are rounded to the precision of the numbers that they are compared with, as NumPy and torch round them.

    Formal guarantee: that of ``control_risk``, for the selective risk.

    Args:
        confidence: one number a record.
        losses: one loss a record, of the answer it would get: bool or whole numbers for errors, floats in [0, 1] else.
        thresholds: fixed beforehand, in any order.
        target: what the selective risk is to stay below.
        failure_prob: as in ``control_risk``; so are starts and groups.
    """
    values, exact = losses_of(losses, dimension=1)
    confident = scores_of("confidence", confidence, len(values))
    listed = descending(thresholds, confidence=confidence)
    starts = len(listed) if starts is None else starts

    def answered(position: int) -> Array:
        return np.where(confident >= listed[position], values, np.nan)

    risk = "selective 0-1 risk" if exact else "selective risk"
    what = Controlled("control_selective_risk", "predictor where it answers", risk, target, failure_prob)
    return control(what, answered, n=len(values), thresholds=listed, starts=starts, groups=groups, exact=exact)


@door(most_labels=nonnegative)
def control_set_size(
    *,
    scores: ArrayLike,
    thresholds: Sequence[float],
    most_labels: float,
    failure_prob: float,
    starts: int = 1,
    groups: ArrayLike | None = None,
) -> RiskControl:
    """The lowest threshold at which the mean size of prediction sets stays below ``most_labels``.

    The set of a record holds the labels whose score is at least the threshold. The risk is its size over the number of
    labels K, so that the certificate bounds the mean size by K times its value. Thresholds are tested from the highest
    down. ``control_miscoverage`` fixes what the sets miss, this function what they cost.

    Formal guarantee: that of ``control_risk``, for the mean size over K and the target most_labels/K.

    Args:
        scores: one row a record and one column a label.
        thresholds: fixed beforehand, in any order.
        most_labels: what the mean number of labels in a set is to stay below, from 0 to K.
        failure_prob: as in ``control_risk``; so are starts and groups.
    """
    table = doubles("scores", scores)
    if table.ndim != 2 or table.size == 0 or np.isnan(table).any():
        raise ValueError(f"scores must be one row a record and one column a label, none NaN, got shape {table.shape}.")
    labels, listed = table.shape[1], descending(thresholds, scores=scores)
    target = min(1.0, inward(most_labels / labels))

    def sizes(position: int) -> Array:
        return (table >= listed[position]).sum(axis=1) / labels

    measures = "mean set size as a share of the labels"
    what = Controlled("control_set_size", "prediction sets", measures, target, failure_prob)
    return control(
        what, sizes, n=len(table), thresholds=listed, starts=starts, groups=groups, exact=False, labels=labels
    )


def control_groups(
    control: Callable[..., RiskControl],
    *,
    groups: ArrayLike,
    records: Mapping[str, ArrayLike],
    failure_prob: float,
    **settings: Any,
) -> dict[str, RiskControl]:
    """A threshold of its own for each group: ``control`` on the records of each, at failure_prob over their number.

    Formal guarantee: given which group each record belongs to, all certificates hold together with probability at least
    1 - failure_prob; each by itself with its own.

    Args:
        control: a function of this room or of ``bounds.risk_control``.
        groups: one whole number or text a record.
        records: the arguments of ``control`` that have one entry a record, by name.
        failure_prob: of all groups together.
        settings: the other arguments of ``control``, the same for each group.
    """
    if not callable(control):
        raise ValueError(f"control must be a function such as control_selective_risk, got {control!r}.")
    arrays = _arrays(records)
    parts = parts_of(groups, len(next(iter(arrays.values()))))
    level = FailureBudget(failure_prob).spend("groups", failure_prob).share("groups", len(parts))
    found: dict[str, RiskControl] = {}
    for name, part in parts.items():
        own = {argument: array[part] for argument, array in arrays.items()}
        made = control(**own, failure_prob=level, **settings)
        certificate = replace(made.certificate, of=f"{made.certificate.of} in group {name}")
        found[name] = replace(made, certificate=certificate)
    return found


def _arrays(records: Any) -> dict[str, NDArray[Any]]:
    """``records`` as arrays of one length, by the names of their arguments."""
    given: dict[Any, Any] = dict(cast(Mapping[Any, Any], records)) if isinstance(records, Mapping) else {}
    arrays = {str(name): as_given(values) for name, values in given.items()}
    lengths = {array.shape[:1] for array in arrays.values()}
    if len(lengths) != 1 or () in lengths:
        raise ValueError(
            "records must be arrays with one entry a record, by the names of their arguments, got "
            f"{sorted(map(str, given))}; pass for example {{'scores': scores}}."
        )
    return arrays


@door()
def control_false_negatives(
    *,
    scores: ArrayLike,
    positives: ArrayLike,
    target: float,
    failure_prob: float,
    groups: ArrayLike | None = None,
) -> RiskControl:
    """The highest threshold of a detector whose rate of false negatives stays below ``target``.

    The detector sounds at scores from the threshold up. With the k largest number of misses among the n positives at
    which the exact limit of k in n is at most the target, the threshold is their (k+1)-th smallest score. ``share`` is
    the share of all records at which the detector sounds.

    Formal guarantee: records drawn independently from one law, which the detector did not see, give a rate of false
    negatives P(score < threshold | positive) ≤ target with probability at least 1 - failure_prob; with ``groups``, in
    each group, given which group each record belongs to.

    Args:
        scores: one number a record, the larger the more suspicious.
        positives: which records are positive: bool, or whole numbers 0 and 1.
        target: what the rate of false negatives is to stay below.
        failure_prob: probability that it does not.
        groups: one whole number or text a record: one threshold is to do for every group, at no further cost.
    """
    positive = doubles("positives", positives)
    if as_given(positives).dtype.kind not in "biu" or positive.ndim != 1 or not np.isin(positive, (0.0, 1.0)).all():
        raise ValueError(
            f"positives must be one bool or 0 or 1 a record, got shape {positive.shape}; mark each record."
        )
    values = scores_of("scores", scores, len(positive))
    what = Controlled("control_false_negatives", "detector", "rate of false negatives", target, failure_prob)
    return _control(what, values, positive > 0.0, groups)


@door()
def control_miscoverage(
    *,
    scores: ArrayLike,
    labels: Sequence[int] | NDArray[Any],
    target: float,
    failure_prob: float,
    groups: ArrayLike | None = None,
) -> RiskControl:
    """The highest threshold, and so the smallest prediction sets, that miss the true label rarely.

    The set of a record holds the labels whose score is at least the threshold. Unlike split conformal prediction, whose
    coverage holds on average over samples, the promise is about this threshold, with a stated probability. ``share`` is
    the share of records whose true label is in its set.

    Formal guarantee: that of ``control_false_negatives`` for the miscoverage P(score of the true label < threshold).

    Args:
        scores: one row a record and one column a label, such as class probabilities.
        labels: the true label of each record, as the position of its column.
        target: what the miscoverage is to stay below.
        failure_prob: probability that it does not.
        groups: one whole number or text a record: one threshold is to do for every group, at no further cost.
    """
    table, which = doubles("scores", scores), doubles("labels", labels)
    if table.ndim != 2 or table.size == 0:
        raise ValueError(f"scores must be one row a record and one column a label, got shape {table.shape}.")
    whole = as_given(labels).dtype.kind in "iu" and which.shape == (len(table),)
    if not whole or not ((which >= 0) & (which < table.shape[1])).all():
        raise ValueError(
            f"labels must be one whole number from 0 to {table.shape[1] - 1} for each of the {len(table)} records, got "
            f"shape {which.shape}; number the columns of scores from 0."
        )
    true = scores_of("scores", table[np.arange(len(table)), which.astype(np.intp)], len(table))
    what = Controlled("control_miscoverage", "prediction sets", "miscoverage", target, failure_prob)
    return _control(what, true, np.ones(len(table), dtype=bool), groups)


def allowed_misses(n: int, target: float, failure_prob: float) -> int:
    """The largest k for which the exact upper limit of k in n is at most ``target``; -1 when there is none."""
    return bisect_right(range(n + 1), target, key=lambda k: clopper_pearson_upper(k, n, failure_prob)) - 1


def _control(what: Controlled, scores: Array, counted: NDArray[np.bool_], groups: ArrayLike | None) -> RiskControl:
    samples = [scores[part][counted[part]] for part in parts_of(groups, len(scores)).values()]
    threshold = min(_threshold(sample, what.target, what.failure_prob) for sample in samples)
    found = threshold > -inf
    lowest = float(min((sample.min() for sample in samples if sample.size), default=0.0))
    shown = threshold if found else lowest
    misses = [(sample < shown).astype(np.float64) for sample in samples]
    seen = what.tested(shown, misses, partial(errors_upper, failure_prob=what.failure_prob))
    return what.result(
        [seen],
        seen if found else None,
        value=what.target,
        share=float(np.mean(scores >= threshold)),
        level=what.failure_prob,
        inputs={"n": len(scores), "target": what.target},
        budget="threshold",
        reference=_REFERENCE,
        known=(proved("thresholds fixed beforehand", _MONOTONE),),
    )


def _threshold(sample: Array, target: float, failure_prob: float) -> float:
    """The (k+1)-th smallest score, k misses being allowed; minus infinity when even none is too many."""
    allowed = allowed_misses(sample.size, target, failure_prob) if sample.size else -1
    return -inf if allowed < 0 else float(np.sort(sample)[min(allowed, sample.size - 1)])
