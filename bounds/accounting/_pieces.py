"""One mechanism's privacy loss on a grid: from above for a guarantee, from below to say how tight it is.

The loss is x = ln(P/Q), P the mechanism with the record and Q without it, or with another in its place. What lies
beyond the range of noise that is looked at is moved to the worse side: P's upper tail to plus infinity, Q's lower
tail to minus infinity, the other two tails to the last grid point.

Of batches of which each record is in exactly one an epoch, with T batches, noise multiplier 1/c and independent
standard normal g_t, the ratio of the laws with and without a record is at most, in the convex order and under the law
without it,

    X̄ = (x_1 + ... + x_T)/T,      x_t = exp(c g_t - c²/2),

whatever of earlier releases later contributions depend on ("Once an epoch" in docs/accounting.md). Both directions of a
hockey-stick divergence are means of convex functions of the ratio. Here the law of X̄ is made by halves on geometric
grids: from above by splitting each mass to the ends of its cell at equal means, from below by merging what is in it.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
import itertools
from functools import lru_cache
from math import ceil, exp, expm1, fsum, inf, log, log1p, prod, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from bounds._arithmetic import jit
from bounds._check import Array, Integers
from bounds.accounting._cells import add_cells, gather, spread
from bounds.accounting._schedule import Schedule, Step

_FINENESS = 0.02  # of a cell, in standard deviations of the logarithm
_REACH = 12.0  # standard deviations of one batch's noise that are looked at
_ULP = 2.0**-53
_SLACK = 2.0**-43
# Beyond these, losses drown in rounding. More noise, or sampling less, is post-processing of this much or a mixture of
# it with nothing, so that a step is overstated by one at the border; it is understated by one that is silent.
_MOST_NOISE, _LEAST_RATE, _LEAST_EPSILON = 1e10, 1e-9, 1e-9
_MOST_IN_EPOCH = 1e5


class Ratios(NamedTuple):
    """A law of the ratio under Q: values that grow, the first of them 0, and their masses.

    ``lost`` is Q's mass of values that were left out, ``lost_with`` P's mass of them.
    """

    values: Array
    masses: Array
    lost: float = 0.0
    lost_with: float = 0.0


@lru_cache(maxsize=64)
def ratios(batches: int, noise_multiplier: float, tail: float, above: bool) -> Ratios:
    """The law of X̄ from above or below in the convex order; each step loses at most ``tail`` of either mass."""
    if batches == 1:
        return _trimmed(_one(noise_multiplier, above), tail, above)
    half = batches // 2
    first = ratios(half, noise_multiplier, tail, above)
    second = ratios(batches - half, noise_multiplier, tail, above)
    share = half / batches
    low, high = (share * first.values[k] + (1.0 - share) * second.values[k] for k in (1, -1))
    edges = _edges(low, high, batches, noise_multiplier)
    mass, moment = np.zeros((2, len(edges)))
    _add_means(share, first.values, first.masses, second.values, second.masses, edges, mass, moment)
    doubt = first.values.size * second.values.size * _ULP
    lost = first.lost + second.lost
    crossed = share * second.lost + (1.0 - share) * first.lost
    lost_with = share * first.lost_with + (1.0 - share) * second.lost_with + crossed
    made = _laid(mass, moment, edges, doubt, above)
    return _trimmed(made._replace(lost=lost, lost_with=lost_with), tail, above)


def _edges(low: float, high: float, batches: int, noise_multiplier: float) -> Array:
    """0, and a geometric grid around [low, high] whose cells are a small part of the deviation of ln X̄."""
    spread = sqrt(log1p(expm1(noise_multiplier**-2) / batches))
    step = _FINENESS * spread
    count = ceil(log(high / low) / step) + 2
    return np.concatenate([[0.0], low * np.exp(step * (np.arange(count + 1) - 0.5))])


def _one(noise_multiplier: float, above: bool) -> Ratios:
    """x of one batch."""
    c = 1.0 / noise_multiplier
    edges = _edges(exp(-_REACH * c - 0.5 * c * c), exp(_REACH * c + 1.5 * c * c), 1, noise_multiplier)
    with np.errstate(divide="ignore"):
        z = np.append(np.log(edges) / c + 0.5 * c, inf)
    return _laid(_between(z), _between(z - c), edges, 2.0**-30, above)


def _between(z: Array) -> Array:
    """Φ of each interval between neighbours."""
    below, up = ndtr(z), ndtr(-z)
    return np.where(z[1:] <= 0.0, np.diff(below), -np.diff(up))


@jit
def _add_means(share: float, a: Array, p: Array, b: Array, q: Array, edges: Array, mass: Array, moment: Array) -> None:
    """Add masses and means of share · a + (1 - share) · b to the cells that begin with ``edges``."""
    last = len(edges) - 1
    for i in range(len(a)):
        k = 0
        for j in range(len(b)):
            x, weight = share * a[i] + (1.0 - share) * b[j], p[i] * q[j]
            while k < last and x >= edges[k + 1]:
                k += 1
            mass[k] += weight
            moment[k] += weight * x


def _laid(mass: Array, moment: Array, edges: Array, doubt: float, above: bool) -> Ratios:
    """Cells of these masses and first moments as a law; masses are off by a share of ``doubt`` at most."""
    if not above:
        kept = mass > 0.0
        means = np.divide(moment, mass, out=edges.copy(), where=kept)
        return Ratios(np.append(0.0, means[kept]), np.append(0.0, mass[kept] * (1.0 - doubt)))
    width = np.diff(edges)
    right = np.clip((moment - edges * mass)[:-1] / width, 0.0, mass[:-1])
    laid = np.append(mass[:-1] - right, 0.0) + np.append(0.0, right)
    laid += doubt * (np.append(mass[:-1], 0.0) + np.append(0.0, mass[:-1]))
    return Ratios(edges, laid, float(mass[-1]), float(moment[-1]))


def _trimmed(law: Ratios, tail: float, above: bool) -> Ratios:
    """Without the ends that hold less than ``tail``; from below they are merged, from above they are lost."""
    values, masses, lost, lost_with = law
    with_record = values * masses
    first = int(np.searchsorted(np.cumsum(masses), tail))
    last = values.size - int(np.searchsorted(np.cumsum(with_record[::-1]), tail))
    first, last = max(1, first), max(last, first + 2)
    ends = (slice(0, first), slice(last, None))
    if above:
        lost += sum(float(masses[end].sum()) for end in ends)
        lost_with += sum(float(with_record[end].sum()) for end in ends)
        return Ratios(np.append(0.0, values[first:last]), np.append(0.0, masses[first:last]), lost, lost_with)
    kept, weights = values[first:last].copy(), masses[first:last].copy()
    for at, end in zip((0, -1), ends, strict=True):
        whole = weights[at] + masses[end].sum()
        if whole > 0.0:
            kept[at] = (kept[at] * weights[at] + with_record[end].sum()) / whole
            weights[at] = whole
    return Ratios(np.append(0.0, kept), np.append(0.0, weights))


class Grid(NamedTuple):
    """The losses that a step's masses are put on, multiples of a spacing: all near zero, wider apart further out.

    ``losses`` are spacing · indices, ``growth`` is e^x - 1, ``ratios`` e^x.
    """

    indices: Integers
    losses: Array
    growth: Array
    ratios: Array

    def part(self, low: float, top: float) -> "Grid":
        """The part around [low, top], with a point to spare on either side."""
        first = max(0, int(np.searchsorted(self.losses, low, "right")) - 2)
        last = min(self.losses.size, int(np.searchsorted(self.losses, top, "left")) + 2)
        return Grid._make(one[first:last] for one in self)


def grid(spacing: float, coarseness: float, low: float, top: float) -> Grid:
    """The grid from below ``low`` to above ``top``; neighbours are at most ``coarseness`` times their loss apart."""
    sides: list[list[int]] = []
    for end in (-low, top):
        side = [0]
        while side[-1] * spacing <= max(end, 0.0) or len(side) < 4:
            side.append(side[-1] + max(1, int(coarseness * side[-1])))
        sides.append([*side, side[-1] + 1, side[-1] + 2])
    indices = np.array([-k for k in reversed(sides[0])] + sides[1][1:], dtype=np.int64)
    x = np.asarray(spacing * indices, dtype=np.float64)
    return Grid(indices, x, np.expm1(x), np.exp(x))


class Masses(NamedTuple):
    """Masses at spacing · indices: P and Q of a pair that dominates, P of one that understates."""

    indices: Integers
    with_record: Array
    without_record: Array
    lower: Array
    infinity_mass: float
    zero_mass: float


class Noise(NamedTuple):
    """The pair (1-q) N(0, σ²) + q N(1, σ²) against N(0, σ²), or against its mirror image for replace-one.

    Where it is ``negligible``, it stands for a step with more noise or a smaller rate.
    """

    rate: float
    sigma: float
    replace: bool
    epsilons: tuple[float, ...]
    negligible: bool

    def choices(self) -> list[tuple[float, float]]:
        """Weights under Q, and losses, of what pure mechanisms on the same sample release."""
        found: list[tuple[float, float]] = []
        for signs in itertools.product((1.0, -1.0), repeat=len(self.epsilons)):
            signed = [sign * epsilon for sign, epsilon in zip(signs, self.epsilons, strict=True)]
            found.append((prod(1.0 / (1.0 + exp(x)) for x in signed), fsum(signed)))
        return found

    def ends(self, reach: float) -> tuple[float, float]:
        """The noise that is looked at: ``reach`` standard deviations around all means."""
        top = 1.0 + self.sigma * reach
        return (-top if self.replace else -self.sigma * reach), top

    def loss(self, z: Any, shift: float = 0.0) -> Any:
        """ln(P/Q) at z, where pure mechanisms have the loss ``shift``."""
        stay = log1p(-self.rate) if self.rate < 1.0 else -inf
        scale = 1.0 / (2.0 * self.sigma**2)
        up = np.logaddexp(stay, log(self.rate) + shift + (2.0 * z - 1.0) * scale)
        return up - np.logaddexp(stay, log(self.rate) + (-2.0 * z - 1.0) * scale) if self.replace else up

    def range(self, reach: float) -> tuple[float, float]:
        """The smallest and the largest loss that is looked at."""
        (low, top), shifts = self.ends(reach), [shift for _, shift in self.choices()]
        return float(self.loss(low, min(shifts))), float(self.loss(top, max(shifts)))

    def masses(self, grid: Grid, reach: float) -> Masses:
        """On the grid."""
        part, choices = grid.part(*self.range(reach)), self.choices()
        z_low, z_top = self.ends(reach)
        cells = self._cells(part, reach, choices)
        with_record = spread(*cells, _SLACK)
        without_record = _reversed(with_record, part.losses)
        if self.negligible:
            lower = _silent(part.losses)
        else:
            if self.epsilons:  # understated by counting the pure mechanisms as silent
                cells = self._cells(part, reach, [(1.0, 0.0)])
            lower = gather(*cells, part.losses, _SLACK)
        # beyond the ends, at the nearest grid point on the larger side of every loss that may lie there
        shifts = [shift for _, shift in choices]
        most_below, least_above = self.loss(z_low, max(shifts)), self.loss(z_top, min(shifts))
        (p_below, q_below), (p_above, q_above) = self._beyond(z_low, 1), self._beyond(z_top, -1)
        with_record[np.searchsorted(part.losses, most_below)] += p_below
        without_record[np.searchsorted(part.losses, least_above, "right") - 1] += q_above
        infinities = (p_above * (1.0 + _SLACK), q_below * (1.0 + _SLACK))
        return Masses(part.indices, with_record, without_record, lower, *infinities)

    def _cells(self, part: Grid, reach: float, choices: list[tuple[float, float]]) -> tuple[Array, Array, Array]:
        """What ``add_cells`` adds up over ``choices``."""
        total, right, doubt = np.zeros((3, part.losses.size - 1))
        for weight, shift in choices:
            noise = (self.sigma, self.rate, self.rate * exp(shift), weight, self.replace, *self.ends(reach))
            add_cells(part.losses, part.growth, part.ratios, *noise, total, right, doubt)
        return total, right, doubt

    def _beyond(self, z: float, side: int) -> tuple[float, float]:
        """P and Q of noise below z (side 1) or above it (side -1)."""
        still, up, down = (float(ndtr(side * (z - mean) / self.sigma)) for mean in (0.0, 1.0, -1.0))
        p = (1.0 - self.rate) * still + self.rate * up
        return p, (1.0 - self.rate) * still + self.rate * down if self.replace else still


class Response(NamedTuple):
    """Randomised response, which dominates every pure mechanism: the loss is ± epsilon."""

    epsilon: float

    def range(self, reach: float) -> tuple[float, float]:
        """The smallest and the largest loss."""
        return -self.epsilon, self.epsilon

    def masses(self, grid: Grid, reach: float) -> Masses:
        """On the grid; understated by a mechanism that releases nothing."""
        part = grid.part(-self.epsilon, self.epsilon)
        x = part.losses
        total, right, doubt = np.zeros((3, x.size - 1))
        for loss in (-self.epsilon, self.epsilon):
            k = int(np.searchsorted(x, loss, "right")) - 1
            mass = 1.0 / (1.0 + exp(-loss))
            total[k] += mass
            doubt[k] += mass * 2.0**-50 * abs(loss) / (x[k + 1] - x[k])
            right[k] += mass * expm1(x[k] - loss) / expm1(x[k] - x[k + 1])
        with_record = spread(total, right, doubt, _SLACK)
        return Masses(part.indices, with_record, _reversed(with_record, x), _silent(x), 0.0, 0.0)


class Allocation(NamedTuple):
    """An epoch of which each record is in one batch, against the same without the record."""

    batches: int
    sigma: float

    def law(self, reach: float, above: bool) -> Ratios:
        """The likelihood ratio under Q, where what is left out is as rare as noise beyond ``reach``."""
        return ratios(self.batches, self.sigma, float(ndtr(-reach)) / self.batches, above)

    def points(self, reach: float) -> tuple[Array, Array]:
        """Losses, and logarithms of P's masses."""
        law = self.law(reach, True)
        return np.log(law.values[1:]), np.log(law.masses[1:] * law.values[1:] + 1e-300)

    def range(self, reach: float) -> tuple[float, float]:
        """The smallest and the largest loss that is kept."""
        losses, _ = self.points(reach)
        return float(losses[0]), float(losses[-1])

    def masses(self, grid: Grid, reach: float) -> Masses:
        """On the grid."""
        part, law = grid.part(*self.range(reach)), self.law(reach, True)
        with_record = spread(*_in_cells(law, part.losses), _SLACK)
        if self.sigma >= _MOST_IN_EPOCH:
            lower = _silent(part.losses)
        else:
            lower = gather(*_in_cells(self.law(reach, False), part.losses), part.losses, _SLACK)
        zero = law.lost + float(law.masses[0])
        return Masses(part.indices, with_record, _reversed(with_record, part.losses), lower, law.lost_with, zero)


