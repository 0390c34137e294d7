"""The privacy loss of composed mechanisms, from both sides, by this checker's own arithmetic (THEORY.md 3.3).

A step draws each record with probability q and adds noise: P = (1-q) N(0, 1) + q N(s, 1) against Q = N(0, 1), or
against (1-q) N(0, 1) + q N(-s, 1) where a record is replaced; s = 1/noise multiplier. A pure mechanism on the same
records is randomised response beside the noise (Kairouz, Oh and Viswanath 2015): e^(sz - s²/2) becomes e^(±ε + ...).
Let u = P/Q, x = ln u, and C(g) = E_Q (u - g)^+. Pairs with a larger C everywhere are easier to tell apart, and that
survives composition.

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
from pacdp.verify.claim import Unchecked, Wrong

FAR = 46.0  # e^-46: what may lie outside a window
_REACH = 11.5  # standard deviations of noise within the cells
SECONDS = 10.0
"""For one question to a distribution."""
_DUST = 4e-12  # more than rounding can move the mass of one step
_MOST = 6  # pure mechanisms on one sample


class Step(NamedTuple):
    """Noise, and pure mechanisms, on one sample of the records; noise 0 is no protection, infinity no release."""

    rate: float
    noise: float
    epsilons: tuple[float, ...] = ()

    def responses(self) -> list[tuple[arb, arb]]:
        """What the pure mechanisms add to the loss, and how probable that is without the record."""
        found = [(arb(0), arb(1))]
        for one in self.epsilons:
            yes = 1 / (1 + ball(one).exp())
            found = [(r + sign * ball(one), p * each) for r, p in found for sign, each in ((1, yes), (-1, 1 - yes))]
        return found


def steps_of(event: Any, replaced: bool = False, rate: float = 1.0) -> Counter[Step]:
    """How often each step ran; a sample of a sample is one at the product of their rates."""
    kind, inner = event["event"], event.get("inner")
    if kind == "PoissonSampled":
        return steps_of(inner, replaced, rate * event["sample_rate"])
    if kind == "NonPrivate":
        return Counter({Step(rate, 0.0): 1})
    if kind == "SelfComposed" and rate == 1.0:
        return Counter({step: times * int(event["count"]) for step, times in steps_of(inner, replaced).items()})
    if kind == "Composed" and rate == 1.0:
        return sum((steps_of(part, replaced) for part in inner), Counter())
    noises, epsilons = _together(event, replaced)
    if rate < 1.0 and (len(epsilons) > _MOST or (replaced and epsilons)):
        raise Unchecked(f"no theorem here covers {len(epsilons)} pure mechanisms on a sample of these neighbours")
    noise = noises[0] if len(noises) == 1 else math.fsum(one**-2 for one in noises) ** -0.5 if noises else math.inf
    return Counter({Step(rate, noise, tuple(sorted(epsilons))): 1})


def _together(event: Any, replaced: bool) -> tuple[list[float], list[float]]:
    """Noise multipliers and epsilons of what runs on the same records."""
    match event["event"]:
        case "Gaussian":
            return [float(event["noise_multiplier"])], []
        case "ExponentialMechanism" if replaced or event["adjacency"] == "add-remove":
            return [], [float(event["epsilon"]) * (2 if event["adjacency"] == "add-remove" and replaced else 1)]
        case "Composed" | "SelfComposed" as kind:
            parts = event["inner"] if kind == "Composed" else [event["inner"]] * int(event["count"])
            found = [_together(part, replaced) for part in parts]
            return [one for noises, _ in found for one in noises], [one for _, pure in found for one in pure]
        case kind:
            raise Unchecked(f"this checker composes no {kind} of these neighbours on one sample")


class Atoms(NamedTuple):
    """One step on the grid: whole indices, masses under P and Q, and what lies at ±infinity."""

    places: np.ndarray
    p: np.ndarray
    q: np.ndarray
    at_infinity: float = 0.0
    at_zero: float = 0.0


def _about(z: np.ndarray, step: Step, replaced: bool, response: Any = 0.0) -> np.ndarray:
    """The loss at noise z, in doubles: it decides where cells begin and end, and how wide they are."""
    own, shift = (0.0, response) if replaced else (response, 0.0)
    inner = (np.minimum(own + t / step.noise - 0.5 / step.noise**2, 600.0) for t in (z, -z))
    up, down = (np.log1p(step.rate * np.expm1(one)) for one in inner)
    return up - down + shift if replaced else up


def _spread(step: Step, replaced: bool) -> float:
    z = np.linspace(-_REACH, _REACH + 1.0 / step.noise, 4001)
    weight = np.exp(-0.5 * z**2)
    square = sum(float(p) * _about(z, step, replaced, float(r)) ** 2 for r, p in step.responses())
    return float(np.sqrt(np.sum(weight * square) / np.sum(weight)))


def _tails(x: arb, step: Step, replaced: bool) -> tuple[arb, arb]:
    """P and Q of losses above x."""
    q, s = ball(step.rate), arb(0) if step.noise == math.inf else 1 / ball(step.noise)
    above, beside = arb(0), arb(0)
    for r, p in step.responses():  # u = 1-q + q e^r c y with y = e^(sz), or e^r (1-q + q c y) / (1-q + q c/y)
        inside, outside = (arb(1), r.exp()) if replaced else (r.exp(), arb(1))
        u, c = x.exp() / outside, (-s * s / 2).exp() * inside
        if s == 0 or (not replaced and u <= 1 - q):
            tails = [arb(int(s != 0 or 1 - q + q * inside > u))] * 3
        else:
            half = (1 - q) * (u - 1) / 2  # q c y² - (1-q)(u-1) y = q c u
            y = (half + (half**2 + (q * c) ** 2 * u).sqrt() if replaced else u - (1 - q)) / (q * c)
            tails = [normal_above(y.log() / s + shift) for shift in (0, -s, s)]
        none, more, less = tails
        above += p * outside * ((1 - q) * none + q * inside * more)
        beside += p * ((1 - q) * none + q * less if replaced else none)
    return above, beside


@lru_cache(maxsize=256)  # runs that differ in one step share all others
def atoms(step: Step, replaced: bool, spacing: float, width: int, share: float) -> tuple[Atoms, Atoms]:
    """A step that dominates this one, and one that it dominates; cells of ``width``, or a ``share`` of the loss."""
    far = np.array([-_REACH, _REACH]) + np.array([-1.0 if replaced else 0.0, 1.0]) / step.noise
    ends = _about(far, step, replaced, np.array([-1.0, 1.0]) * sum(step.epsilons))
    index = [0]
    for sign, end in zip((-1, 1), ends, strict=True):
        k = 0
        while sign * k * spacing < min(500.0, sign * end):
            k += sign * max(width, int(abs(k) * share))
            index.append(k)
    index.sort()
    zero, last = index.index(0), len(index) - 1
    g = [(ball(spacing) * k).exp() for k in index]
    above = [_tails(ball(spacing) * k, step, replaced) for k in index]
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
    q[0], q[-1] = q[0] + beyond[1], q[-1] + above[-1][1]  # whatever lies farther out
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


def finer(steps: Counter[Step], replaced: bool) -> Iterator["Loss"]:
    """What ran, composed on finer and finer grids as long as there is time."""
    end, ran = time.monotonic() + SECONDS, frozenset(steps.items())
    yield from (compose(ran, replaced, grid) for grid in (0.04, 0.013, 0.004) if grid == 0.04 or time.monotonic() < end)


def chosen_on_samples(steps: Counter[Step]) -> bool:
    """Whether a choice was made on a sample: the step is then that of add-remove neighbours, whichever are asked of."""
    return any(one.epsilons and one.rate < 1.0 for one in steps)


def private(steps: Counter[Step], epsilon: float, delta: float, replaced: bool) -> bool | None:
    """Whether what ran is (epsilon, delta)-private in both directions, or at 1.0005 epsilon; None where undecided.

    A choice on a sample has no theorem for replaced records; these are two steps of one record more or less.
    """
    if replaced and chosen_on_samples(steps):
        half = epsilon / 2.0
        return private(steps, half, delta / (1.0 + math.exp(half)), replaced=False)
    for made in finer(steps, replaced):
        if max(made.stick(epsilon * 1.0005, added=added)[1] for added in (False, True)) <= delta:
            return True
        if max(made.stick(epsilon, added=added)[0] for added in (False, True)) > delta:
            return False
    return None


@lru_cache(maxsize=8)
def compose(ran: frozenset[tuple[Step, int]], replaced: bool, resolution: float) -> Loss:
    """All steps one after another; the grid is ``resolution`` standard deviations of the least loss of a step."""
    if any(step.noise == 0.0 for step, _ in ran):
        raise Wrong("a mechanism without any protection ran")
    spreads = [_spread(step, replaced) for step, _ in ran]
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
