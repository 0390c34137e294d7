"""The privacy loss of composed mechanisms, from both sides, by this checker's own arithmetic (THEORY.md 3.3).

A step draws each record with probability q and adds noise: P = (1-q) N(0, 1) + q N(s, 1) against Q = N(0, 1), or
against (1-q) N(0, 1) + q N(-s, 1) where a record is replaced; s = 1/noise multiplier. Let u = P/Q, x = ln u, and
C(g) = E_Q (u - g)^+. Pairs with a larger C everywhere are easier to tell apart, and that survives composition.

*Above*: the mass of a cell [x_k, x_l] goes to its ends so that P and Q keep their totals: the polygon through the
points of C. *Below*: the polygon is lowered until it lies under C. Right of g = 1 it becomes (1-η)(C(g) - C(g_U)), 0
beyond g_U; left of it likewise with B(g) = E_Q (g - u)^+ and g_L; what is left at 1 must agree. A chord lies above the
curve by at most (mass of the cell) (g_l - g_k)/4. Masses are rigorous (Arb). The Fourier transforms are trusted to
16 log₂N units of rounding in the 2-norm, which are propagated and added.
"""

import math
import time
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import ball, lower, normal_above, upper
from pacdp.verify.claim import Unchecked

FAR = 46.0  # e^-46: what may lie outside a window
_REACH = 11.5  # standard deviations of noise within the cells
SECONDS = 10.0
"""For one question to a distribution."""
_DUST = 4e-12  # more than rounding can move the mass of one step


def steps_of(event: dict[str, Any]) -> Counter[tuple[float, float]]:
    """How often each (sample rate, noise multiplier) ran."""
    inner: Any = event.get("inner")
    kind = event.get("event")
    if kind == "Gaussian":
        return Counter({(1.0, float(event["noise_multiplier"])): 1})
    if kind == "Composed":
        return sum((steps_of(part) for part in inner), Counter())
    if kind == "SelfComposed":
        return Counter({step: times * int(event["count"]) for step, times in steps_of(inner).items()})
    if kind == "PoissonSampled" and inner.get("event") == "Gaussian":
        return Counter({(float(event["sample_rate"]), float(inner["noise_multiplier"])): 1})
    raise Unchecked(f"this checker composes no {kind} of {(inner or {}).get('event')}")


class Atoms(NamedTuple):
    """One step on the grid: whole indices, masses under P and Q, and what lies at ±infinity."""

    places: np.ndarray
    p: np.ndarray
    q: np.ndarray
    at_infinity: float = 0.0
    at_zero: float = 0.0


def _about(z: np.ndarray, rate: float, noise: float, replaced: bool) -> np.ndarray:
    """The loss at noise z, in doubles: it decides where cells begin and end, and how wide they are."""
    up, down = (np.log1p(rate * np.expm1(np.minimum(t / noise - 0.5 / noise**2, 600.0))) for t in (z, -z))
    return up - down if replaced else up


def _spread(rate: float, noise: float, replaced: bool) -> float:
    z = np.linspace(-_REACH, _REACH + 1.0 / noise, 4001)
    weight = np.exp(-0.5 * z**2)
    return float(np.sqrt(np.sum(weight * _about(z, rate, noise, replaced) ** 2) / np.sum(weight)))


def _tails(x: arb, q: arb, s: arb, replaced: bool) -> tuple[arb, arb]:
    """P and Q of losses above x."""
    u, c = x.exp(), (-s * s / 2).exp()
    if not replaced and u <= 1 - q:
        return arb(1), arb(1)
    half = (1 - q) * (u - 1) / 2  # with y = e^(sz): u = 1-q + q c y, or q c y² - (1-q)(u-1) y = q c u
    y = (half + (half**2 + (q * c) ** 2 * u).sqrt() if replaced else u - (1 - q)) / (q * c)
    z = y.log() / s
    none = normal_above(z)
    return (1 - q) * none + q * normal_above(z - s), (1 - q) * none + q * normal_above(z + s) if replaced else none


