"""epsilon at a delta, delta at an epsilon, and the whole law of the privacy loss, of anything composed of events.

Every distinct mechanism's privacy loss is put on one grid by connecting the dots (Doroshenko, Ghazi, Kamath, Kumar and
Manurangsi 2022), which gives a pair of laws that dominates it; pairs compose by adding up losses (Zhu, Dong and Wang
2022, Theorem 10), for which one Fourier transform a mechanism and direction suffices, however different the mechanisms.
Truncation and rounding are bounded and counted. Which theorem covers which event: docs/accounting.md.

How much noise a target asks for is one factor for all noise multipliers of a schedule.
"""

from collections.abc import Callable
from dataclasses import replace
from math import exp, expm1, inf, log

import numpy as np

from bounds._check import Array, Integers, door, open_probability, positive
from bounds.accounting._compose import compose
from bounds.accounting._fourier import Composite
from bounds.accounting._pieces import mechanisms
from bounds.accounting._schedule import ROUNDING, Schedule, schedule
from bounds.accounting.events import (
    Composed,
    Event,
    ExponentialMechanism,
    Gaussian,
    LastAlone,
    NonPrivate,
    OnceAnEpoch,
    PoissonSampled,
    SelfComposed,
    delta_in_range,
    event_to_json,
    unknown,
)
from bounds.accounting.gaussian import delta_bracket, epsilon_end
from bounds.accounting.renyi import renyi_epsilon
from bounds.privacy import Adjacency, GaussianDP, PrivacyBound, PrivacyLossDistribution
from bounds.record import record

_PASSES = 3
_CLOSE = 0.02
_LARGEST = 20.0  # of logarithms
_ROUNDS = 40
_COARSE = 0.2  # resolution of a first search


def _resolution(**value: float) -> float:
    found = positive(**value)
    if not 1e-4 <= found <= 1.0:
        raise ValueError(f"resolution must lie in [0.0001, 1], got {found!r}; 0.01 suits most.")
    return found


@door(delta=delta_in_range, resolution=_resolution)
def privacy_epsilon(
    *, event: Event, delta: float, adjacency: Adjacency, resolution: float | None = None
) -> PrivacyBound:
    """The smallest epsilon for which an event is (epsilon, delta)-differentially private, bracketed.

    Formal guarantee: the event is (upper, delta)-DP for these neighbours, both directions included. Discretisation,
    truncation and the rounding of the transforms are part of ``upper``; random numbers are taken to be ideal.

    ``resolution`` is the grid spacing in standard deviations of one step's loss, by default 0.01, or 0.05 where more
    than 20 mechanisms differ; the error of ``upper`` falls with its square. "replace-one" costs up to twice as much as
    "add-remove".

    Raises ValueError when an argument is out of range or the event holds a nesting that no theorem here covers.
    """
    made = schedule(event, adjacency)
    if not made.private:
        upper = _by_absence(made, delta=delta, resolution=resolution)
        return _answer(made, inf if made.revealed else 0.0, upper, epsilon=upper, delta=delta)
    lower, upper = _epsilon(made, delta, resolution)
    if upper == inf or upper - lower > 2.0 * _CLOSE * upper:
        upper = min(upper, renyi_epsilon(event=event, delta=delta, adjacency=adjacency).upper)
    return _answer(made, lower, upper, epsilon=upper, delta=delta)


def _epsilon(made: Schedule, delta: float, resolution: float | None) -> tuple[float, float]:
    """Both ends, for a normal form that is composed as a whole."""
    if made.exact:
        return epsilon_end(made.mu / ROUNDING, delta, 0), epsilon_end(made.mu * ROUNDING, delta, 1)
    parts, upper, lower, near = mechanisms(made), inf, 0.0, None
    for _ in range(_PASSES):
        law = compose(parts, resolution=resolution, log_delta=log(delta), epsilon=near)
        upper = min(upper, max(side.epsilon(delta) for side in law.overstated()))
        lower = max(lower, law.understated().epsilon(delta))
        last, near = near, upper if upper < inf else lower
        if near == last or near == 0.0 or upper - lower <= _CLOSE * near:
            break
    return lower, upper


def _by_absence(made: Schedule, *, delta: float, resolution: float | None) -> float:
    """An epsilon for a record that takes part, with probability p at most, in steps that protect too little.

    Given that it does not, what is left is (ε, δ - p)-private. Adding p to the probability of every event covers the
    rest, and 1 - p of a probability is at least exp(ln(1-p)) of it: (ε - ln(1-p), δ)-private.
    """
    share = -expm1(made.log_missed) * ROUNDING
    if made.revealed or made.given_up or not share < delta:
        return inf
    rest = replace(made, log_missed=0.0)
    if not (rest.sampled or rest.epochs or rest.pure or rest.precision):
        return -made.log_missed * ROUNDING
    return (_epsilon(rest, (delta - share) / ROUNDING, resolution)[1] - made.log_missed) * ROUNDING


