"""Thresholds for rules whose errors cannot disappear as the threshold rises: no list of thresholds, nothing to pay.

A detector that sounds at scores from a threshold up misses more as it rises, and a prediction set that holds the labels
from a threshold up misses the true label more often. Then the scores themselves are the thresholds, and one exact
confidence limit is enough. Proof: docs/guarantees.md, "Thresholds that control a risk". Arguments out of range raise
ValueError.
"""

from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bounds._arrays import Array, as_given, doubles
from bounds._check import door
from bounds._threshold_tests import Controlled, RiskControl, errors_upper, parts_of, scores_of
from bounds.hypotheses import proved
from bounds.means import clopper_pearson_upper

_REFERENCE = (
    'Bates, Angelopoulos, Lei, Malik and Jordan, "Distribution-free, risk-controlling prediction sets", JACM 2021; '
    'docs/guarantees.md, "Thresholds that control a risk"'
)
_MONOTONE = "no record that is missed at a threshold is found at a higher one, so that no list of thresholds is needed"


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
    low, high = -1, n  # the limit of n in n is 1
    if target >= 1.0:
        return n
    while high - low > 1:
        middle = (low + high) // 2
        fits = clopper_pearson_upper(middle, n, failure_prob) <= target
        low, high = (middle, high) if fits else (low, middle)
    return low


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
