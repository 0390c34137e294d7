"""Step sizes and temperatures as functions of the step t = 1, 2, ...: factors on the settings' own values."""

import math

from pacdp.algorithms.sampler import Schedule
from pacdp.errors import require_positive


def polynomial(*, decay: float, offset: float = 0.0) -> Schedule:
    """((t + offset)/(1 + offset))^-decay, the schedule of Welling and Teh (2011); 1 at t = 1."""
    return lambda t: ((t + offset) / (1.0 + offset)) ** -decay


def cyclical(*, period: int) -> Schedule:
    """½ (cos(π ((t - 1) mod period)/period) + 1): restarts of Zhang, Li, Zhang, Chen and Wilson (2020)."""
    require_positive(period=period)
    return lambda t: 0.5 * (math.cos(math.pi * ((t - 1) % period) / period) + 1.0)


def warm_up(*, steps: int) -> Schedule:
    """min(1, t/steps)."""
    require_positive(steps=steps)
    return lambda t: min(1.0, t / steps)
