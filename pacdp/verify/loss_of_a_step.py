"""The privacy loss of one step on a grid: a pair of laws that is easier to tell apart, and one that is harder.

A step draws each record with probability q and adds noise: P = (1-q) N(0, 1) + q N(s, 1) against Q = N(0, 1), or
against (1-q) N(0, 1) + q N(-s, 1) where a record is replaced; s = 1/noise multiplier. A pure mechanism on the same
records is randomised response beside the noise (Kairouz, Oh and Viswanath 2015): e^(sz - s²/2) becomes e^(±ε + ...).
Let u = P/Q, x = ln u, and C(g) = E_Q (u - g)^+. Pairs with a larger C everywhere are easier to tell apart, and that
survives composition ("Composed privacy losses, from both sides" in docs/verify.md).

*Above*: the mass of a cell [x_k, x_l] goes to its ends so that P and Q keep their totals: the polygon through the
points of C. *Below*: the polygon is lowered until it lies under C. Right of g = 1 it becomes (1-η)(C(g) - C(g_U)), 0
beyond g_U; left of it likewise with B(g) = E_Q (g - u)^+ and g_L; what is left at 1 must agree. A chord lies above the
curve by at most (mass of the cell) (g_l - g_k)/4. Masses are rigorous (Arb).
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from math import fsum, inf, sqrt
from typing import Any, NamedTuple

import numpy as np
from flint import arb  # pyright: ignore[reportMissingImports]
from numpy import ndarray

from pacdp.verify.arithmetic import (
    ONE,
    ZERO,
    ball,
    lower,
    normal_above,
    upper,
)
from pacdp.verify.events import Step

_REACH = 11.5  # standard deviations of noise within the cells
_FARTHEST = 500.0  # no cell begins beyond this loss
_DUST = 4e-12  # more than rounding can move the mass of one step


class Atoms(NamedTuple):
    """One step on the grid: whole indices, masses under P and Q, and what lies at ±infinity."""

    places: ndarray
    p: ndarray
    q: ndarray
    at_infinity: float = 0.0
    at_zero: float = 0.0


def _about(
    z: ndarray, step: Step, replaced: bool, response: Any = 0.0
) -> ndarray:
    """The loss at noise z, in doubles: it decides where cells begin and end, and how wide they are."""

    def mixed(t: ndarray, inside: Any) -> ndarray:
        exponent = inside + t / step.noise - 0.5 / step.noise**2
        if step.rate == 1.0:
            return exponent
        return np.log1p(
            step.rate * np.expm1(np.minimum(exponent, 600.0))
        )

    if replaced:
        return mixed(z, 0.0) - mixed(-z, 0.0) + response
    return mixed(z, response)


def spread(step: Step, replaced: bool) -> float:
    """The root of the mean squared loss, about."""
    z = np.linspace(-_REACH, _REACH + 1.0 / step.noise, 4001)
    weight = np.exp(-0.5 * z**2)
    square = 0.0
    for added, p in step.responses():
        square += (
            float(p) * _about(z, step, replaced, float(added)) ** 2
        )
    return sqrt(np.sum(weight * square) / np.sum(weight))


def _tails(x: arb, step: Step, replaced: bool) -> tuple[arb, arb]:
    """P and Q of losses above x."""
    rate = ball(step.rate)
    of_p = ZERO
    of_q = ZERO
    for added, p in step.responses():
        inside, outside = (
            (ONE, added.exp()) if replaced else (added.exp(), ONE)
        )
        u = x.exp() / outside
        none, more, less = _noise_above(u, inside, step, replaced)
        of_p += (
            p * outside * ((1 - rate) * none + rate * inside * more)
        )
        of_q += p * (
            (1 - rate) * none + rate * less if replaced else none
        )
    return of_p, of_q


def _noise_above(
    u: arb, inside: arb, step: Step, replaced: bool
) -> tuple[arb, arb, arb]:
    """How probable it is that the ratio exceeds u, with noise around 0, s and -s.

    The ratio is 1-q + q c y with y = e^(sz) and c = e^(r - s²/2), or (1-q + q c y) / (1-q + q c/y) with c = e^(-s²/2).
    """
    q = ball(step.rate)
    if step.noise == inf:
        always = arb(int(1 - q + q * inside > u))
        return always, always, always
    if not replaced and u <= 1 - q:
        return ONE, ONE, ONE
    s = 1 / ball(step.noise)
    c = (-s * s / 2).exp() * inside
    if replaced:  # q c y² - (1-q)(u-1) y = q c u
        half = (1 - q) * (u - 1) / 2
        square = half**2 + (q * c) ** 2 * u
        y = (half + square.sqrt()) / (q * c)
    else:
        y = (u - (1 - q)) / (q * c)
    z = y.log() / s
    return (
        normal_above(z),
        normal_above(z - s),
        normal_above(z + s),
    )


class _Grid(NamedTuple):
    """Cells of one step: their ends as whole indices and ratios, and P and Q of losses above each of them, exactly."""

    places: ndarray
    g: ndarray
    p: ndarray
    q: ndarray

    @property
    def missing(self) -> arb:
        """What Q has beyond the first cell and P has not."""
        return 1 - self.q[0] - (1 - self.p[0]) / self.g[0]


def _exact(values: Iterable[arb]) -> ndarray:
    return np.array([*values], dtype=object)


def _rounded(
    to: Callable[[arb], float], values: ndarray
) -> ndarray:
    return np.array([to(one) for one in values])


def _grid(
    step: Step,
    replaced: bool,
    spacing: float,
    width: int,
    share: float,
) -> _Grid:
    sides = np.array([-1.0, 1.0])
    shift = np.array([-1.0 if replaced else 0.0, 1.0]) / step.noise
    far = _REACH * sides + shift
    ends = _about(far, step, replaced, sides * sum(step.epsilons))
    index = [0]
    for sign, end in zip((-1, 1), ends, strict=True):
        k = 0
        while sign * k * spacing < min(_FARTHEST, sign * end):
            k += sign * max(width, int(abs(k) * share))
            index.append(k)
    index.sort()
    x = [ball(spacing) * k for k in index]
    tails = [_tails(each, step, replaced) for each in x]
    of_p, of_q = map(_exact, zip(*tails, strict=True))
    g = _exact(each.exp() for each in x)
    return _Grid(np.array(index), g, of_p, of_q)


@lru_cache(
    maxsize=256
)  # runs that differ in one step share all others
def atoms(
    step: Step,
    replaced: bool,
    spacing: float,
    width: int,
    share: float,
) -> tuple[Atoms, Atoms]:
    """A step that dominates this one, and one that it dominates; cells of ``width``, or a ``share`` of the loss."""
    grid = _grid(step, replaced, spacing, width, share)
    p, q = _on_the_ends(grid)
    below = _below(grid, q)
    return _above(grid, p, q), below


def _on_the_ends(grid: _Grid) -> tuple[ndarray, ndarray]:
    """Masses of P and Q where that of each cell goes to its ends; what lies below all cells is at the first point."""
    low, high = grid.g[:-1], grid.g[1:]
    mass = grid.p[:-1] - grid.p[1:]
    excess = mass / low - (grid.q[:-1] - grid.q[1:])
    upward = excess / (1 / low - 1 / high)
    downward = mass - upward
    first = 1 - grid.p[0]
    p = _exact([first, *upward])
    q = _exact([first / low[0], *upward / high])
    p[:-1] += downward
    q[:-1] += downward / low
    return p, q


def _above(grid: _Grid, p: ndarray, q: ndarray) -> Atoms:
    """The dominating pair, rounded up; beyond the last cell P is at it as far as Q reaches, else at infinity."""
    beyond = grid.q[-1] * grid.g[-1]
    p[-1] += beyond
    q[-1] += grid.q[-1]
    ends = _exact([grid.p[-1] - beyond, grid.missing])
    of_p, of_q, beside = (
        _rounded(upper, one).clip(0.0) for one in (p, q, ends)
    )
    return Atoms(
        grid.places, of_p, of_q, float(beside[0]), float(beside[1])
    )


def _below(grid: _Grid, q: ndarray) -> Atoms:
    """The dominated pair: both sides lowered, and what is left at 1 in agreement.

    The heights are C and B at the ends, rounded down; the gaps, what a chord may lie above the curve by, rounded up.
    """
    zero = int(np.argmin(abs(grid.places)))
    rise = _rounded(lower, grid.p - grid.g * grid.q)
    fall = _rounded(lower, grid.g * (1 - grid.q) - (1 - grid.p))
    cells = (grid.q[:-1] - grid.q[1:]) * (grid.g[1:] - grid.g[:-1])
    gap = _rounded(upper, cells / 4)
    right = _lowered(rise[zero:], gap[zero:])
    left = _lowered(fall[zero::-1], gap[:zero][::-1])
    first = q[0] + grid.missing
    last = q[-1] + grid.q[-1]  # and whatever lies farther out
    weights = _rounded(lower, _exact([first, *q[1:-1], last]))
    inner = np.zeros(len(weights))
    lost = max(right.lost, left.lost)
    for side, part in (
        (right, slice(zero, None)),
        (left, slice(zero, None, -1)),
    ):
        kept = side.keep * (1.0 - lost) / (1.0 - side.lost)
        kept *= 1.0 - _DUST / 4
        inner[part][1 : side.cut] = (
            kept * weights[part][1 : side.cut]
        )
        inner[part][side.cut] = (
            kept * weights[part][side.cut :].sum()
        )
    under = inner * _rounded(lower, grid.g)
    elsewhere = max(fsum(inner), fsum(under))
    inner[zero] = under[zero] = max(0.0, 1.0 - elsewhere - _DUST)
    return Atoms(grid.places, under, inner)


class _Lowered(NamedTuple):
    """Where one side is cut, the share of its height at 1 that is lost, and 1 - η."""

    cut: int
    lost: float
    keep: float


def _lowered(height: ndarray, gap: ndarray) -> _Lowered:
    """The cut that loses least; the heights fall outward."""
    best = _Lowered(1, 1.0, 0.0)
    for cut in np.unique(
        np.geomspace(1, len(gap), 200).astype(int)
    ):
        if height[cut] > 0.0:
            above = np.maximum(gap[:cut] - height[cut], 0.0)
            keep = 1.0 - 1.001 * float(
                np.max(above / height[1 : cut + 1])
            )
            lost = 1.0 - keep * (1.0 - height[cut] / height[0])
            if lost < best.lost:
                best = _Lowered(int(cut), lost, keep)
    return best
