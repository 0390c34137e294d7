"""P-values that are exact or upper bounds: P[p-value <= a] <= a for every a if what is tested holds."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats


class Found(NamedTuple):
    """A p-value and, for readers, what was seen."""

    p_value: float
    seen: str


def bonferroni(smallest: float, count: int) -> float:
    """P-value of the smallest of ``count`` p-values, however they depend on each other."""
    return min(1.0, smallest * count)


def least(found: Sequence[tuple[float, str]]) -> Found:
    """The smallest of some p-values, however they depend on each other, and what was seen there."""
    smallest, seen = min(found, default=(1.0, "nothing to see"))
    return Found(bonferroni(smallest, max(1, len(found))), seen)


def two_sided(lower: np.ndarray | float, upper: np.ndarray | float) -> np.ndarray:
    """Twice the smaller of two tails; 0 where they are no number."""
    return np.asarray(np.nan_to_num(np.minimum(1.0, 2.0 * np.minimum(lower, upper))))


def normal(score: np.ndarray | float) -> np.ndarray:
    """Two-sided p-values of N(0, 1); 0 where the score is no number."""
    return two_sided(stats.norm.cdf(score), stats.norm.sf(score))


def chi_square(total: np.ndarray | float, degrees: np.ndarray | int) -> np.ndarray:
    """Two-sided p-values of sums of squares; 0 where one is no number."""
    return two_sided(stats.chi2.cdf(total, degrees), stats.chi2.sf(total, degrees))


def binomial(count: np.ndarray | int, trials: int, rate: float) -> np.ndarray:
    """Two-sided p-values of counts."""
    law = stats.binom(trials, rate)
    return two_sided(law.cdf(count), law.sf(np.asarray(count) - 1))


def largest_of(count: int, *, beyond: float, reached: float) -> tuple[float, float]:
    """P-values of the largest of so many: that it is no larger, and that it is as large.

    Each is beyond it, or reaches it, with these probabilities.
    """
    return float(stats.binom.pmf(0, count, beyond)), float(stats.binom.sf(0, count, reached))


def random_signs(one: np.ndarray, other: np.ndarray) -> float:
    """Hoeffding's bound for the sum of products whose signs are independent coins, given their sizes."""
    products = (one * other).astype(np.float64)
    total, squares = float(products.sum()), float((products**2).sum())
    if not math.isfinite(total):
        return 0.0
    return min(1.0, 2.0 * math.exp(-(total**2) / (2.0 * squares))) if squares > 0.0 else 1.0
