"""Numbers that change with the step, fixed before training.

A :data:`Schedule` of private training gives a noise multiplier or step size itself, from the number of logical steps
done so far, from 0: never from physical batches, whose number depends on the private batch size. Each is a frozen
record, so that a checkpoint can carry it as data. A :data:`Factor` of a chain multiplies the settings' own number, and
counts steps from 1, as the papers do; no checkpoint carries it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real

from pacdp.errors import naming, require_positive

Schedule = Callable[[int], float]
"""Steps done so far, from 0, to a noise multiplier or step size."""
Factor = Callable[[int], float]
"""Number of the step, from 1, to a factor on a step size or temperature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """``value`` at every step."""

    value: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and self.value >= 0.0):
            raise ValueError(
                "the value of a schedule, as noise_multiplier is, must be a finite number >= 0, got "
                f"{self.value}"
            )

    def __call__(self, step: int) -> float:
        """Return the one value."""
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """``values[step]``, one number a step."""

    values: tuple[float, ...]

    def __call__(self, step: int) -> float:
        """Return the number of that step; beyond the table there is none."""
        if not 0 <= step < len(self.values):
            raise ValueError(
                f"step {step} is beyond the {len(self.values)} steps of the table: give a longer one"
            )
        return self.values[step]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """``factor`` times another schedule; what calibration to a target epsilon returns."""

    schedule: Schedule
    factor: float

    def __call__(self, step: int) -> float:
        """Return the other schedule's value times the factor."""
        return self.factor * self.schedule(step)


def as_schedule(value: float | Schedule) -> Schedule:
    """A number as a constant schedule; a schedule as it is."""
    if not (callable(value) or isinstance(value, Real)):
        raise ValueError(
            f"a schedule, as noise_multiplier is, must be a number or a function of the step, got "
            f"{value!r}; for a list give Table(values=...)"
        )
    return value if callable(value) else Constant(value=float(value))


def value_at(step: int, **schedule: float | Schedule) -> float:
    """What one schedule, given by the name of its argument, says of a step.

    Raises:
        ValueError: no finite number of at least 0, or the schedule fails.
    """
    ((name, one),) = schedule.items()
    with naming(f"{name} at step {step}"):
        value = one if isinstance(one, Real) else as_schedule(one)(step)
    try:
        number = math.nan if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0.0 <= number < math.inf:
        raise ValueError(
            f"{name} must be a finite number >= 0 at every step, got {value!r} at step {step}, counted from 0"
        )
    return number


def polynomial(*, decay: float, offset: float = 0.0) -> Factor:
    """((t + offset)/(1 + offset))^-decay, the schedule of Welling and Teh (2011); 1 at t = 1."""
    return lambda t: ((t + offset) / (1.0 + offset)) ** -decay


def cyclical(*, period: int) -> Factor:
    """½ (cos(π ((t - 1) mod period)/period) + 1): restarts of Zhang, Li, Zhang, Chen and Wilson (2020)."""
    require_positive(period=period)
    return lambda t: 0.5 * (math.cos(math.pi * ((t - 1) % period) / period) + 1.0)


def warm_up(*, steps: int) -> Factor:
    """min(1, t/steps)."""
    require_positive(steps=steps)
    return lambda t: min(1.0, t / steps)
