"""P-values that are exact or upper bounds: P[p-value <= a] <= a for every a if what is tested holds."""

import math
from typing import NamedTuple

import numpy as np
from scipy import stats


class Found(NamedTuple):
    """A p-value and, for readers, what was seen."""

    p_value: float
    seen: str


def sidak(smallest: float, count: int) -> float:
    """P-value of the smallest of ``count`` independent p-values."""
    return 1.0 if smallest >= 1.0 else -math.expm1(count * math.log1p(-smallest))


def bonferroni(smallest: float, count: int) -> float:
    """P-value of the smallest of ``count`` p-values, however they depend on each other."""
    return min(1.0, smallest * count)


def normal(score: np.ndarray | float) -> np.ndarray:
    """Two-sided p-values of N(0, 1); 0 where the score is no number."""
    return np.where(np.isfinite(score), np.minimum(1.0, 2.0 * stats.norm.sf(np.abs(score))), 0.0)


def chi_square(total: np.ndarray | float, degrees: int) -> np.ndarray:
    """Two-sided p-values of sums of squares; 0 where one is no number."""
    tails = np.minimum(stats.chi2.cdf(total, degrees), stats.chi2.sf(total, degrees))
    return np.where(np.isfinite(total), np.minimum(1.0, 2.0 * tails), 0.0)


def binomial(count: np.ndarray | int, trials: int, rate: float) -> np.ndarray:
    """Two-sided p-values of counts."""
    count = np.asarray(count)
    tails = np.minimum(stats.binom.cdf(count, trials, rate), stats.binom.sf(count - 1, trials, rate))
    return np.asarray(np.minimum(1.0, 2.0 * tails))


def random_signs(one: np.ndarray, other: np.ndarray) -> float:
    """Hoeffding's bound for the sum of products whose signs are independent coins, given their sizes."""
    products = one * other
    total, squares = float(products.sum(dtype=np.float64)), float((products.astype(np.float64) ** 2).sum())
    if not math.isfinite(total):
        return 0.0
    return min(1.0, 2.0 * math.exp(-(total**2) / (2.0 * squares))) if squares > 0.0 else 1.0
