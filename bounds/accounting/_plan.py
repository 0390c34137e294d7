"""Which grid, window and tilt suit an accounting question: choices only, nothing rests on them.

With K(θ) = Σ ln E e^(θx), a loss exceeds y with probability at most exp(K(θ) - θy). The tilt is the smallest at which
the errors of the transforms, which count with exp(K - θε), are small against delta; a larger one would centre the law
on rare large losses, where subsampled mechanisms are least like a Gaussian. The window ends where Chernoff's bound is
small against delta as well.
"""

# scipy is untyped
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
import math
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.special import ndtri

from bounds.accounting._fourier import Window
from bounds.accounting._pieces import Mechanism, Noise

Array = NDArray[np.float64]
_NODES = 129
_MOST_GROUPS = 64
_LARGEST = 4000.0  # of exponents
_SMALLEST_LOG = -650.0
_NEGLIGIBLE = math.log(1e-4)  # of delta
_MARGIN = 6.0
_LOG_ERROR = math.log(1e-12) + _MARGIN  # of the transforms, for each step
_MANY_POINTS = 2**15
_MOST_POINTS = 2**20


class Plan(NamedTuple):
    """Grid spacing in nats, further out relative to the loss; range of noise; a window for each direction."""

    spacing: float
    coarseness: float
    reach: float
    remove: Window
    add: Window


class Range(NamedTuple):
    """What a window must hold, in nats; ``first`` and ``last`` say that no loss lies beyond that end."""

    tilt: float
    start: float
    end: float
    lower_edge: float
    upper_edge: float
    first: bool
    last: bool


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """Privacy losses and log-masses of all mechanisms at a few points, for a rough cumulant generating function."""

    values: Array
    logs: Array
    counts: Array

    @property
    def largest(self) -> float:
        """The largest absolute loss."""
        return float(np.abs(self.values).max())

    @property
    def deviation(self) -> float:
        """The standard deviation of the sum."""
        weights = np.exp(self.logs)
        mean = (weights * self.values).sum(axis=1)
        square = (weights * self.values**2).sum(axis=1)
        return math.sqrt(float(self.counts @ np.maximum(square - mean**2, 0.0)) + 1e-300)

    def cumulant(self, tilt: float) -> float:
        """K."""
        return float(self.counts @ np.logaddexp.reduce(self.logs + tilt * self.values, axis=1))

    def tilts(self) -> Array:
        """Those that are tried."""
        most = _LARGEST / self.largest
        return np.geomspace(min(0.1 / self.deviation, 0.01 * most), most, 40)