def _in_cells(law: Ratios, losses: Array) -> tuple[Array, Array, Array]:
    """P's masses in the cells between losses, what of each belongs to its right end, and what rounding may move."""
    x, mass = np.log(law.values[1:]), law.masses[1:] * law.values[1:]
    k = np.clip(np.searchsorted(losses, x, "right") - 1, 0, losses.size - 2)
    width = losses[k + 1] - losses[k]
    right = mass * np.expm1(losses[k] - x) / np.expm1(-width)
    doubt = mass * 2.0**-50 * (np.abs(x) + 1.0) / width
    made: Array = np.array([np.bincount(k, one, losses.size - 1) for one in (mass, right, doubt)], dtype=np.float64)
    return made[0], made[1], made[2]


Mechanism = Noise | Response | Allocation


def _reversed(with_record: Array, losses: Array) -> Array:
    """Masses under Q, from those under P."""
    with np.errstate(divide="ignore"):
        return np.exp(np.log(with_record) - losses)


def _silent(losses: Array) -> Array:
    """The masses of a mechanism that releases nothing."""
    return np.where(losses == 0.0, 1.0, 0.0)


def mechanisms(made: Schedule) -> list[tuple[Mechanism, int]]:
    """What a schedule composes, with counts; all Gaussians on all records as one."""
    replace = made.adjacency == "replace-one"
    found: list[tuple[Mechanism, int]] = []
    if made.precision > 0.0:
        found.append((_noise(Step(1.0, 1.0 / sqrt(made.precision)), replace), 1))
    for step, count in sorted(made.sampled.items()):
        found.append((_noise(step, replace), count))
    for epoch, count in sorted(made.epochs.items()):
        found.append((Allocation(epoch.batches, min(epoch.noise_multiplier, _MOST_IN_EPOCH)), count))
    found += [(Response(max(epsilon, _LEAST_EPSILON)), count) for epsilon, count in sorted(made.pure.items())]
    return found


def _noise(step: Step, replace: bool) -> Noise:
    rate, sigma = max(step.sample_rate, _LEAST_RATE), min(step.noise_multiplier, _MOST_NOISE)
    return Noise(rate, sigma, replace, step.epsilons, (rate, sigma) != (step.sample_rate, step.noise_multiplier))
