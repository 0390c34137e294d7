"""The privacy loss of composed mechanisms, from both sides, by this checker's own arithmetic (THEORY.md 3.3).

A step draws each record with probability q and adds noise: P = (1-q) N(0, 1) + q N(s, 1) against Q = N(0, 1), or
against (1-q) N(0, 1) + q N(-s, 1) where a record is replaced; s = 1/noise multiplier. Let u = P/Q, x = ln u, and
C(g) = E_Q (u - g)^+. Pairs with a larger C everywhere are easier to tell apart, and that survives composition.

*Above*: the mass of a cell [x_k, x_l] goes to its ends so that P and Q keep their totals: the polygon through the
points of C. *Below*: the polygon is lowered until it lies under C. To the right of g = 1 it is multiplied by 1 - η;
to the left B(g) = E_Q (g - u)^+ becomes (1 - η)(B(g) - B(g_L)), 0 below g_L, so that both agree at 1. A chord lies
above the curve by at most (mass of the cell) (g_l - g_k)/4, which both must make up for. Masses are rigorous (Arb);
the Fourier transforms are trusted to 16 log₂N units of rounding in the 2-norm, and what they err by is added.
"""

import math
from collections import Counter
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import ball, lower, normal_above, upper
from pacdp.verify.claim import Unchecked

FAR = 46.0  # e^-46: what may lie outside a window, or beyond the cells of a step
_REACH = 11.5  # standard deviations of noise within the cells


def steps_of(event: dict[str, Any]) -> Counter[tuple[float, float]]:
    """How often each (sample rate, noise multiplier) ran."""
    inner, kind = event.get("inner"), event.get("event")
    if kind == "Gaussian":
        return Counter({(1.0, float(event["noise_multiplier"])): 1})
    if kind == "Composed":
        return sum((steps_of(part) for part in inner), Counter())
    if kind == "SelfComposed":
        return Counter({step: times * int(event["count"]) for step, times in steps_of(inner).items()})
    if kind == "PoissonSampled":
        within = steps_of(inner)
        if any(rate != 1.0 for rate, _ in within):
            raise Unchecked("a sample of a sample has no theorem here")
        noise = sum(times / sigma**2 for (_, sigma), times in within.items()) ** -0.5
        alone = len(within) == 1 and set(within.values()) == {1}
        return Counter({(float(event["sample_rate"]), next(iter(within))[1] if alone else noise * (1 - 1e-15)): 1})
    raise Unchecked(f"this checker composes no {kind} mechanisms")


class Atoms(NamedTuple):
    """One step on the grid: whole indices, masses under P and Q, and what lies at ±infinity."""

    index: np.ndarray
    p: np.ndarray
    q: np.ndarray
    at_infinity: float = 0.0
    at_zero: float = 0.0


def _spread(rate: float, noise: float, replaced: bool) -> float:
    z = np.linspace(-_REACH, _REACH + 1.0 / noise, 4001)
    up = np.log1p(rate * np.expm1(np.minimum(z / noise - 0.5 / noise**2, 600.0)))
    x = up - (np.log1p(rate * np.expm1(np.minimum(-z / noise - 0.5 / noise**2, 600.0))) if replaced else 0.0)
    weight = np.exp(-0.5 * z**2)
    return float(np.sqrt(np.sum(weight * x**2) / np.sum(weight)))


class _Curve:
    """Exact tails of one step at a loss x."""

    def __init__(self, rate: float, noise: float, replaced: bool) -> None:
        self.q, self.s, self.replaced = ball(rate), 1 / ball(noise), replaced

    def loss(self, z: float) -> float:
        """About x at noise z; a choice of ends only."""
        q, s = float(self.q), float(self.s)
        x = math.log1p(q * math.expm1(min(700.0, s * z - s * s / 2)))
        return x - math.log1p(q * math.expm1(min(700.0, -s * z - s * s / 2))) if self.replaced else x

    def tails(self, x: arb) -> tuple[arb, arb]:
        """P and Q of losses above x."""
        q, s, u = self.q, self.s, x.exp()
        shrink = (-s * s / 2).exp()
        if self.replaced:  # q c y² - (1-q)(u-1) y - q c u = 0 with y = e^(sz), c = e^(-s²/2)
            half = (1 - q) * (u - 1) / 2
            y = (half + (half**2 + (q * shrink) ** 2 * u).sqrt()) / (q * shrink)
        elif u <= 1 - q:
            return arb(1), arb(1)
        else:
            y = (u - (1 - q)) / (q * shrink)
        z = y.log() / s
        middle = normal_above(z)
        beside = (1 - q) * middle + q * normal_above(z + s) if self.replaced else middle
        return (1 - q) * middle + q * normal_above(z - s), beside


