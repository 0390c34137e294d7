"""Upper bounds on the expected calibration error (ECE), from held-out examples or, by PAC-Bayes, from training data.

A predictor gives its label a confidence f in [0, 1] and is correct (c = 1) or not (c = 0); g = c - f is the gap. With
the examples sorted into bins,

    ECE = Σ_b |E g 1{bin b}|,    plug-in ECE = Σ_b |mean of g 1{bin b} over the n examples|.

The signs of the E g 1{bin b} are fixed numbers, unknown but not random: with them ECE is the mean of a single variable
in [-1, 1], whose average is at most the plug-in ECE. So a bound on one mean serves, and the number of bins does not
enter. The bins must not depend on the examples (they may depend on the predictor). Arguments out of range raise
ValueError. Proofs: docs/guarantees.md.

In a bin with n_b examples, given which examples are in it, the gaps are independent with mean E[g | bin]; the maximum
calibration error (MCE) is the largest |E[g | bin]|. A bin with few examples, or none, is not certified: its gap is
printed as 1, and it takes no part of the failure probability.
"""

import itertools
from collections.abc import Callable, Sequence
from math import fsum, log, nextafter, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bounds import _check
from bounds._arithmetic import log_inverse, outward, total
from bounds._check import Array, as_given, door, doubles, probability, rates, reals, vector, whole
from bounds.certificate import Certificate
from bounds.hypotheses import declared_by
from bounds.means import GRID_NATS, clopper_pearson_lower, clopper_pearson_upper
from bounds.prices import INDEPENDENT, Bill, Inputs, Price, billed, settled
from bounds.record import record
from bounds.refined import bernstein_slack

_HELD_OUT = 'docs/guarantees.md, "Calibration error on held-out examples"'
_TRAINING = 'docs/guarantees.md, "Calibration error from training data"'
_SLACK = 2.0**-50  # more than the rounding of a few sums of numbers up to 2
_REFERENCE = 'docs/guarantees.md, "Calibration bin by bin"'


@door()
def ece_hoeffding(*, calibration_error: float, n: int, failure_prob: float) -> Certificate:
    """ECE ≤ plug-in ECE + √(2 ln(1/failure_prob)/n), whatever the number of bins.

    Hoeffding 1963, Theorem 2, for one mean of variables in [-1, 1]; "Calibration error on held-out examples" in
    docs/guarantees.md.

    Formal guarantee: for a predictor and bins that do not depend on the n independent examples, ECE ≤ value with
    probability at least 1 - failure_prob; ``calibration_error`` is the plug-in ECE on them.
    """
    bill = billed("ece_hoeffding", INDEPENDENT, n, failure_prob)
    return settled(
        bill,
        total(calibration_error, sqrt(2.0 * bill.total_per_example)),
        of="predictor",
        measures="ECE",
        terms={"calibration_error": calibration_error},
        inputs={"calibration_error": calibration_error},
        reference=_HELD_OUT,
    )


@door()
def ece_second_moment(*, calibration_error: float, mean_squared_gap: float, n: int, failure_prob: float) -> Certificate:
    """ECE ≤ plug-in ECE + min_η [ (c_η/η) V̂ + ln(20/failure_prob)/(η n) ],    c_η = -η - ln(1-η)

    with V̂ the mean of (c - f)² over all bins together and η on the fixed grid 0.5·0.8^k, k < 20: the un-expected
    Bernstein inequality, far below ``ece_hoeffding`` when most gaps are small. "Calibration error
    on held-out examples" in docs/guarantees.md.

    Formal guarantee: as for ``ece_hoeffding``.
    """
    bill = billed("ece_second_moment", INDEPENDENT, n, failure_prob, grid=GRID_NATS)
    return _second_moment(bill, calibration_error, mean_squared_gap, {}, _HELD_OUT, "predictor")


