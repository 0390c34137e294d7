"""All mechanisms of a schedule composed on one grid, and delta(epsilon) of what comes out.

With masses p at losses y (tilted: p = M e^(-θy) p̃),

    delta(ε) = Σ_(y > ε) p (1 - e^(ε - y)) + p(infinity).

Errors of p̃ that add up to E count with M e^(-θε) w E, w = max_d e^(-θd) (1 - e^(-d)): the tilt makes them relative to
Chernoff's bound on the tail.

Grid, window and tilt are choices, on which nothing rests. With K(θ) = Σ ln E e^(θx), a loss exceeds y with probability
at most exp(K(θ) - θy). The tilt is the smallest at which the errors of the transforms, which count with exp(K - θε),
are small against delta; a larger one would centre the law on rare large losses, where subsampled mechanisms are least
like a Gaussian. The window ends where Chernoff's bound is small against delta as well.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
from math import ceil, exp, expm1, floor, frexp, fsum, inf, ldexp, log, log1p, sqrt
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import fft
from scipy.special import ndtri

from bounds._arithmetic import jit
from bounds._check import Array
from bounds.accounting._fourier import Composite, Spectrum, Window
from bounds.accounting._levels import grouped
from bounds.accounting._pieces import Allocation, Mechanism, Noise, grid

_NODES = 129
_MOST_GROUPS = 64
_LARGEST = 4000.0  # of exponents
_SMALLEST_LOG = -650.0
_NEGLIGIBLE = log(1e-4)  # of delta
_MARGIN = 6.0
_LOG_ERROR = log(1e-12) + _MARGIN  # of the transforms, for each step
_MANY_POINTS = 2**15
_MOST_POINTS = 2**20
_LOG_HUGE = 690.0
_HUGE = exp(0.999 * _LOG_HUGE)
_FEW = 20


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

    def delta(self, epsilon: Any) -> Any:
        """delta at each epsilon, or at one."""
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
        return float(self.delta(epsilon))

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

    def _scale(self, at: Any) -> Any:
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
