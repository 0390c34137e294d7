"""Noise multipliers and step sizes as functions of the logical step, fixed before training.

A schedule is called with the number of logical steps done so far: never with physical batches, whose number depends on
the private batch size. Each is a frozen record, so that a checkpoint can carry it as data.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from pacdp.errors import require_positive

Schedule = Callable[[int], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """``value`` at every step."""

    value: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and self.value >= 0.0):
            raise ValueError(f"value must be a finite number >= 0, got {self.value}")

    def __call__(self, step: int) -> float:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential:
    """initial · factor^step, never beyond ``final``."""

    initial: float
    factor: float
    final: float = 0.0
    """A floor when factor < 1, a ceiling when factor > 1; 0 for none."""

    def __post_init__(self) -> None:
        require_positive(initial=self.initial, factor=self.factor)

    def __call__(self, step: int) -> float:
        value = self.initial * self.factor**step
        if self.final == 0.0:
            return value
        return max(value, self.final) if self.factor < 1.0 else min(value, self.final)


@dataclass(frozen=True, slots=True, kw_only=True)
class Polynomial:
    """initial · (1 + step / offset)^-power: the decaying steps of stochastic gradient Langevin dynamics."""

    initial: float
    power: float
    offset: float = 1.0

    def __post_init__(self) -> None:
        require_positive(initial=self.initial, offset=self.offset)

    def __call__(self, step: int) -> float:
        return self.initial * (1.0 + step / self.offset) ** -self.power


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """``values[step]``, one number a step."""

    values: tuple[float, ...]

    def __call__(self, step: int) -> float:
        if not 0 <= step < len(self.values):
            raise ValueError(f"step {step} is beyond the {len(self.values)} steps of the table: give a longer one")
        return self.values[step]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """``factor`` times another schedule; what calibration to a target epsilon returns."""

    schedule: Schedule
    factor: float

    def __call__(self, step: int) -> float:
        return self.factor * self.schedule(step)


def as_schedule(value: float | Schedule) -> Schedule:
    """A number as a constant schedule; a schedule as it is."""
    return value if callable(value) else Constant(value=float(value))
