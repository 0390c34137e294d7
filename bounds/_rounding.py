"""Rounding to the safe side: a few ulp of slack on sums of non-negative terms."""

from collections.abc import Callable
from math import fsum, inf, log, ulp

# Sums here have at most eight non-negative terms, each a product, quotient, square root or logarithm within
# 2 ulp: their relative error stays below 8 ulp, 2**-52 being the widest an ulp gets relative to its number.
_OUTWARD = 1.0 + 8 * 2.0**-52
# Below it an ulp is no longer small against its number; eight of the smallest are.
_SMALL, _EIGHT = 2.0**-960, 8 * ulp(0.0)


def outward(value: float) -> float:
    """A float at or above the exact value of the non-negative expression that ``value`` was rounded from."""
    return value * _OUTWARD + _EIGHT if 0.0 < value < _SMALL else value * _OUTWARD


def inward(value: float) -> float:
    """A float at or below the exact value of the non-negative expression that ``value`` was rounded from."""
    return max(0.0, value / _OUTWARD - _EIGHT) if value < _SMALL else value / _OUTWARD


def total(*nats: float) -> float:
    """The sum of non-negative costs, rounded up; infinite where it passes the largest double."""
    try:
        return outward(fsum(nats))
    except OverflowError:
        return inf


def least(enough: Callable[[float], bool], low: float, high: float, *, relative: float, absolute: float = 0.0) -> float:
    """About the least number above ``low`` that is enough, by halving; always one that is, if ``high`` is."""
    for _ in range(100):
        middle = 0.5 * (low + high)
        if high - low <= absolute + relative * high or not low < middle < high:
            break
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def log_inverse(probability: float) -> float:
    """ln(1 / probability) in nats, rounded up; exact to the last digits also for a probability near one; inf for 0."""
    return outward(-log(probability)) if probability > 0.0 else inf