@door()
def ece_pac_bayes(
    *,
    calibration_error: float,
    mean_squared_gap: float,
    kl_nats: float,
    n: int,
    failure_prob: float,
    price: Price = INDEPENDENT,
) -> Certificate:
    """The ECE of a Gibbs predictor from its training data: the mean over the posterior Q of the ECE of each w.

        E_Q ECE ≤ E_Q plug-in ECE + min_η [ (c_η/η) E_Q V̂ + (KL(Q‖P) + ln 20 + Λ)/(η n) ]

    with c_η = -η - ln(1-η) and the grid of ``ece_second_moment``. "Calibration error from training data" in
    docs/guarantees.md. It is about one w drawn from Q, not about averaged predictions, which the Brier risk bounds.

    Formal guarantee: for a prior fixed before the sample was seen (or a function of what the price's mechanism
    released), and bins that are a function of w and the example alone, E_Q ECE ≤ value for all Q simultaneously with
    probability at least 1 - failure_prob.

    ``calibration_error`` and ``mean_squared_gap`` are posterior means of the plug-in ECE and of the mean squared gap on
    the n examples; if they are upper confidence bounds (of averages over draws of w), ``Certificate.charged`` pays.
    """
    bill = billed("ece_pac_bayes", price, n, failure_prob, kl=kl_nats, grid=GRID_NATS)
    return _second_moment(bill, calibration_error, mean_squared_gap, {"kl_nats": kl_nats}, _TRAINING, "randomised")


def _second_moment(
    bill: Bill, calibration_error: float, mean_squared_gap: float, inputs: Inputs, reference: str, of: str
) -> Certificate:
    """The un-expected Bernstein inequality at the best η of the grid, which costs ln 20 nats once."""
    if mean_squared_gap < calibration_error * calibration_error * (1.0 - 1e-9):
        raise ValueError(
            f"mean_squared_gap must be at least calibration_error² = {calibration_error**2!r}, got "
            f"{mean_squared_gap!r}; pass the mean of (c - f)², not a variance; if both are upper bounds, pass the root "
            f"of this one as calibration_error, which it bounds too."
        )
    slack, eta = bernstein_slack(mean_squared_gap, bill.total_per_example)
    gaps = {"calibration_error": calibration_error, "mean_squared_gap": mean_squared_gap}
    return settled(
        bill,
        total(calibration_error, slack),
        of=of,
        measures="ECE",
        terms={**gaps, "eta": eta},
        inputs={**gaps, **inputs},
        reference=reference,
    )


@record
class ConfidenceBin:
    """``count`` examples whose confidence lies between ``low`` and ``high``; ``correct`` were predicted correctly.

    ``mean_confidence`` is theirs, or any number of the bin when there are none.

    Raises ValueError when the numbers contradict each other.
    """

    low: float
    high: float
    count: int
    correct: int
    mean_confidence: float

    def __post_init__(self) -> None:
        shares = dict.fromkeys(("low", "high", "mean_confidence"), probability)
        _check.fields(self, count=whole, correct=whole, **shares)
        if self.correct > self.count:
            raise ValueError(f"correct must not exceed count = {self.count}, got {self.correct}; count both anew.")
        if not self.low <= self.mean_confidence <= self.high:
            raise ValueError(
                f"mean_confidence must lie in the bin [{self.low!r}, {self.high!r}], got {self.mean_confidence!r}."
            )

    @property
    def gap(self) -> float:
        """|accuracy - mean confidence| in the bin; 0 when it is empty."""
        return abs(self.correct / self.count - self.mean_confidence) if self.count else 0.0


@record
class CalibrationSample:
    """What calibration bounds need to know of a sample of n examples, each mean rounded up.

    ``calibration_error`` is the plug-in ECE, Σ_b |Σ_{i in b} (c_i - f_i)| / n, and ``mean_squared_gap`` the mean of
    (c_i - f_i)², the top-label Brier score.
    """

    calibration_error: float
    mean_squared_gap: float
    n: int
    bins: tuple[ConfidenceBin, ...]