def atoms(step: tuple[float, float], replaced: bool, spacing: float, width: int, share: float) -> tuple[Atoms, Atoms]:
    """A step that dominates this one, and one that it dominates; cells of ``width``, or a ``share`` of the loss."""
    ends = _about(np.array([-_REACH, _REACH]) + np.array([-1.0 if replaced else 0.0, 1.0]) / step[1], *step, replaced)
    index = [0]
    for sign, end in zip((-1, 1), ends, strict=True):
        k = 0
        while sign * k * spacing < min(500.0, sign * end):
            k += sign * max(width, int(abs(k) * share))
            index.append(k)
    index.sort()
    zero, last = index.index(0), len(index) - 1
    g = [(ball(spacing) * k).exp() for k in index]
    above = [_tails(ball(spacing) * k, ball(step[0]), 1 / ball(step[1]), replaced) for k in index]
    p, q, gap = [1 - above[0][0]], [(1 - above[0][0]) / g[0]], []  # what lies below all cells, at the first point
    for k in range(last):
        mass_p, mass_q = (one - other for one, other in zip(above[k], above[k + 1], strict=True))
        high = (mass_p / g[k] - mass_q) / (1 / g[k] - 1 / g[k + 1])  # of P, to the upper end
        p, q = [*p[:-1], p[-1] + mass_p - high, high], [*q[:-1], q[-1] + (mass_p - high) / g[k], high / g[k + 1]]
        gap.append(upper(mass_q * (g[k + 1] - g[k]) / 4))
    outer = [np.array([max(0.0, upper(m)) for m in masses]) for masses in (
        [*p[:-1], p[-1] + above[-1][1] * g[-1]], [*q[:-1], q[-1] + above[-1][1]])]  # fmt: skip
    beyond = above[-1][0] - above[-1][1] * g[-1], 1 - above[0][1] - (1 - above[0][0]) / g[0]
    # the same pair, lowered
    rise = np.array([lower(above[k][0] - g[k] * above[k][1]) for k in range(zero, last + 1)])
    fall = np.array([lower(g[k] * (1 - above[k][1]) - (1 - above[k][0])) for k in range(zero, -1, -1)])
    right, left = _lowered(rise, np.array(gap[zero:])), _lowered(fall, np.array(gap[:zero][::-1]))
    weights, inner = np.array([lower(mass) for mass in q]), np.zeros(last + 1)
    for (cut, loss, keep), side in ((right, slice(zero, None)), (left, slice(zero, None, -1))):
        kept = keep * (1.0 - max(right[1], left[1])) / (1.0 - loss) * (1.0 - _DUST / 4)
        inner[side][1:cut], inner[side][cut] = kept * weights[side][1:cut], kept * weights[side][cut:].sum()
    under = inner * np.array([lower(one) for one in g])
    inner[zero] = under[zero] = max(0.0, 1.0 - max(math.fsum(inner), math.fsum(under)) - _DUST)
    ends = [max(0.0, upper(one)) for one in beyond]
    return Atoms(np.array(index), *outer, *ends), Atoms(np.array(index), under, inner)  # pyright: ignore


def _lowered(height: np.ndarray, gap: np.ndarray) -> tuple[int, float, float]:
    """Where to cut one side, the share of its height at 1 that is lost, and 1 - η; ``height`` falls outward."""
    best = (1, 1.0, 0.0)
    for cut in np.unique(np.geomspace(1, len(gap), 200).astype(int)):
        if height[cut] > 0.0:
            eta = 1.001 * float(np.max(np.maximum(gap[:cut] - height[cut], 0.0) / height[1 : cut + 1]))
            lost = 1.0 - (1.0 - eta) * (1.0 - height[cut] / height[0])
            best = min(best, (int(cut), lost, 1.0 - eta), key=lambda one: one[1])
    return best


class Loss(NamedTuple):
    """A composed loss on a grid: masses of P where x ≥ 0 and of Q where x < 0, from above and from below."""

    x: np.ndarray
    above: np.ndarray
    below: np.ndarray
    error: float  # of either, in the 2-norm
    at_infinity: float
    at_zero: float
    parts: list[tuple[Atoms, int]]

    def reach(self, far: float) -> float:
        """A loss that P exceeds with probability at most e^(-far), but for what lies at infinity."""
        return _edge(self.parts, self.x[1] - self.x[0], 1, far)

    def mean(self, weight: np.ndarray) -> tuple[float, float]:
        """Σ weight · mass from both sides, for weights of at least 0, without what lies at infinity."""
        noise = self.error * float(np.linalg.norm(weight)) + 4.0 * math.exp(-FAR) * float(weight.max())
        low, high = (float(masses @ weight) for masses in (self.below, self.above))
        return max(0.0, low * (1.0 - 1e-12) - noise), high * (1.0 + 1e-12) + noise

    def stick(self, epsilon: float, *, added: bool = False) -> tuple[float, float]:
        """δ(ε): the mass of P above e^ε Q, or, where the record is added, of Q above e^ε P."""
        x, beyond = (-self.x, self.at_zero) if added else (self.x, self.at_infinity)
        low, high = self.mean(np.where(x > epsilon, -np.expm1(np.minimum(0.0, epsilon - x)), 0.0))
        return low, high + beyond


