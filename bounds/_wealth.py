"""Wealth of bets that may begin at any time: one nonnegative supermartingale out of many.

Bets k = 1, ..., K multiply by factors f_k(i) ≥ 0 whose expectation, given what came before, is at most 1 if the
hypothesis is true. Before step i a share r(i-1) - r(i) of the first unit is put on the K bets in equal parts, where
r(i) = 1/(1 + ln(1 + i)) is what is still kept back after i steps. So a change after t steps is answered by bets of
wealth about 1/(K t ln² t), not by ones that lost everything before it. "Tests by betting" in docs/guarantees.md.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
from collections.abc import Callable
from math import log1p, nextafter

import numpy as np

from bounds._arrays import Array
from bounds._elementwise import jit

_AT_ONCE = 2**16
_LARGEST = 2.0**900
"""No bet's wealth is counted beyond; less than the exact one is safe."""


@jit
def _play(arms: Array, factors: Array, done: int, wealth: Array) -> float:
    bets = arms.size
    kept = 1.0 / (1.0 + log1p(done))
    for i in range(wealth.size):
        after = 1.0 / (1.0 + log1p(done + i + 1))
        placed = (kept - after) / bets
        kept = after
        total = after
        for k in range(bets):
            arms[k] = min((arms[k] + placed) * factors[i, k], _LARGEST)
            total += arms[k]
        wealth[i] = total
    return kept


def played(arms: Array, factors: Callable[[slice], Array], size: int, done: int = 0) -> tuple[Array, Array]:
    """The wealth of each bet after ``size`` more steps, ``done`` having come before, and the whole wealth after each.

    ``factors`` gives those of a part of the steps, one row a step and one column a bet.

    Formal guarantee: the whole wealth is rounded down, by more than the rounding of so many steps, each factor having
    been within 8 ulp of its exact value.
    """
    arms, wealth = arms.copy(), np.empty(size)
    for start in range(0, size, _AT_ONCE):
        part = slice(start, min(start + _AT_ONCE, size))
        _play(arms, np.ascontiguousarray(factors(part)), done + start, wealth[part])
    steps = np.arange(done + 1, done + 1 + size)
    return arms, np.maximum(0.0, wealth * (1.0 - (steps + 16.0) * 2.0**-48))


def first_alarm(wealth: Array, false_alarm_prob: float) -> int | None:
    """After how many steps the wealth first reached 1/false_alarm_prob; None when it did not."""
    found = np.flatnonzero(wealth * false_alarm_prob >= 1.0 + 2.0**-50)
    return int(found[0]) + 1 if found.size else None


def p_value(peak: float) -> float:
    """One over the largest wealth, rounded up: a p-value wherever one stops."""
    return min(1.0, nextafter(1.0 / max(1.0, peak), 2.0))