def calibration_sample(*, confidence: ArrayLike, correct: ArrayLike, edges: Sequence[float]) -> CalibrationSample:
    """Counts, gaps and plug-in ECE of one predictor on n examples.

    ``confidence`` holds f_i in [0, 1] and ``correct`` whether the label was right, one number an example. Bin b holds
    the confidences in [edges[b], edges[b+1]), the last one also 1. The edges, which increase from 0 to 1, must be fixed
    before the examples were seen; quantiles of their confidences are not. Beside confidences of single precision they
    are rounded to that, as NumPy and torch compare 0.9 with them.
    """
    f, c = vector("confidence", rates("confidence", confidence)), doubles("correct", correct)
    if c.shape != f.shape or not ((c == 0.0) | (c == 1.0)).all():
        raise ValueError("correct must hold one 0 or 1 for every confidence; pass whether each prediction was right.")
    ends, kind = reals("edges", edges), as_given(confidence).dtype
    if kind.kind == "f" and kind.itemsize < np.dtype(float).itemsize:
        ends = tuple(np.array(ends).astype(kind).tolist())
    if len(ends) < 2 or (ends[0], ends[-1]) != (0.0, 1.0) or any(a >= b for a, b in itertools.pairwise(ends)):
        raise ValueError(f"edges must increase from 0 to 1, got {ends!r}; numpy.linspace(0, 1, 16) makes 15 bins.")
    slot = np.minimum(np.searchsorted(np.asarray(ends), f, side="right") - 1, len(ends) - 2)
    bins: list[ConfidenceBin] = []
    sums: list[float] = []
    for b, (low, high) in enumerate(itertools.pairwise(ends)):
        inside = slot == b
        count, right, confidences = int(inside.sum()), int(c[inside].sum()), f[inside]
        mean = fsum(confidences) / count if count else low
        bins.append(
            ConfidenceBin(low=low, high=high, count=count, correct=right, mean_confidence=min(max(mean, low), high))
        )
        sums.append(abs(fsum((right, *(-confidences).tolist()))))
    gap = c - f
    return CalibrationSample(
        calibration_error=min(1.0, outward(total(*sums) / f.size)),
        mean_squared_gap=min(1.0, outward(fsum(gap * gap) / f.size)),
        n=int(f.size),
        bins=tuple(bins),
    )


def people_calibration(
    confidence: Array, correct: NDArray[np.bool_], people: NDArray[np.int64], edges: Sequence[float]
) -> tuple[float, float]:
    """The plug-in ECE of people's mean gaps, and the mean over people of the square of their mean absolute gap.

    People are numbered without gaps. Both are rounded up by far more than the sums' errors ("Calibration error of
    people" in docs/guarantees.md).
    """
    gap, sizes = correct - confidence, np.bincount(people)
    last = len(edges) - 2
    slot = np.minimum(np.searchsorted(np.asarray(edges), confidence, side="right") - 1, last)

    def means(values: Array) -> Array:
        return np.bincount(people, weights=values) / sizes

    by_bin = (means(np.where(slot == b, gap, 0.0)) for b in range(last + 1))
    error = fsum(abs(fsum(mean)) for mean in by_bin) / sizes.size
    squared = fsum(means(np.abs(gap)) ** 2) / sizes.size
    error, squared = (min(1.0, one * (1.0 + 1e-12) + 2.0**-50) for one in (error, max(squared, error * error)))
    return error, squared


