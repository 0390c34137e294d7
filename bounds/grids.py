"""Free parameters chosen on the sample: a grid fixed beforehand, and what its union bound costs in nats."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bounds import _check
from bounds._assemble import catoni_value, kl_budget, posterior_nats
from bounds._rounding import outward, total
from bounds.certificate import Certificate


def catoni_grid(
    *, risk: float, kl_nats: float, n: int, failure_prob: float, inverse_temperatures: Sequence[float]
) -> Certificate:
    """The smallest of Catoni's bounds over a grid of J inverse temperatures, paid for with ln J nats.

        R(Q) ≤ min_C [1 - exp(-(C R̂(Q) + KL(Q‖P) + ln(J/failure_prob)) / n)] / (1 - exp(-C/n))

    Catoni 2007, Theorem 1.2.1, and the union bound ("Grids" in docs/guarantees.md). Without the ln J, the minimum over
    all C would be the inverse kl at KL + ln(1/failure_prob), below ``maurer`` and with nothing proved of it.

    Formal guarantee: as for ``maurer``, provided that the list was fixed before the sample was seen; which of its
    members is used may depend on the sample.

    Args:
        risk: R̂(Q) in [0, 1].
        kl_nats: KL(Q‖P) in nats.
        n: number of independent examples.
        failure_prob: probability over the sample that the bound fails.
        inverse_temperatures: the values of C, all different; n·2^(-k/2), k = -4, ..., 16, covers most needs.
    """
    grid = tuple(inverse_temperatures)
    if not grid or len(set(grid)) < len(grid):
        raise ValueError(f"inverse_temperatures must be different numbers, at least one, got {grid!r}.")
    for value in grid:
        _check.positive(inverse_temperatures=value)
    nats = posterior_nats(risk, kl_nats, n, failure_prob, {"grid_nats": outward(math.log(len(grid)))})
    _, terms = kl_budget(nats, n)
    value, best = min((catoni_value(risk, c, terms["total_nats"], n), c) for c in grid)
    return Certificate(
        name="catoni_grid",
        value=value,
        failure_prob=failure_prob,
        status="rigorous",
        terms={"empirical_risk": risk, "inverse_temperature": best, **terms},
        budget={"bound": failure_prob},
        reference="Catoni 2007, IMS Lecture Notes 56, Theorem 1.2.1, and a union bound over the grid",
        inputs={
            "risk": risk,
            "kl_nats": kl_nats,
            "n": n,
            "failure_prob": failure_prob,
            "inverse_temperatures": ", ".join(repr(float(c)) for c in grid),
        },
    )


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
