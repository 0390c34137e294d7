"""The difference of two rates of error on the same examples, from exact counts of those on which they differ.

Of n examples, D are discordant: one model errs where the other does not. D is binomial with a rate d, and of D such
examples the first model errs on B, binomial with a share (1 + e)/2 given D. The difference of the two rates is e·d
("Differences on the same examples" in docs/guarantees.md).
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
import numpy as np
from scipy.special import betainc, betaincc, betainccinv, betaincinv, ndtr, ndtri

from bounds._arrays import Array
from bounds._check import door, whole
from bounds.means import clopper_pearson_lower, clopper_pearson_upper

ALONE = 0.1
"""Of the failure probability, what each of three tests by one count pays: that of B, and D from below and above."""
RATE_WEIGHT = 0.7
"""The weight of D, times |e|; that of B makes the sum of squares one."""
TOLERANCE = 1e-3
"""How much farther than needed from what was measured the value may lie."""
_ROUNDING = 1e-9
"""Relative: far more than SciPy's functions err by."""
_CELLS = np.sin(np.linspace(-np.pi / 2, np.pi / 2, 65))
_CELLS[32] = 0.0


@door(more=whole, fewer=whole)
def paired_upper(more: int, fewer: int, n: int, failure_prob: float) -> float:
    """The largest difference e·d of two rates of error that is not refuted, rounded up.

        √(1 - w²) Φ⁻¹(P(Bin(D, (1+e)/2) ≤ B)) + w Φ⁻¹(p(d)) ≤ Φ⁻¹(0.7 δ),    w = 0.7 |e|

    refutes (e, d), where p(d) is P(Bin(n, d) ≤ D) for e > 0 and P(Bin(n, d) ≥ D) for e < 0. So does each of the
    probabilities P(Bin(D, (1+e)/2) ≤ B), P(Bin(n, d) ≤ D) and P(Bin(n, d) ≥ D) at 0.1 δ; δ is ``failure_prob``.

    Formal guarantee: n independent examples, on ``more`` of which the first model alone errs and on ``fewer`` the
    second alone, give (error of the first) - (error of the second) ≤ value with probability at least 1 - failure_prob.

    Raises ValueError if there are more discordant examples than examples.
    """
    if more + fewer > n:
        raise ValueError(f"more + fewer must be at most n = {n}, got {more} + {fewer}; count each example once.")
    region = _Region(more, more + fewer, n, failure_prob)
    low, high = _CELLS[:-1], _CELLS[1:]
    measured = best = (more - fewer) / n
    while True:
        middle, bound = 0.5 * (low + high), region.most(low, high)
        best = max(best, float(region.most(middle, middle).max()))
        enough = best + TOLERANCE * (best - measured) + 2.0**-40
        wide = bound > enough
        if not wide.any() or not (low < middle).all():
            return min(1.0, max(enough, float(bound.max())))
        low, middle, high = low[wide], middle[wide], high[wide]
        low, high = np.concatenate((low, middle)), np.concatenate((middle, high))


class _Region:
    """The pairs (e, d) that are not refuted."""

    def __init__(self, more: int, apart: int, n: int, failure_prob: float) -> None:
        self.more, self.apart, self.n = more, apart, n
        self.alone = ALONE * failure_prob
        self.lowest = clopper_pearson_lower(apart, n, self.alone)
        self.highest = clopper_pearson_upper(apart, n, self.alone)
        self.quantile = -float(ndtri((1.0 - 3 * ALONE) * failure_prob * (1.0 - _ROUNDING)))

    def most(self, low: Array, high: Array) -> Array:
        """At least the largest e·d with e in a cell from ``low`` to ``high``, on one side of 0; -∞ where there is none.

        In a cell the quantile of B is largest at ``low``, and weights lie between those of both ends.
        """
        of_share = np.ones_like(low)
        if self.more < self.apart:
            of_share = betaincc(self.more + 1.0, self.apart - self.more, 0.5 + 0.5 * low)
        of_share *= 1.0 + _ROUNDING
        weights = RATE_WEIGHT * np.sort(np.abs([low, high]), axis=0)
        with np.errstate(divide="ignore"):
            # how far the quantile of D may lie below 0
            reach = (
                self.quantile + (np.sqrt(1.0 - weights**2) * ndtri(np.clip(of_share, 1e-300, 1.0))).max(0) + _ROUNDING
            )
            left = ndtr((-reach / weights).min(0)) * (1.0 - _ROUNDING)
        positive = low >= 0.0
        rate = np.where(positive, self._highest(left), self._lowest(left))
        refuted = np.where(positive, rate < self.lowest, rate > self.highest)
        refuted |= of_share <= self.alone
        return np.where(refuted, -np.inf, high * rate)

    def _highest(self, left: Array) -> Array:
        """At least the largest rate d in the interval with P(Bin(n, d) ≤ D) ≥ left."""
        if self.apart == self.n:
            return np.ones_like(left)
        counts = self.apart + 1.0, float(self.n - self.apart)
        rate = betainccinv(*counts, np.clip(left, self.alone, 1.0)) * (1.0 + _ROUNDING)
        sure = betaincc(*counts, np.minimum(rate, 1.0)) <= np.maximum(left, self.alone)
        return np.where(sure & (left > self.alone), np.minimum(rate, self.highest), self.highest)

    def _lowest(self, left: Array) -> Array:
        """At most the smallest rate d in the interval with P(Bin(n, d) ≥ D) ≥ left."""
        if self.apart == 0:
            return np.zeros_like(left)
        counts = float(self.apart), self.n - self.apart + 1.0
        rate = betaincinv(*counts, np.clip(left, self.alone, 1.0)) * (1.0 - _ROUNDING)
        sure = betainc(*counts, rate) <= np.maximum(left, self.alone)
        return np.where(sure & (left > self.alone), np.maximum(rate, self.lowest), self.lowest)
