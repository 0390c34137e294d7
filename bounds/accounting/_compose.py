"""All mechanisms of a schedule composed on one grid, and delta(epsilon) of what comes out.

With masses p at losses y (tilted: p = M e^(-θy) p̃),

    delta(ε) = Σ_(y > ε) p (1 - e^(ε - y)) + p(infinity).

Errors of p̃ that add up to E count with M e^(-θε) w E, w = max_d e^(-θd) (1 - e^(-d)): the tilt makes them relative to
Chernoff's bound on the tail.
"""

from math import exp, expm1, inf, log
from typing import NamedTuple

import numpy as np

from bounds._arrays import Array
from bounds._elementwise import jit
from bounds.accounting._fourier import Composite, Spectrum
from bounds.accounting._levels import grouped
from bounds.accounting._pieces import Mechanism, grid
from bounds.accounting._plan import plan

_LOG_HUGE = 690.0
_HUGE = exp(0.999 * _LOG_HUGE)
_FEW = 20


@jit
def _sums(masses: Array, tilt: float, spacing: float) -> tuple[Array, Array]:
    """At every y_j: Σ_(k≥j) p̃ e^(-θd) (1 - e^(-d)) and Σ_(k≥j) p̃ e^(-(θ+1)d), d = y_k - y_j."""
    n = len(masses)
    first, second = np.zeros(n + 1), np.zeros(n + 1)
    decay, faster, fall = exp(-tilt * spacing), exp(-(tilt + 1.0) * spacing), -expm1(-spacing)
    for j in range(n - 1, -1, -1):
        first[j] = decay * (first[j + 1] + fall * second[j + 1])
        second[j] = masses[j] + faster * second[j + 1]
    return first, second


