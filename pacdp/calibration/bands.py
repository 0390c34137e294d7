"""Uncertainty of what was measured: exact bands for accuracies in bins, bootstrap intervals for any metric."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy  # its parts, which take long to import, where they are used
from jaxtyping import Float, Int

from bounds import clopper_pearson_lower, clopper_pearson_upper
from pacdp.calibration.inputs import require_predictions

Metric = Callable[[Float[np.ndarray, "n classes"], Int[np.ndarray, " n"]], float]


class Interval(NamedTuple):
    """An estimate, and the ends of an interval about it that may miss it."""

    estimate: float
    lower: float
    upper: float


def accuracy_bands(
    counts: Int[np.ndarray, " bins"],
    correct: Int[np.ndarray, " bins"],
    *,
    failure_prob: float = 0.05,
    simultaneous: bool = False,
) -> tuple[Float[np.ndarray, " bins"], Float[np.ndarray, " bins"]]:
    """Lower and upper Clopper-Pearson limits for the accuracy in each bin; [0, 1] where a bin is empty.

    Formal guarantee: the examples are independent and of one law, the predictor and the edges of the bins do not depend
    on them. Given how many lie in a bin, the number that are correct is binomial, so each band misses its bin's
    accuracy with probability at most ``failure_prob``, half of it on each side; with ``simultaneous`` any of them does,
    for each is then paid ``failure_prob`` / bins. This is not a statement on the data that the predictor was trained
    on, nor on bins of equal mass.

    Raises:
        ValueError: failure_prob outside (0, 1), or counts and correct that are not 0 <= correct <= counts.
    """
    if not 0.0 < failure_prob < 1.0:
        raise ValueError(f"expected 0 < failure_prob < 1, got {failure_prob}")
    if counts.shape != correct.shape or (correct < 0).any() or (correct > counts).any():
        raise ValueError(
            "expected 0 <= correct <= counts in each bin, got other numbers: count both over the same bins"
        )
    side = failure_prob / (2 * len(counts) if simultaneous else 2)
    bands = [
        (clopper_pearson_lower(int(k), int(n), side), clopper_pearson_upper(int(k), int(n), side)) if n else (0.0, 1.0)
        for k, n in zip(correct, counts, strict=True)
    ]
    return np.array([low for low, _ in bands]), np.array([high for _, high in bands])


def percentile_interval(
    metric: Metric,
    probabilities: Float[np.ndarray, "n classes"],
    labels: Int[np.ndarray, " m"],
    *,
    generator: np.random.Generator,
    draws: int = 1000,
    failure_prob: float = 0.05,
) -> Interval:
    """The failure_prob/2 and 1 - failure_prob/2 quantiles of the metric over resampled examples (Efron 1979).

    Approximate: the coverage is asymptotic, for smooth metrics. A plug-in calibration error is biased upwards, and its
    resamples once more, so near perfect calibration the interval lies above the truth, at times above the estimate.

    Args:
        metric: of probabilities and labels; options by ``functools.partial``. A resample may lack a class, which
            ``macro_auc`` refuses.
        generator: resamples; equal states give equal intervals.
        draws: resamples, at least 2.
        failure_prob: nominal probability that the interval misses.

    Raises:
        ValueError: numbers out of range, or what the metric refuses.
    """
    _require(draws, failure_prob)
    require_predictions(probabilities, labels)
    found = _resampled(metric, probabilities, labels, generator, draws)
    lower, upper = np.quantile(found, [failure_prob / 2, 1.0 - failure_prob / 2])
    return Interval(metric(probabilities, labels), float(lower), float(upper))


def bca_interval(
    metric: Metric,
    probabilities: Float[np.ndarray, "n classes"],
    labels: Int[np.ndarray, " m"],
    *,
    generator: np.random.Generator,
    draws: int = 1000,
    failure_prob: float = 0.05,
) -> Interval:
    """Bias-corrected and accelerated bootstrap interval (Efron 1987), with n more evaluations for the acceleration.

    Arguments and caveats of ``percentile_interval``; the median of the resamples is brought to the estimate. Where all
    resamples lie on one side of it, or no example matters, there is no such interval.

    Raises:
        ValueError: numbers out of range, fewer than two examples, an interval that does not exist, or what the metric
            refuses.
    """
    _require(draws, failure_prob)
    require_predictions(probabilities, labels)
    if len(labels) < 2:
        raise ValueError(f"expected n >= 2 examples for a BCa interval, got {len(labels)}")
    estimate = metric(probabilities, labels)
    found = _resampled(metric, probabilities, labels, generator, draws)
    below = float((found < estimate).mean() + (found <= estimate).mean()) / 2.0
    influence = _influence(metric, probabilities, labels)
    spread = float((influence**2).sum())
    if not (0.0 < below < 1.0 and spread > 0.0):
        raise ValueError(
            f"expected resamples on both sides of the estimate {estimate:.6g} for a BCa interval, a share of {below:g} "
            "lies below: take percentile_interval"
        )
    acceleration = float((influence**3).sum()) / (6.0 * spread**1.5)
    bias = scipy.stats.norm.ppf(below)
    shifted = bias + scipy.stats.norm.ppf([failure_prob / 2, 1.0 - failure_prob / 2])
    levels = scipy.stats.norm.cdf(bias + shifted / (1.0 - acceleration * shifted))
    lower, upper = np.quantile(found, levels)
    return Interval(estimate, float(lower), float(upper))


def _resampled(
    metric: Metric, probabilities: np.ndarray, labels: np.ndarray, generator: np.random.Generator, draws: int
) -> np.ndarray:
    n = len(labels)
    chosen = (generator.integers(0, n, n) for _ in range(draws))
    return np.array([metric(probabilities[index], labels[index]) for index in chosen])


def _influence(metric: Metric, probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Mean of the leave-one-out values less each of them."""
    kept = np.ones(len(labels), dtype=bool)
    values = []
    for left_out in range(len(labels)):
        kept[left_out] = False
        values.append(metric(probabilities[kept], labels[kept]))
        kept[left_out] = True
    return np.mean(values) - np.array(values)


def _require(draws: int, failure_prob: float) -> None:
    if draws < 2 or not 0.0 < failure_prob < 1.0:
        raise ValueError(
            f"expected draws >= 2 and 0 < failure_prob < 1, got draws={draws}, failure_prob={failure_prob}"
        )
