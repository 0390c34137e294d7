"""Which grid, window and tilt suit an accounting question: choices only, nothing rests on them.

With K(θ) = Σ ln E e^(θx), a loss exceeds y with probability at most exp(K(θ) - θy). The tilt is the smallest at which
the errors of the transforms, which count with exp(K - θε), are small against delta; a larger one would centre the law
on rare large losses, where subsampled mechanisms are least like a Gaussian. The window ends where Chernoff's bound is
small against delta as well.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
from math import ceil, exp, floor, frexp, fsum, inf, ldexp, log, log1p, sqrt
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import fft
from scipy.special import ndtri

from bounds._arrays import Array
from bounds.accounting._fourier import Window
from bounds.accounting._pieces import Allocation, Mechanism, Noise

_NODES = 129
_MOST_GROUPS = 64
_LARGEST = 4000.0  # of exponents
_SMALLEST_LOG = -650.0
_NEGLIGIBLE = log(1e-4)  # of delta
_MARGIN = 6.0
_LOG_ERROR = log(1e-12) + _MARGIN  # of the transforms, for each step
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


class Losses:
    """Privacy losses and log-masses of all mechanisms at a few points, for a rough cumulant generating function.

    They are the losses under P (sign 1), or their negatives under Q (sign -1); ``tilts`` are those that are tried.
    """

    def __init__(self, values: Array, log_p: Array, counts: Array, sign: int) -> None:
        logs = log_p if sign > 0 else log_p - values
        self._values, self._logs, self._counts = sign * values, logs - np.logaddexp.reduce(logs, 1)[:, None], counts
        most = _LARGEST / float(np.abs(values).max())
        self.tilts = np.geomspace(min(0.1 / self.deviation, 0.01 * most), most, 40)
        self.cumulants = np.array([self.cumulant(tilt) for tilt in self.tilts])

    @property
    def deviation(self) -> float:
        """The standard deviation of the sum."""
        weights = np.exp(self._logs)
        mean = (weights * self._values).sum(axis=1)
        square = (weights * self._values**2).sum(axis=1)
        return sqrt(float(self._counts @ np.maximum(square - mean**2, 0.0)) + 1e-300)

    def cumulant(self, tilt: float) -> float:
        """K."""
        return float(self._counts @ np.logaddexp.reduce(self._logs + tilt * self._values, axis=1))

    def log_tails(self, epsilon: float) -> Array:
        """Chernoff's bound on the logarithm of P(x > epsilon), and so on ln delta(epsilon), by each of the tilts."""
        return self.cumulants - self.tilts * epsilon

    def epsilon(self, log_delta: float) -> float:
        """About epsilon(delta)."""
        return max(0.0, float(((self.cumulants - log_delta) / self.tilts).min()))

    def tilt(self, epsilon: float, wanted: float) -> float:
        """The smallest tilt at which errors are as small as ``wanted`` asks; or that at which they count least."""
        if wanted >= 0.0:
            return 0.0
        heights = self.log_tails(epsilon)
        enough = np.flatnonzero(heights <= wanted)
        best = int(enough[0]) if enough.size else int(heights.argmin())
        return float(self.tilts[best]) if heights[best] < 0.0 else 0.0

    def edge(self, tilt: float, log_mass: float, sign: int) -> tuple[float, float]:
        """Where the tilted law's tail is as small as that, and the further tilt that shows it."""
        base = self.cumulant(tilt)
        found = [
            (sign * (self.cumulant(tilt + sign * rate) - base - log_mass) / rate, float(sign * rate))
            for rate in self.tilts
        ]
        return min(found) if sign > 0 else max(found)

    def end(self, tilt: float, log_mass: float) -> tuple[float, float]:
        """Where the tail without a tilt is as small as that, and the further tilt that shows it."""
        return min(((self.cumulant(tilt + rate) - log_mass) / (tilt + rate), rate) for rate in map(float, self.tilts))


