"""The scale of a prior chosen on the sample: a grid fixed beforehand, and what its union bound costs in nats."""

import math
from dataclasses import dataclass

from bounds import _check
from bounds._rounding import total


@dataclass(frozen=True, slots=True, kw_only=True)
class GridScale:
    """A prior scale on a grid, and what choosing it on the sample costs.

    Attributes:
        index: j, from 1.
        scale: largest · exp(-j/precision); use this number, not the one it was rounded from.
        nats: 2 ln j + ln(π²/6), to be added to KL(Q‖P), rounded up.
    """

    index: int
    scale: float
    nats: float


def prior_scale_grid(*, scale: float, largest: float, precision: int) -> tuple[GridScale, ...]:
    """The neighbours of ``scale`` on the grid largest · e^(-j/precision), j = 1, 2, ..., with their costs in nats.

    Dziugaite and Roy 2017, "Computing nonvacuous generalization bounds" (largest = 0.1, precision = 100), as a union
    bound with weights 6/(π² j²): 2 ln j + ln(π²/6) nats on top of the divergence. A scale above the grid is answered by
    its first point, one between two points by both: certify with each, keep the better.

    Formal guarantee: if the prior P_j depends on j alone, then a bound for independent priors, given
    KL(Q‖P_j) + nats, holds for all j and Q at once, however j was chosen. ``largest`` and ``precision`` must be fixed
    before the sample was seen.

    Args:
        scale: the scale that training arrived at (a standard deviation or a variance: it is all one to the grid).
        largest: upper end of the grid.
        precision: points for every factor of e.

    Raises ValueError when an argument is not positive, or the scale is below the float range of the grid.
    """
    _check.positive(scale=scale, largest=largest)
    _check.count(precision=precision)
    position = precision * (math.log(largest) - math.log(scale))
    below = max(1, math.floor(position))
    points: list[GridScale] = []
    for j in sorted({below, max(1, math.ceil(position))}):
        value = largest * math.exp(-j / precision)
        if value > 0.0:
            points.append(GridScale(index=j, scale=value, nats=total(2.0 * math.log(j), math.log(math.pi**2 / 6.0))))
    if not points:
        raise ValueError(f"scale must be within reach of the grid, got {scale!r}; pass a larger one.")
    return tuple(points)