def resolutions() -> Iterator[float]:
    """Finer and finer grids, as long as there is time."""
    end, grids = time.monotonic() + SECONDS, (0.04, 0.013, 0.004)
    yield from (grid for grid in grids if grid == grids[0] or time.monotonic() < end)


@lru_cache(maxsize=8)
def compose(ran: frozenset[tuple[tuple[float, float], int]], replaced: bool, resolution: float) -> Loss:
    """All steps one after another; the grid is ``resolution`` standard deviations of the least loss of a step."""
    spreads = [_spread(*step, replaced) for step, _ in ran]
    spacing = resolution * min(spreads)
    pairs = [
        (atoms(step, replaced, spacing, max(1, int(resolution * spread / spacing)), resolution / 4), times)
        for (step, times), spread in zip(ran, spreads, strict=True)
    ]
    outer = [(pair[0], times) for pair, times in pairs]
    high, low = _edge(outer, spacing, 1, FAR), _edge(outer, spacing, -1, FAR)
    size = 1 << math.ceil(math.log2((high - low) / spacing + 2))
    if size > 1 << 22:
        raise Unchecked(f"the distribution needs {size} points")
    start = math.floor(low / spacing)
    x = spacing * (start + np.arange(size))
    sides = [[(pair[side], times) for pair, times in pairs] for side in (0, 1)]
    found = [[_convolved(parts, law, size) for law in ("p", "q")] for parts in sides]
    laws = [np.where(x >= 0.0, *(np.roll(law, -start) for law, _ in halves)) for halves in found]
    error = math.hypot(*(error for halves in found for _, error in halves))
    none = [sum(times * math.log1p(-getattr(one, end)) for one, times in outer) for end in ("at_infinity", "at_zero")]
    ends = [-math.expm1(one) * (1 + 1e-9) for one in none]
    return Loss(x, laws[0], laws[1], error, ends[0], ends[1], outer)


def _edge(parts: list[tuple[Atoms, int]], spacing: float, side: int, far: float) -> float:
    """A loss beyond which e^(-far) of P (or, on the other side, of Q) lies, by Chernoff's bound."""
    best = math.inf
    for theta in np.geomspace(1e-2, 1e6, 160):
        growth = 0.0
        for one, times in parts:
            mass, x = (one.p if side > 0 else one.q), side * theta * spacing * one.places
            x, mass = x[mass > 0], mass[mass > 0]
            growth += times * (x.max() + math.log(float(np.sum(mass * np.exp(x - x.max())))))
        best = min(best, (growth + far) / theta)
    return side * best * (1.0 + 1e-9)


def _convolved(parts: list[tuple[Atoms, int]], law: str, size: int) -> tuple[np.ndarray, float]:
    """The sum's law on a circle, under P or Q, and how far rounding moves it in the 2-norm."""
    spectrum, rounding, steps = np.ones(size // 2 + 1, dtype=np.complex128), 0.0, sum(times for _, times in parts)
    for one, times in parts:
        single = np.zeros(size)
        np.add.at(single, one.places % size, getattr(one, law))
        factor, left = np.fft.rfft(single), times
        rounding += times * 16.0 * math.log2(size) * float(np.linalg.norm(single))
        while left:  # by squaring
            spectrum = spectrum * factor if left & 1 else spectrum
            factor, left = factor * factor, left >> 1
    found = np.fft.irfft(spectrum, size)
    rounding += (16.0 * math.log2(size) + 4.0 * steps) * float(np.linalg.norm(found))
    return found, 2.0**-53 * rounding * 1.01