def losses(parts: list[tuple[Mechanism, int]], reach: float, sign: int) -> Losses:
    """Points for the loss under P (sign 1), or for its negative under Q (sign -1)."""
    step = -(-len(parts) // _MOST_GROUPS)
    values: list[Array] = []
    logs: list[Array] = []
    counts: list[float] = []
    for i in range(0, len(parts), step):
        group = parts[i : i + step]
        counts.append(sum(count for _, count in group))
        x, log_p = _points(group[len(group) // 2][0], reach)
        log_masses = log_p if sign > 0 else log_p - x
        values.append(sign * x)
        logs.append(log_masses - np.logaddexp.reduce(log_masses))
    return Losses(np.array(values), np.array(logs), np.array(counts))


def _points(part: Mechanism, reach: float) -> tuple[Array, Array]:
    if not isinstance(part, Noise):
        x = np.linspace(-part.epsilon, part.epsilon, _NODES)
        logs = np.full(_NODES, -1e4)
        logs[[0, -1]] = -np.logaddexp(0.0, np.array([1.0, -1.0]) * part.epsilon)
        return x, logs
    z = np.linspace(*part.ends(reach), _NODES)
    plain = part.loss(z)
    density = -0.5 * (z / part.sigma) ** 2 + plain
    if part.replace:
        stay = math.log1p(-part.rate) if part.rate < 1.0 else -math.inf
        density += np.logaddexp(stay, math.log(part.rate) - (2.0 * z + 1.0) / (2.0 * part.sigma**2))
    return plain + math.fsum(part.epsilons) * np.sign(z), density


def plan(
    parts: list[tuple[Mechanism, int]],
    *,
    resolution: float,
    log_delta: float | None = None,
    epsilon: float | None = None,
) -> Plan:
    """A plan for the neighbourhood of (epsilon, delta), either of which is guessed when missing.

    With neither, a plan for the whole law without a tilt. ``resolution`` is the spacing in standard deviations of one
    step.
    """
    steps = sum(count for _, count in parts)
    whole = log_delta is None and epsilon is None
    if log_delta is None:
        log_delta = math.log(1e-12)
        if epsilon is not None:
            sides = [losses(parts, 30.0, sign) for sign in (1, -1)]
            log_delta = max(_log_tail(side, epsilon) for side in sides)
    log_delta = max(_SMALLEST_LOG, log_delta)
    reach = max(6.0, -float(ndtri(math.exp(max(_SMALLEST_LOG, log_delta - 12.0 - math.log(steps))))))
    sides = [losses(parts, reach, sign) for sign in (1, -1)]
    ends = _ends(parts, reach)
    found: list[Range] = []
    for side, (low, top) in zip(sides, (ends, (-ends[1], -ends[0])), strict=True):
        at = _epsilon(side, log_delta) if epsilon is None else epsilon
        tilt = 0.0 if whole else _tilt(side, at, log_delta, steps)
        small = log_delta + _NEGLIGIBLE
        folded = small - _MARGIN - min(0.0, side.cumulant(tilt) - tilt * at)
        start, lower_edge = _edge(side, tilt, folded, -1)
        end, upper_edge = max(_edge(side, tilt, folded, 1), _end(side, tilt, small))
        last = min(top, end)
        first = min(max(low, start), last)
        found.append(Range(tilt, first, last, lower_edge, upper_edge, start <= low, end >= top))
    spacing = _spacing(parts, sides, steps, resolution, found)
    beyond = [3.0 * steps * spacing + 0.2 * resolution * abs(end) for end in ends]
    windows = [
        _window(spacing, wanted, before, after)
        for wanted, (before, after) in zip(found, (beyond, beyond[::-1]), strict=True)
    ]
    return Plan(spacing, 0.2 * resolution, reach, windows[0], windows[1])


def _ends(parts: list[tuple[Mechanism, int]], reach: float) -> tuple[float, float]:
    """The smallest and the largest loss of all mechanisms together."""
    ends = [(part.range(reach), count) for part, count in parts]
    return sum(count * low for (low, _), count in ends), sum(count * top for (_, top), count in ends)


def _spacing(
    parts: list[tuple[Mechanism, int]],
    sides: list[Losses],
    steps: int,
    resolution: float,
    found: list[Range],
) -> float:
    """A share of one step's deviation, and of the loss of a record that is not sampled; limited by the window."""
    width = max(wanted.end - wanted.start for wanted in found)
    spacing = resolution * min(side.deviation for side in sides) / math.sqrt(steps)
    rates = [part.rate for part, _ in parts if isinstance(part, Noise) and part.rate < 1.0]
    if rates:
        spacing = min(spacing, max(10.0 * resolution * -math.log1p(-min(rates)), width / _MANY_POINTS))
    return _rounded(max(spacing, width / _MOST_POINTS))


def _log_tail(side: Losses, epsilon: float) -> float:
    """About ln delta(epsilon)."""
    return min(side.cumulant(tilt) - tilt * epsilon for tilt in side.tilts())


def _epsilon(side: Losses, log_delta: float) -> float:
    """About epsilon(delta)."""
    return max(0.0, min((side.cumulant(tilt) - log_delta) / tilt for tilt in side.tilts()))


def _tilt(side: Losses, epsilon: float, log_delta: float, steps: int) -> float:
    """The smallest tilt at which errors do not count; or that at which they count least."""
    wanted = log_delta + _NEGLIGIBLE - _LOG_ERROR - math.log(steps)
    if wanted >= 0.0:
        return 0.0
    best, least = 0.0, 0.0
    for tilt in side.tilts():
        height = side.cumulant(tilt) - tilt * epsilon
        if height <= wanted:
            return float(tilt)
        if height < least:
            best, least = float(tilt), height
    return best


def _edge(side: Losses, tilt: float, log_mass: float, sign: int) -> tuple[float, float]:
    """Where the tilted law's tail is as small as that, and the further tilt that shows it."""
    base = side.cumulant(tilt)
    found = [
        (sign * (side.cumulant(tilt + sign * rate) - base - log_mass) / rate, float(sign * rate))
        for rate in side.tilts()
    ]
    return min(found) if sign > 0 else max(found)


def _end(side: Losses, tilt: float, log_mass: float) -> tuple[float, float]:
    """Where the tail without a tilt is as small as that, and the further tilt that shows it."""
    rates = [float(rate) for rate in side.tilts()]
    return min(((side.cumulant(tilt + rate) - log_mass) / (tilt + rate), rate) for rate in rates)


def _window(spacing: float, wanted: Range, before: float, after: float) -> Window:
    """The window on the grid; where a range ends with the losses there are, it takes in what the grid adds to them."""
    start = wanted.start - (before if wanted.first else 0.0)
    end = wanted.end + (after if wanted.last else 0.0)
    first = math.floor(start / spacing) - 2
    size = cast(Any, fft.next_fast_len)(max(64, math.ceil(end / spacing) + 3 - first), real=True)
    return Window(first, int(size), wanted.tilt, wanted.lower_edge, wanted.upper_edge)


def _rounded(spacing: float) -> float:
    """Twenty bits of it, so that multiples are exact."""
    mantissa, exponent = math.frexp(spacing)
    return math.ldexp(math.floor(mantissa * 2**20), exponent - 20)