class Curve:
    """One side of delta(epsilon): overstated where ``sign`` is 1, understated where it is -1.

    ``error`` is what the masses may be off by in sum, ``below`` what may have folded into the window from under it;
    ``beyond`` counts whole, and ``slack`` bounds what rounding did to masses, relatively.
    """

    def __init__(
        self, law: Composite, sign: float, slack: float, *, error: float, beyond: float = 0.0, below: float = 0.0
    ) -> None:
        self._law, self._sign, self._slack = law, sign, slack
        self._error, self._beyond, self._below = error, beyond, below
        start, size, tilt = law.window[:3]
        self._excess, self._rest = _sums(law.masses, tilt, law.spacing)
        self._edges = np.asarray((start + np.arange(size + 1)) * law.spacing)
        self._weight = exp(tilt * log(tilt / (1.0 + tilt))) / (1.0 + tilt) if tilt > 0.0 else 1.0

    def delta(self, epsilon: Array) -> Array:
        """delta at each epsilon."""
        at = epsilon - self._sign * 2.0**-50 * np.abs(epsilon)
        last = self._edges.size - 1
        slot = np.clip(np.ceil(at / self._law.spacing) - self._law.window.start, 0, last).astype(np.int64)
        edge = self._edges[slot]
        scale = self._scale(edge)
        tail = scale * (self._excess[slot] - np.expm1(np.minimum(at - edge, 0.0)) * self._rest[slot])
        error = self._scale(at) * (self._error + np.where(at < self._edges[0], self._below, 0.0)) * self._weight
        error = np.where(slot < last, error, 0.0)  # no mass is counted beyond the window
        tail = tail * (1.0 + self._sign * self._slack) + self._sign * error
        if self._sign > 0:
            tail = np.where(scale >= _HUGE, 1.0, tail + self._beyond + 1e-300)
        return np.clip(tail, 0.0, 1.0)

    def at(self, epsilon: float) -> float:
        """delta at one epsilon."""
        return float(self.delta(np.array([epsilon]))[0])

    @property
    def end(self) -> float:
        """The epsilon beyond which the window holds no mass."""
        return float(self._edges[-1])

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon at which delta is promised (sign 1), or the largest at which it is not; inf if none."""
        values = self.delta(self._edges)
        found = np.flatnonzero(values <= delta if self._sign > 0 else values > delta)
        if not found.size:
            return inf if self._sign > 0 else 0.0
        right = int(found[0]) if self._sign > 0 else int(found[-1]) + 1  # the last edge promises every delta
        low, high = float(self._edges[max(right - 1, 0)]), float(self._edges[right])
        for _ in range(45):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.at(middle) <= delta else (middle, high)
        return max(0.0, high if self._sign > 0 else low)

    def _scale(self, at: Array) -> Array:
        return np.exp(np.clip(self._law.log_scale - self._law.window.tilt * at, -745.0, _LOG_HUGE))


class Law(NamedTuple):
    """The law of x under P (remove) and of -x under Q (add), both overstated, and of x understated.

    ``infinity_mass`` and ``zero_mass`` are at infinity in the remove and the add direction; ``slack`` bounds what
    rounding did to masses, relatively.
    """

    remove: Composite
    add: Composite
    lower: Composite
    infinity_mass: float
    zero_mass: float
    slack: float

    def overstated(self) -> tuple[Curve, Curve]:
        """At least delta(epsilon), in the remove and the add direction."""
        return self._overstated(self.remove, self.infinity_mass), self._overstated(self.add, self.zero_mass)

    def understated(self) -> Curve:
        """At most delta(epsilon) in the remove direction."""
        folded = exp(min(0.0, self.lower.log_above)) + exp(min(0.0, self.lower.log_below))
        return Curve(self.lower, -1.0, self.slack, error=self.lower.error + folded)

    def _overstated(self, side: Composite, infinity: float) -> Curve:
        end = (side.window.start + side.window.size) * side.spacing
        above = exp(min(0.0, side.log_scale - side.window.tilt * end + side.log_above))
        below = exp(min(0.0, side.log_below))
        return Curve(side, 1.0, self.slack, error=side.error, beyond=above + infinity, below=below)


def compose(
    parts: list[tuple[Mechanism, int]],
    *,
    resolution: float | None,
    log_delta: float | None = None,
    epsilon: float | None = None,
) -> Law:
    """The composition of all parts, each as often as it is counted, one transform for each level and direction.

    The grid is planned for the neighbourhood of (epsilon, delta), see ``plan``; ``resolution`` is 0.01 by default, or
    0.05 where more than 20 mechanisms differ.
    """
    if resolution is None:
        resolution = 0.01 if len(parts) <= _FEW else 0.05
    levels = grouped(parts)
    chosen = plan(
        [(level.part, level.uses) for level in levels],
        resolution=float(resolution),
        log_delta=log_delta,
        epsilon=epsilon,
    )
    ends = [level.part.range(chosen.reach) for level in levels]
    on = grid(chosen.spacing, chosen.coarseness, min(low for low, _ in ends), max(top for _, top in ends))
    remove, lower, add = (Spectrum(chosen.spacing, side) for side in (chosen.remove, chosen.remove, chosen.add))
    infinity_mass, zero_mass, before = 0.0, 0.0, (0.0, 0.0)
    for part, count, shares, times in levels:
        made = part.masses(on, chosen.reach)
        divisor = remove.add(made.indices, made.with_record, count, shares=shares, times=times)
        lower.add(made.indices, made.lower, count + int(times.sum()), divisor)
        add.add(-made.indices[::-1], made.without_record[::-1], count, shares=shares, times=times)
        own, other = float(times @ shares), count + float(times @ (1.0 - shares))
        infinity_mass += own * before[0] + other * made.infinity_mass
        zero_mass += own * before[1] + other * made.zero_mass
        before = made.infinity_mass, made.zero_mass
    slack = 1e-13 * (16 + sum(level.uses + int(level.times.sum()) for level in levels))
    return Law(remove.composite(), add.composite(), lower.composite(), infinity_mass, zero_mass, slack)
