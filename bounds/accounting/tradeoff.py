"""What an attacker can achieve: errors of the best test of "was this record used?", and Gaussians fitted to them.

A mechanism is f-differentially private if every test of neighbouring data sets at the level a has a type II error of at
least f(a) (Dong, Roth and Su 2022). By their Proposition 2.12, f is what all pairs (epsilon, delta(epsilon)) imply; a
finite list of pairs therefore gives a sound, if smaller, f.
"""

from collections.abc import Sequence
from math import exp, expm1, fsum, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bounds._check import Array, door, probability, rates, reals
from bounds.accounting._compose import compose
from bounds.accounting._pieces import mechanisms
from bounds.accounting._schedule import schedule
from bounds.accounting.events import Event
from bounds.accounting.gaussian import delta_bracket
from bounds.privacy import Adjacency, GaussianDP

_LEVELS = 2001
_LARGEST = 1e6  # epsilon that a profile is asked for


class Profile(NamedTuple):
    """delta at each of many epsilons (which may be negative), rounded up, the larger of both directions."""

    epsilons: Array
    deltas: Array


def privacy_profile(*, event: Event, adjacency: Adjacency, epsilons: Sequence[float] | None = None) -> Profile:
    """delta(epsilon) at many epsilons from one composition, rounded up; absolute errors are about 1e-10.

    Formal guarantee: for neighbouring data sets S, S' and every event E, P(M(S) in E) ≤ e^epsilon P(M(S') in E) + delta
    at each pair, in both directions. Much smaller deltas are better computed by ``privacy_delta``. ``epsilons`` are of
    either sign, by default a grid from where delta is near 1 to where it is below 1e-9.

    Raises ValueError when an argument is out of range.
    """
    made = schedule(event, adjacency)
    if epsilons is not None:
        epsilons = reals("epsilons", epsilons)
        if not all(abs(value) <= _LARGEST for value in epsilons):
            raise ValueError(f"epsilons must lie between -1e6 and 1e6, got {epsilons!r}; beyond, delta is 1 or 0.")
    asked = None if epsilons is None else np.array(epsilons)
    if not made.private:
        at = np.zeros(1) if asked is None else asked
        return Profile(at, np.ones(at.size))
    if made.exact:
        width = 6.5 * made.mu + made.mu**2 / 2
        at = np.linspace(-width, width, _LEVELS) if asked is None else asked
        return Profile(at, np.array([_gaussian(made.mu * (1.0 + 1e-13), float(x)) for x in at]))
    sides = compose(mechanisms(made), resolution=None).overstated()
    if asked is None:
        top = min(max(side.epsilon(1e-9) for side in sides), max(side.end for side in sides))
        asked = np.linspace(-top, top, _LEVELS)
    remove, add = (side.delta(asked) for side in sides)
    # one direction at -epsilon follows from the other at epsilon, and is at least 1 - e^epsilon
    growth = np.exp(np.minimum(asked, 700.0))
    back, forth = (np.clip(1.0 - growth + growth * side.delta(-asked), 0.0, 1.0) for side in sides)
    low = np.minimum(remove, forth + 1e-15), np.minimum(add, back + 1e-15)
    return Profile(asked, np.maximum(*low))


def trade_off(*, event: Event, adjacency: Adjacency, type_i: ArrayLike) -> Array:
    """The smallest type II error that any test at these levels can have, rounded down.

    Formal guarantee: given the output of the event on one of two neighbouring data sets, a test that wrongly rejects
    the first with probability at most type_i wrongly accepts it with probability at least the value.

    Raises ValueError when a level is outside [0, 1].
    """
    levels = rates("type_i", type_i)
    profile = privacy_profile(event=event, adjacency=adjacency)
    flat = levels.reshape(1, -1)
    with np.errstate(over="ignore", invalid="ignore"):
        rise = np.where(flat > 0.0, np.exp(profile.epsilons)[:, None] * flat, 0.0)
    power = (profile.deltas[:, None] + rise).min(axis=0)
    return np.clip(1.0 - power - 1e-12, 0.0, 1.0 - levels.ravel()).reshape(levels.shape)


@door(false_positive_rate=probability)
def best_true_positive_rate(*, event: Event, adjacency: Adjacency, false_positive_rate: float) -> float:
    """The largest rate at which an attacker finds the record at this rate of false alarms, rounded up.

    Formal guarantee: no membership test on the output of the event with this false-positive rate has a higher
    true-positive rate.

    Raises ValueError when the rate is outside [0, 1].
    """
    return 1.0 - float(trade_off(event=event, adjacency=adjacency, type_i=false_positive_rate))


def clt_gdp(*, event: Event) -> GaussianDP:
    """The central limit theorem's mu for sampled Gaussians, mu = sqrt(Σ q² (exp(1/σ²) - 1)): optimistic.

    Bu, Dong, Long and Su (2020), Corollary 5.4, add-remove neighbours; with one σ a step as Σ. No bound: it understates
    epsilon in most settings, by a tenth at σ near 1 and by half for few steps. Kept to reproduce papers; the status is
    "approximate accountant".

    Raises ValueError when the event holds anything but Poisson-sampled Gaussians.
    """
    made = schedule(event, "add-remove")
    if not made.private or made.epochs or made.pure or any(step.epsilons for step in made.sampled):
        raise ValueError(f"event must hold Gaussian events alone, sampled or not, got {event!r}.")
    square = made.precision + fsum(
        count * step.sample_rate**2 * expm1(step.noise_multiplier**-2) for step, count in made.sampled.items()
    )
    return GaussianDP(mu=sqrt(square), adjacency="add-remove", status="approximate accountant")


def _gaussian(mu: float, epsilon: float) -> float:
    if epsilon >= 0.0:
        return delta_bracket(mu, epsilon)[1]
    return min(1.0, 1.0 - exp(epsilon) + exp(epsilon) * delta_bracket(mu, -epsilon)[1] + 1e-15)