@door()
def mce_hoeffding(*, bins: Sequence[ConfidenceBin], min_count: int, failure_prob: float) -> Certificate:
    """The largest calibration gap of the bins with at least ``min_count`` examples, by Hoeffding's inequality.

        |E[g | bin b]| ≤ |accuracy_b - mean confidence_b| + (1 + w_b) √(ln(K/failure_prob)/(2 n_b)),    w_b = high - low

    for the K certified bins together. "Calibration bin by bin" in docs/guarantees.md. ``value`` is the largest of them,
    1 if no bin is certified; the terms ``gap_0``, ``gap_1``, ... hold every bin's, 1 for those not certified, of which
    nothing is claimed.

    Formal guarantee: for independent examples of one law, a predictor and bins that do not depend on them, and a
    ``min_count`` fixed beforehand or chosen from the counts of the bins alone, all certified bins have |E[g | bin]| ≤
    their gap, hence their largest ≤ value, with probability at least 1 - failure_prob. ``bins`` are all of them, as
    ``calibration_sample`` counts them.
    """

    def gap(one: ConfidenceBin, certified: int) -> float:
        nats = total(log_inverse(failure_prob), log(certified))
        return one.gap + outward((1.0 + one.high - one.low) * sqrt(nats / (2.0 * one.count))) + _SLACK

    return _largest("mce_hoeffding", bins, min_count, failure_prob, gap)


@door()
def mce_clopper_pearson(*, bins: Sequence[ConfidenceBin], min_count: int, failure_prob: float) -> Certificate:
    """As ``mce_hoeffding``, with Clopper and Pearson's bounds for the accuracies: better far from one half.

        |E[g | bin b]| ≤ max{accuracy⁺ - confidence⁻, confidence⁺ - accuracy⁻}

    with accuracy± the one-sided bounds at failure_prob/(2K), and confidence± = mean confidence
    ± w_b √(ln(2K/failure_prob)/(2 n_b)), within the bin. The sign of E[g | bin] is no matter of chance, so only one of
    the two terms is needed: hence 2K and not 4K. "Calibration bin by bin" in docs/guarantees.md.

    Formal guarantee and arguments: as for ``mce_hoeffding``.
    """

    def gap(one: ConfidenceBin, certified: int) -> float:
        each = nextafter(failure_prob / (2 * certified), 0.0)
        nats = total(log_inverse(failure_prob), log(2 * certified))
        reach = outward((one.high - one.low) * sqrt(nats / (2.0 * one.count))) + _SLACK
        least, most = max(one.low, one.mean_confidence - reach), min(one.high, one.mean_confidence + reach)
        above = clopper_pearson_upper(one.correct, one.count, each) - least
        return max(above, most - clopper_pearson_lower(one.correct, one.count, each)) + _SLACK

    return _largest("mce_clopper_pearson", bins, min_count, failure_prob, gap)


def _largest(
    name: str,
    bins: Sequence[ConfidenceBin],
    min_count: int,
    failure_prob: float,
    gap: Callable[[ConfidenceBin, int], float],
) -> Certificate:
    bins = _check.records("bins", bins, ConfidenceBin)
    if not bins:
        raise ValueError("bins must be at least one, got none; pass those of calibration_sample.")
    kept = [one for one in bins if one.count >= min_count]
    found = {b: min(1.0, gap(one, len(kept))) for b, one in enumerate(bins) if one.count >= min_count}
    names = ("low", "high", "count", "correct", "mean_confidence")
    listed = {f"{name}s": ", ".join(repr(getattr(one, name)) for one in bins) for name in names}
    return Certificate(
        name=name,
        value=max(found.values(), default=1.0),
        failure_prob=failure_prob,
        of="predictor",
        measures="MCE",
        hypotheses=declared_by(f"the caller of bounds.{name}", name),
        terms={
            "largest_empirical_gap": max((one.gap for one in kept), default=0.0),
            "bins": len(bins),
            "bins_certified": len(kept),
            "share_certified": sum(one.count for one in kept) / max(1, sum(one.count for one in bins)),
            **{f"gap_{b}": found.get(b, 1.0) for b in range(len(bins))},
        },
        budget={"bound": failure_prob},
        reference=_REFERENCE,
        inputs={**listed, "min_count": min_count, "failure_prob": failure_prob},
    )
