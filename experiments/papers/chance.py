"""Answers of three kinds: yes, no, and None where chance leaves it open."""

import math
import statistics
from collections.abc import Sequence

import bounds

TEST_FAILURE_PROB = 0.05
"""With which a risk may lie below :func:`least_risk`."""


def above(value: float, limit: float, noise: float) -> bool | None:
    """value > limit; None where they lie within ``noise`` of each other, beyond which their difference tells."""
    return None if abs(value - limit) <= noise else value > limit


def below(value: float, limit: float, noise: float) -> bool | None:
    """value < limit; None where they lie within ``noise`` of each other."""
    return above(limit, value, noise)


def every(values: Sequence[bool | None]) -> bool | None:
    """Whether all hold; None where one is unknown and none fails, and where there are none."""
    if any(value is False for value in values):
        return False
    return None if not values or any(value is None for value in values) else True


def rises(values: Sequence[float], noises: Sequence[float]) -> bool | None:
    """Whether no value falls beyond the noise of its step and the last exceeds the first beyond theirs.

    ``noises`` are two standard deviations of each value.
    """
    if len(values) < 2:
        return None
    steps = range(len(values) - 1)
    if any(values[k + 1] < values[k] - math.hypot(noises[k], noises[k + 1]) for k in steps):
        return False
    return above(values[-1], values[0], math.hypot(noises[0], noises[-1]))


def count_noise(*counts: tuple[float, float]) -> float:
    """Two standard deviations of a sum or difference of shares, each given as (share, number of examples)."""
    return 2.0 * math.sqrt(sum(share * (1.0 - share) / number for share, number in counts))


def seed_noise(values: Sequence[float]) -> float:
    """Two standard errors of a mean over seeds; 0 where there is one, of which nothing is known."""
    return 2.0 * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def least_risk(error: float, n: float) -> float:
    """The least risk that 95% confidence in an error on n test examples allows, by Chernoff's bound."""
    return float(bounds.binary_kl_lower(error, math.log(1.0 / TEST_FAILURE_PROB) / n))