@door(resolution=_resolution)
def privacy_delta(
    *, event: Event, epsilon: float, adjacency: Adjacency, resolution: float | None = None
) -> PrivacyBound:
    """The smallest delta for which an event is (epsilon, delta)-differentially private, bracketed.

    Formal guarantee: the event is (epsilon, upper)-DP for these neighbours, both directions included.

    ``epsilon`` is finite, 0 or more; ``resolution`` is as for ``privacy_epsilon``.

    Raises ValueError when an argument is out of range or the event holds a nesting that no theorem here covers.
    """
    made = schedule(event, adjacency)
    if epsilon == inf:
        raise ValueError("epsilon must be finite, got inf; at infinity every delta is 0.")
    if not made.private:
        return _answer(made, 1.0 if made.revealed else 0.0, 1.0, epsilon=epsilon, delta=1.0)
    if made.exact:
        lower, upper = delta_bracket(made.mu / ROUNDING, epsilon)[0], delta_bracket(made.mu * ROUNDING, epsilon)[1]
        return _answer(made, lower, upper, epsilon=epsilon, delta=upper)
    parts, upper, lower, near = mechanisms(made), 1.0, 0.0, None
    for _ in range(_PASSES):
        law = compose(parts, resolution=resolution, log_delta=near, epsilon=epsilon)
        last, upper = upper, min(upper, max(side.at(epsilon) for side in law.overstated()))
        lower = max(lower, law.understated().at(epsilon))
        if upper - lower <= _CLOSE * upper or upper > 0.9 * last < 1.0:
            break
        near = log(upper)
    return _answer(made, lower, upper, epsilon=epsilon, delta=upper)


@door(resolution=_resolution)
def privacy_record(
    *, event: Event, adjacency: Adjacency, resolution: float = 0.05
) -> GaussianDP | PrivacyLossDistribution:
    """What ``private_pac_bayes`` takes as ``privacy``: a Gaussian where that is exact, else a distribution.

    The general transfer compares the mechanism with itself without one record, so that the remove direction of
    "add-remove" neighbours serves as it is, and is cheaper than "replace-one".

    Formal guarantee: as for ``loss_distribution``; Gaussians on all records are mu-GDP, mu² the sum of squared
    sensitivities over noise multipliers, and no smaller mu will do but for rounding.
    """
    made = schedule(event, adjacency)
    if made.exact:
        mu = made.mu * ROUNDING
        return GaussianDP(mu=mu, adjacency=adjacency, status="accounted", event=event_to_json(event))
    return loss_distribution(event=event, adjacency=adjacency, resolution=resolution)


@door(resolution=_resolution)
def loss_distribution(*, event: Event, adjacency: Adjacency, resolution: float = 0.05) -> PrivacyLossDistribution:
    """The distribution of the composed privacy loss, on a grid, with every error rounded up into its masses.

    P is the mechanism with the record; Q without it (add-remove), or with another in its place (replace-one).

    Formal guarantee: a pair that dominates the event's has masses at most those returned: P's where the loss is at
    least 0 and at infinity, Q's where it is below 0 and at minus infinity. ``resolution`` is the grid spacing in
    standard deviations of one step's loss.

    Raises ValueError when an argument is out of range, or nothing is promised, or too little for a grid.
    """
    made = schedule(event, adjacency)
    positive(resolution=resolution)
    if not made.private or made.beyond_grid:
        raise ValueError(
            "event must promise something to have a distribution of its loss, got one that is not private, or whose "
            "noise is 0.1 or less: give it more noise."
        )
    law = compose(mechanisms(made), resolution=resolution)
    above, below = law.remove.window, law.add.window
    first = min(above.start, 1 - below.start - below.size, 0)
    indices = np.arange(first, max(above.start + above.size - 1, 0) + 1)
    x = law.remove.spacing * indices
    decay = np.exp(-np.abs(x))
    upper = np.where(x >= 0.0, _raised(law.remove, law.slack, indices), 0.0)
    lower = np.where(x < 0.0, _raised(law.add, law.slack, -indices), 0.0)
    return PrivacyLossDistribution(
        spacing=law.remove.spacing,
        lowest=first,
        with_record=upper + lower * decay,
        without_record=lower + upper * decay,
        infinity_mass=min(1.0, exp(min(0.0, law.remove.log_above)) + law.infinity_mass),
        zero_mass=min(1.0, exp(min(0.0, law.add.log_above)) + law.zero_mass),
        adjacency=adjacency,
        status="accounted",
        event=event_to_json(event),
    )


def _raised(side: Composite, slack: float, indices: Integers) -> Array:
    """Masses at these grid points, with their errors added; none outside the window."""
    masses = (side.masses * exp(side.log_scale) + side.cell_error) * (1.0 + slack)
    at = indices - side.window.start
    return np.where((at >= 0) & (at < masses.size), masses[np.clip(at, 0, masses.size - 1)], 0.0)


