"""delta(epsilon) of one direction from a composed law, and its inverse, each rounded to either side.

With masses p at losses y (tilted: p = M e^(-θy) p̃),

    delta(ε) = Σ_(y > ε) p (1 - e^(ε - y)) + p(infinity).

Errors of p̃ that add up to E count with M e^(-θε) w E, w = max_d e^(-θd) (1 - e^(-d)): the tilt makes them relative to
Chernoff's bound on the tail.
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from bounds.accounting._fourier import Composite

Array = NDArray[np.float64]
_LOG_HUGE = 690.0
_HUGE = math.exp(0.999 * _LOG_HUGE)


@njit(cache=True, error_model="numpy", nogil=True)
def _sums(masses: np.ndarray, tilt: float, spacing: float) -> tuple[np.ndarray, np.ndarray]:
    """At every y_j: Σ_(k≥j) p̃ e^(-θd) (1 - e^(-d)) and Σ_(k≥j) p̃ e^(-(θ+1)d), d = y_k - y_j."""
    n = len(masses)
    first, second = np.zeros(n + 1), np.zeros(n + 1)
    decay, faster, fall = math.exp(-tilt * spacing), math.exp(-(tilt + 1.0) * spacing), -math.expm1(-spacing)
    for j in range(n - 1, -1, -1):
        first[j] = decay * (first[j + 1] + fall * second[j + 1])
        second[j] = masses[j] + faster * second[j + 1]
    return first, second


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One side of delta(epsilon): overstated where ``sign`` is 1, understated where it is -1."""

    start: int
    spacing: float
    tilt: float
    log_scale: float
    excess: Array
    rest: Array
    error: float
    beyond: float
    below: float
    slack: float
    sign: float

    def delta(self, epsilon: Array) -> Array:
        """delta at each epsilon."""
        at = np.asarray(epsilon, dtype=np.float64)
        at = at - self.sign * 2.0**-50 * np.abs(at)
        slot = np.clip(np.ceil(at / self.spacing) - self.start, 0, self.excess.size - 1).astype(np.int64)
        edge = np.asarray((self.start + slot) * self.spacing, dtype=np.float64)
        scale = self._scale(edge)
        tail = scale * (self.excess[slot] - np.expm1(np.minimum(at - edge, 0.0)) * self.rest[slot])
        tail = tail * (1.0 + self.sign * self.slack) + self.sign * self._noise(at, slot)
        if self.sign > 0:
            tail = np.where(scale >= _HUGE, 1.0, tail + self.beyond + 1e-300)
        return np.clip(tail, 0.0, 1.0)

    def at(self, epsilon: float) -> float:
        """delta at one epsilon."""
        return float(self.delta(np.array([epsilon]))[0])

    @property
    def end(self) -> float:
        """The epsilon beyond which the window holds no mass."""
        return (self.start + self.excess.size - 1) * self.spacing

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon at which delta is promised (sign 1), or the largest at which it is not; inf if none."""
        edges = np.asarray((self.start + np.arange(self.excess.size)) * self.spacing, dtype=np.float64)
        values = self.delta(edges)
        if self.sign > 0:
            good = np.flatnonzero(values <= delta)
            if not good.size:
                return math.inf
            high, low = float(edges[good[0]]), float(edges[max(good[0] - 1, 0)])
        else:
            good = np.flatnonzero(values > delta)
            if not good.size:
                return 0.0
            low, high = float(edges[good[-1]]), float(edges[min(good[-1] + 1, edges.size - 1)])
        for _ in range(45):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.at(middle) <= delta else (middle, high)
        return max(0.0, high if self.sign > 0 else low)

    def _scale(self, at: Array) -> Array:
        return np.exp(np.clip(self.log_scale - self.tilt * at, -745.0, _LOG_HUGE))

    def _noise(self, at: Array, slot: NDArray[np.int64]) -> Array:
        outside = np.where(at < self.start * self.spacing, self.below, 0.0)
        noise = self._scale(at) * (self.error + outside) * self._largest_weight()
        return np.where(slot < self.excess.size - 1, noise, 0.0)  # no mass is counted beyond the window

    def _largest_weight(self) -> float:
        if self.tilt == 0.0:
            return 1.0
        return math.exp(self.tilt * math.log(self.tilt / (1.0 + self.tilt))) / (1.0 + self.tilt)


def overstated(law: Composite, infinity_mass: float, slack: float) -> Curve:
    """At least delta(epsilon)."""
    end = (law.window.start + law.window.size) * law.spacing
    above = math.exp(min(0.0, law.log_scale - law.window.tilt * end + law.log_above))
    return _curve(law, law.error, above + infinity_mass, math.exp(min(0.0, law.log_below)), slack, 1.0)


def understated(law: Composite, slack: float) -> Curve:
    """At most delta(epsilon)."""
    folded = math.exp(min(0.0, law.log_above)) + math.exp(min(0.0, law.log_below))
    return _curve(law, law.error + folded, 0.0, 0.0, slack, -1.0)


def _curve(law: Composite, error: float, beyond: float, below: float, slack: float, sign: float) -> Curve:
    excess, rest = _sums(law.masses, law.window.tilt, law.spacing)
    w = law.window
    return Curve(w.start, law.spacing, w.tilt, law.log_scale, excess, rest, error, beyond, below, slack, sign)
