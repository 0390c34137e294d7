"""How much noise a target asks for: one factor for all noise multipliers of a schedule."""

from collections.abc import Callable
from dataclasses import replace
from math import exp, inf, log

from bounds._check import door, open_probability, positive
from bounds.accounting.accountant import privacy_epsilon
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
    unknown,
)
from bounds.privacy import Adjacency, PrivacyBound
from bounds.record import record

_LARGEST = 20.0  # of logarithms
_ROUNDS = 40
_COARSE = 0.2  # resolution of a first search


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