def losses(parts: list[tuple[Mechanism, int]], reach: float) -> tuple[Losses, Losses]:
    """The losses of both signs; mechanisms beyond the 64th share the points of those beside them."""
    step = -(-len(parts) // _MOST_GROUPS)
    groups = [parts[i : i + step] for i in range(0, len(parts), step)]
    counts = np.array([float(sum(count for _, count in group)) for group in groups])
    x, log_p = (np.array(rows) for rows in zip(*(_points(g[len(g) // 2][0], reach) for g in groups), strict=True))
    return Losses(x, log_p, counts, 1), Losses(x, log_p, counts, -1)


def _points(part: Mechanism, reach: float) -> tuple[Array, Array]:
    if isinstance(part, Allocation):
        x, logs = part.points(reach)
        at = np.linspace(0, x.size - 1, _NODES).round().astype(int)
        first = np.append(0, at[:-1] + 1)
        return x[at], np.logaddexp.reduceat(logs, first)
    if not isinstance(part, Noise):
        x = np.linspace(-part.epsilon, part.epsilon, _NODES)
        logs = np.full(_NODES, -1e4)
        logs[[0, -1]] = -np.logaddexp(0.0, np.array([1.0, -1.0]) * part.epsilon)
        return x, logs
    z = np.linspace(*part.ends(reach), _NODES)
    plain = part.loss(z)
    density = -0.5 * (z / part.sigma) ** 2 + plain
    if part.replace:
        stay = log1p(-part.rate) if part.rate < 1.0 else -inf
        density += np.logaddexp(stay, log(part.rate) - (2.0 * z + 1.0) / (2.0 * part.sigma**2))
    return plain + fsum(part.epsilons) * np.sign(z), density


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
    if log_delta is None and epsilon is not None:
        log_delta = max(float(side.log_tails(epsilon).min()) for side in losses(parts, 30.0))
    log_delta = max(_SMALLEST_LOG, log(1e-12) if log_delta is None else log_delta)
    reach = max(6.0, -float(ndtri(exp(max(_SMALLEST_LOG, log_delta - 12.0 - log(steps))))))
    sides = losses(parts, reach)
    ranges = [(part.range(reach), count) for part, count in parts]
    least, most = sum(count * low for (low, _), count in ranges), sum(count * top for (_, top), count in ranges)
    small = log_delta + _NEGLIGIBLE
    found: list[Range] = []
    for side, low, top in zip(sides, (least, -most), (most, -least), strict=True):
        at = side.epsilon(log_delta) if epsilon is None else epsilon
        tilt = 0.0 if whole else side.tilt(at, small - _LOG_ERROR - log(steps))
        folded = small - _MARGIN - min(0.0, side.cumulant(tilt) - tilt * at)
        start, lower_edge = side.edge(tilt, folded, -1)
        end, upper_edge = max(side.edge(tilt, folded, 1), side.end(tilt, small))
        last = min(top, end)
        found.append(Range(tilt, min(max(low, start), last), last, lower_edge, upper_edge, start <= low, end >= top))
    width = max(wanted.end - wanted.start for wanted in found)
    # a share of one step's deviation, and of the loss of a record that is not sampled; limited by the window
    spacing = resolution * min(side.deviation for side in sides) / sqrt(steps)
    rates = [part.rate for part, _ in parts if isinstance(part, Noise) and part.rate < 1.0]
    if rates:
        spacing = min(spacing, max(10.0 * resolution * -log1p(-min(rates)), width / _MANY_POINTS))
    spacing = _rounded(max(spacing, width / _MOST_POINTS))
    added = [3.0 * steps * spacing + 0.2 * resolution * abs(end) for end in (least, most)]
    remove, add = _window(spacing, found[0], added[0], added[1]), _window(spacing, found[1], added[1], added[0])
    return Plan(spacing, 0.2 * resolution, reach, remove, add)


def _window(spacing: float, wanted: Range, before: float, after: float) -> Window:
    """The window on the grid; where a range ends with the losses there are, it takes in what the grid adds to them."""
    start = wanted.start - (before if wanted.first else 0.0)
    end = wanted.end + (after if wanted.last else 0.0)
    first = floor(start / spacing) - 2
    size = cast(Any, fft.next_fast_len)(max(64, ceil(end / spacing) + 3 - first), real=True)
    return Window(first, int(size), wanted.tilt, wanted.lower_edge, wanted.upper_edge)


def _rounded(spacing: float) -> float:
    """Twenty bits of it, so that multiples are exact."""
    mantissa, exponent = frexp(spacing)
    return ldexp(floor(mantissa * 2**20), exponent - 20)