def atoms(
    rate: float, noise: float, *, replaced: bool, spacing: float, width: int, share: float
) -> tuple[Atoms, Atoms]:
    """A step that dominates this one, and one that it dominates; cells of ``width``, or a ``share`` of the loss."""
    curve = _Curve(rate, noise, replaced)
    ends = curve.loss(-_REACH - 1 / noise * replaced), curve.loss(_REACH + 1 / noise)
    index = [0]
    for sign, end in ((1, ends[1]), (-1, ends[0])):
        k = 0
        while sign * k * spacing < sign * end and abs(k) * spacing < 500:
            k += sign * max(width, int(abs(k) * share))
            index.append(k)
    index.sort()
    zero = index.index(0)
    g = [(ball(spacing) * k).exp() for k in index]
    p_above, q_above = (list(tails) for tails in zip(*(curve.tails(ball(spacing) * k) for k in index), strict=True))
    p, q, gaps = [arb(0)] * len(g), [arb(0)] * len(g), []
    for k in range(len(g) - 1):
        mass_p, mass_q = p_above[k] - p_above[k + 1], q_above[k] - q_above[k + 1]
        high = (mass_p / g[k] - mass_q) / (1 / g[k] - 1 / g[k + 1])  # of P, to the upper end
        low = mass_p - high
        gaps.append(mass_q * (g[k + 1] - g[k]) / 4)
        p[k], q[k] = p[k] + low, q[k] + low / g[k]
        p[k + 1], q[k + 1] = p[k + 1] + high, q[k + 1] + high / g[k + 1]
    under = 1 - p_above[0]  # of P, below all cells
    outer = Atoms(
        np.array(index), *(np.array([max(0.0, upper(m)) for m in masses]) for masses in (
            [p[0] + under, *p[1:-1], p[-1] + q_above[-1] * g[-1]], [q[0] + under / g[0], *q[1:-1], q[-1] + q_above[-1]])),
        max(0.0, upper(p_above[-1] - q_above[-1] * g[-1])), max(0.0, upper(1 - q_above[0] - under / g[0])),
    )  # fmt: skip
    rise = np.array([lower(p_above[k] - g[k] * q_above[k]) for k in range(zero, len(g))])
    fall = np.array([lower(g[k] * (1 - q_above[k]) - (1 - p_above[k])) for k in range(zero, -1, -1)])
    gap = np.array([upper(cell) for cell in gaps])
    weights = np.array([lower(mass) for mass in q])
    inner = np.zeros(len(g))
    cut_right, loss_right, keep_right = _lowered(rise, gap[zero:])
    cut_left, loss_left, keep_left = _lowered(fall, gap[:zero][::-1])
    both = 1.0 - max(loss_right, loss_left)  # of C(1) = B(1) is left on either side
    for cut, loss, keep, side in ((cut_right, loss_right, keep_right, 1), (cut_left, loss_left, keep_left, -1)):
        kept = keep * both / (1.0 - loss) * (1.0 - 1e-12)
        part = weights[zero:] if side > 0 else weights[zero::-1]
        place = inner[zero:] if side > 0 else inner[zero::-1]
        place[1:cut] = kept * part[1:cut]
        place[cut] = kept * part[cut:].sum()
    under_p = inner * np.array([lower(one) for one in g])
    middle = 1.0 - max(math.fsum(inner), math.fsum(under_p)) - 1e-12
    inner[zero] = under_p[zero] = max(0.0, middle)
    return outer, Atoms(np.array(index), under_p * (1.0 - 1e-15), inner)