def _answer(made: Schedule, lower: float, upper: float, *, epsilon: float, delta: float) -> PrivacyBound:
    """The bracket with an estimate: connecting dots overstates variances by half of what merging cells understates."""
    lower = min(lower, upper)
    return PrivacyBound(
        lower=lower,
        estimate=upper if made.exact or upper == inf else upper - (upper - lower) / 3.0,
        upper=upper,
        epsilon=epsilon,
        delta=delta,
        adjacency=made.adjacency,
        method="Gaussian mechanism, closed form" if made.exact else "privacy loss distribution, dots connected",
    )


@record
class Calibration:
    """A schedule that meets a target: ``event``, all noise multipliers times ``scale``.

    ``achieved`` is what it promises; its ``upper`` is at most the target.
    """

    scale: float
    event: Event
    achieved: PrivacyBound


@door(scale=positive)
def scaled(event: Event, scale: float) -> Event:
    """The event with every Gaussian's noise multiplier times ``scale``; other mechanisms stay as they are.

    Raises ValueError when the scale is no positive number, or the event none.
    """
    match event:
        case Gaussian():
            return Gaussian(noise_multiplier=event.noise_multiplier * scale)
        case PoissonSampled() | OnceAnEpoch() | LastAlone() | SelfComposed():
            return replace(event, event=scaled(event.event, scale))
        case Composed():
            return Composed(events=tuple(scaled(part, scale) for part in event.events))
        case ExponentialMechanism() | NonPrivate():
            return event
        case _:
            raise unknown(event)


@door(epsilon=positive, delta=delta_in_range, tolerance=open_probability)
def calibrate_noise(
    *, event: Event, epsilon: float, delta: float, adjacency: Adjacency, tolerance: float = 1e-3
) -> Calibration:
    """The smallest factor for all noise multipliers at which an event is (epsilon, delta)-DP, rounded up.

    Secant steps on logarithms, inside a bracket, first on a coarse grid; every evaluation is that of
    ``privacy_epsilon``, and what is returned was evaluated, so it meets the target whatever the search did.

    Formal guarantee: ``event`` of the result is (epsilon, delta)-DP for these neighbours; a factor smaller by a share
    ``tolerance``, the relative width of the final bracket, in [1e-9, 1), was not shown to be.

    Raises ValueError when an argument is out of range, or no noise meets the target (a part that is no Gaussian spends
    it).
    """
    tolerance = max(tolerance, 1e-9)

    start, step = 0.0, 0.7
    for resolution in (_COARSE, None):

        def spent(log_scale: float, resolution: float | None = resolution) -> PrivacyBound:
            at = scaled(event, exp(log_scale))
            return privacy_epsilon(event=at, delta=delta, adjacency=adjacency, resolution=resolution)

        low, over, high, best = _bracket(spent, epsilon, start, step)
        for _ in range(_ROUNDS):
            if high - low <= tolerance:
                break
            middle = _guess(low, over, high, best.upper, epsilon, tolerance)
            at = spent(middle)
            low, over, high, best = (low, over, middle, at) if at.upper <= epsilon else (middle, at.upper, high, best)
        start, step = high, max(0.01, tolerance)
    return Calibration(scale=exp(start), event=scaled(event, exp(start)), achieved=best)


def _bracket(
    spent: Callable[[float], PrivacyBound], epsilon: float, start: float, step: float
) -> tuple[float, float, float, PrivacyBound]:
    """Logarithms of a factor that is too small, with its epsilon, and of one that is enough, with what it achieves."""
    log_scale, at = start, spent(start)
    while abs(log_scale) < _LARGEST:
        further = log_scale - step if at.upper <= epsilon else log_scale + step
        other = spent(further)
        if other.upper <= epsilon < at.upper:
            return log_scale, at.upper, further, other
        if at.upper <= epsilon < other.upper:
            return further, other.upper, log_scale, at
        log_scale, at, step = further, other, 1.5 * step
    raise ValueError(
        f"epsilon must be within reach of the noise, got {epsilon!r}: at a factor of {exp(log_scale):.3g} the "
        f"event spends {at.upper:.6g}; its other parts, or delta, decide."
    )


def _guess(low: float, over: float, high: float, under: float, epsilon: float, tolerance: float) -> float:
    """Where epsilon is met if its logarithm is linear in that of the factor, half a tolerance to either side."""
    if not (over < inf and under > 0.0):
        return 0.5 * (low + high)
    secant = low + (high - low) * log(over / epsilon) / log(over / under)
    nudged = secant + (0.4 if high - secant > tolerance else -0.4) * tolerance
    return min(max(nudged, low + 0.05 * (high - low)), high - 0.05 * (high - low))