def _lowered(height: np.ndarray, gap: np.ndarray) -> tuple[int, float, float]:
    """Where to cut one side, the share of its height at 1 that is lost, and 1 - η; ``height`` falls outward."""
    best = (1, 1.0, 0.0)
    for cut in np.unique(np.geomspace(1, len(gap), 200).astype(int)):
        if height[cut] <= 0.0:
            break
        eta = 1.001 * float(np.max(np.maximum(gap[:cut] - height[cut], 0.0) / height[1 : cut + 1]))
        lost = 1.0 - (1.0 - eta) * (1.0 - height[cut] / height[0])
        if eta < 1.0 and lost < best[1]:
            best = (int(cut), lost, 1.0 - eta)
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
        """A loss that P exceeds with probability at most e^(-far)."""
        return _edge(self.parts, self.x[1] - self.x[0], 1, far)

    def mean(self, weight: np.ndarray) -> tuple[float, float]:
        """Σ weight · mass from both sides, for weights of at least 0, without what lies at infinity."""
        noise = self.error * float(np.linalg.norm(weight))
        far = 4.0 * math.exp(-FAR) * float(weight.max())
        low = float(self.below @ weight) * (1.0 - 1e-12) - noise - far
        return max(0.0, low), float(self.above @ weight) * (1.0 + 1e-12) + noise + far

    def stick(self, epsilon: float, *, added: bool = False) -> tuple[float, float]:
        """δ(ε): the mass of P above e^ε Q, or, where the record is added, of Q above e^ε P."""
        x, beyond = (-self.x, self.at_zero) if added else (self.x, self.at_infinity)
        low, high = self.mean(np.where(x > epsilon, -np.expm1(np.minimum(0.0, epsilon - x)), 0.0))
        return low, high + beyond


@lru_cache(maxsize=8)
def compose(ran: frozenset[tuple[tuple[float, float], int]], replaced: bool, resolution: float) -> Loss:
    """All steps one after another; the grid is ``resolution`` standard deviations of the least loss of a step."""
    steps = dict(ran)
    spreads = {step: _spread(*step, replaced) for step in steps}
    spacing = resolution * min(spreads.values())
    pairs = {
        step: atoms(*step, replaced=replaced, spacing=spacing, share=resolution / 4,
                    width=max(1, int(resolution * spread / spacing)))
        for step, spread in spreads.items()
    }  # fmt: skip
    outer = [(pair[0], steps[step]) for step, pair in pairs.items()]
    high, low = _edge(outer, spacing, 1, FAR), _edge(outer, spacing, -1, FAR)
    size = 1 << math.ceil(math.log2((high - low) / spacing + 2))
    if size > 1 << 22:
        raise Unchecked(f"the distribution needs {size} points")
    start = math.floor(low / spacing)
    x = spacing * (start + np.arange(size))
    laws, errors = [], []
    for which in (0, 1):
        halves = []
        for masses in ("p", "q"):
            law, error = _convolved([(pair[which].index, getattr(pair[which], masses), steps[step])
                                     for step, pair in pairs.items()], size)  # fmt: skip
            halves.append(np.roll(law, -start))
            errors.append(error)
        laws.append(np.where(x >= 0.0, *halves))
    return Loss(x, *laws, math.hypot(*errors), *(
        -math.expm1(sum(times * math.log1p(-getattr(one, name)) for one, times in outer)) * (1 + 1e-9)
        for name in ("at_infinity", "at_zero")
    ), outer)  # fmt: skip


def _edge(parts: list[tuple[Atoms, int]], spacing: float, side: int, far: float) -> float:
    """A loss beyond which e^(-far) of P (or, on the other side, of Q) lies, by Chernoff's bound."""
    best = math.inf
    for theta in np.geomspace(1e-2, 1e6, 160):
        growth = 0.0
        for one, times in parts:
            mass, x = (one.p if side > 0 else one.q), side * theta * spacing * one.index
            x, mass = x[mass > 0], mass[mass > 0]
            growth += times * (x.max() + math.log(float(np.sum(mass * np.exp(x - x.max())))))
        best = min(best, (growth + far) / theta)
    return side * best * (1.0 + 1e-9)


def _convolved(parts: list[tuple[np.ndarray, np.ndarray, int]], size: int) -> tuple[np.ndarray, float]:
    """The law of the sum on a circle, and how far rounding moves it in the 2-norm."""
    spectrum, rounding = np.ones(size // 2 + 1, dtype=np.complex128), 0.0
    for index, mass, times in parts:
        single = np.zeros(size)
        np.add.at(single, index % size, mass)
        factor, left = np.fft.rfft(single), times
        rounding += times * 16.0 * math.log2(size) * float(np.linalg.norm(single))
        while left:  # by squaring
            if left & 1:
                spectrum = spectrum * factor
            factor, left = factor * factor, left >> 1
    law = np.fft.irfft(spectrum, size)
    steps = sum(times for _, _, times in parts)
    rounding += (16.0 * math.log2(size) + 4.0 * steps) * float(np.linalg.norm(law))
    return law, 2.0**-53 * rounding * 1.01
