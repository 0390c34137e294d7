"""What takes the place of ln(1/δ) where a private mechanism made the prior (THEORY.md 2.3, 3.1 to 3.5).

Pure privacy has closed forms. Otherwise Λ = n (a + H/δ₂) + α/(α-1) ln(1/δ₁), where x = ln(P/Q) is the loss of one
record, ζ(x) = (e^((α-1)x) - 1)/(α-1) + e^(-x) - 1 and H = E_P (ζ(x) - a)^+, at the α and a that the claim names. Where
x may be infinite, or its law goes on for ever, f(u) = u (ζ(ln u) - a)^+ goes on beyond e^A along its tangent, and δ₃
pays n P(x > A - t)/(1 - e^(-t)) ("Losses without a bound" in docs/guarantees.md). Below e = α - 1.
"""

import math
from bisect import bisect_left

import numpy as np
from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify import formulas_noisy, loss
from pacdp.verify.arithmetic import Real, ball, lower, normal_above, upper, zero_of
from pacdp.verify.claim import Claim, Unchecked, Wrong, about, agree, number

PREFIXES = ("", "dp_", "max_information_", "printed_2018_", "private_", *formulas_noisy.PREFIXES)
_SPLIT = {"transfer_prob": "transfer", "privacy_tail_prob": "privacy tail", "unbounded_prob": "unbounded privacy loss"}
"""The terms that tell how δ is divided, and the entries of the budget that do where there are no such terms."""
_NONE = arb(0)


def check_price(c: Claim, prefix: str, what: str, claimed: Real, n: int, delta: arb, suffix: str = "") -> None:
    """Raise unless ``claimed`` nats pay for a prior of this kind on n records at failure probability ``delta``."""
    log = -delta.log()
    match prefix:
        case "private_":
            return _accounted(c, what, claimed, n, delta, suffix)
        case _ if prefix in formulas_noisy.PREFIXES:
            return formulas_noisy.check(c, prefix, what, claimed, n, delta, suffix)
        case "":
            nats = log
        case "dp_":
            nats = _sharp(c["epsilon"], n, log)
        case "max_information_":
            e = c["epsilon"]
            nats = arb(2).log() + log + n * e**2 / 2 + e * (n * (arb(4).log() + log) / 2).sqrt()
        case _:
            nats = 2 * (arb(3).log() + log).max(n * c["epsilon"] ** 2)
    return agree(what, claimed, nats)


def _sharp(epsilon: arb, n: int, log: arb) -> arb:
    return (log.sqrt() + epsilon * (arb(n) / 8).sqrt()) ** 2


def _accounted(c: Claim, what: str, claimed: Real, n: int, delta: arb, suffix: str) -> None:
    notion, added = c.raw("privacy_notion"), c.raw("privacy_adjacency") == "add-remove"
    alpha, level = (number(c.terms[name + suffix]) for name in ("transfer_alpha", "transfer_level"))
    terms = {name: number(c.terms[name + suffix]) for name in _SPLIT if name + suffix in c.terms}
    if "transfer" in c.budget:
        budget = {name: number(c.budget[entry]) for name, entry in _SPLIT.items() if entry in c.budget}
        if terms not in ({}, budget):
            raise Wrong(f"the budget and the terms divide the failure probability differently, {budget} and {terms}")
        terms = budget
    if not terms:
        raise Unchecked("how the failure probability of the transfer was divided is not in the file")
    first, second, third = (ball(terms.get(name, 0.0)) for name in _SPLIT)
    about("the parts of the transfer's failure probability", float(first + second + third), delta)
    if c.event and notion == "gaussian":
        steps = loss.steps_of(c.event, not added)
        if any(step.rate < 1 or step.epsilons for step in steps):
            raise Wrong("what ran is no Gaussian mechanism on all records")
        precision = sum((times / ball(step.noise) ** 2 for step, times in steps.items()), _NONE)
        agree("inputs.privacy_mu", c.raw("privacy_mu"), precision.sqrt() * (1 if added else 2))
    if notion == "pure" or (notion == "approximate" and c["privacy_delta"] == 0):
        epsilon = c["privacy_epsilon"] * (2 if added else 1)
        if epsilon > 0 and epsilon.is_finite():
            order = 1 + (-delta.log() / n).sqrt() / epsilon * arb(8).sqrt()
            about("terms.transfer_alpha", alpha, order)
            about("terms.transfer_level", level, order * epsilon**2 / 8)
        return agree(what, claimed, _sharp(epsilon, n, -delta.log()))
    if alpha == math.inf and max(float(c[f"privacy_{x}"]) for x in ("mu", "rho") if f"privacy_{x}" in c.inputs) == 0:
        return agree(what, claimed, -delta.log())
    if claimed == math.inf or not (1 < alpha < math.inf and 0 <= level < math.inf):
        return agree(what, claimed, arb("inf"))
    e, a = ball(alpha) - 1, ball(level)
    match notion:
        case "gaussian":
            h = _gaussian(c["privacy_mu"].max(arb(1e-12)), e, a)
        case "zero-concentrated":
            h = _concentrated(c["privacy_rho"].max(arb(1e-24)), e, a)
        case "approximate":
            h = _approximate(c["privacy_epsilon"], c["privacy_delta"], e, a, n, third)
        case _:
            return _distribution(c, what, claimed, n, e, a, (first, second, third))
    return agree(what, claimed, _bill(n, e, a, h, first, second), relative=1e-6)


def _bill(n: int, e: arb, a: arb, h: arb, first: arb, second: arb) -> arb:
    return n * (a + h / second) - (1 + e) / e * first.log()


def _zeta(e: arb, x: arb) -> arb:
    return (e * x).expm1() / e + (-x).expm1()


def _threshold(e: arb, a: arb, side: int) -> arb:
    """The distance from 0 at which ζ reaches a, to the right (side 1) or to the left (-1)."""
    far = next(2.0**k for k in range(64) if _zeta(e, side * arb(2.0**k)) > a)
    return zero_of(lambda t: _zeta(e, side * t) - a, 0, far)


def _gaussian(mu: arb, e: arb, a: arb) -> arb:
    """x ~ N(mu²/2, mu²): E[e^(tx); x > c] = e^(t(t+1)mu²/2) P(N(0, 1) > c/mu - (1/2 + t) mu)."""
    h = _NONE
    for side in (1, -1):
        start = _threshold(e, a, side)
        rise, none, fall = ((t * (t + 1) * mu**2 / 2).exp() * normal_above(start / mu - side * (arb(0.5) + t) * mu)
                            for t in (e, _NONE, arb(-1)))  # fmt: skip
        h += (rise - none) / e + fall - (1 + a) * none
    return h


def _concentrated(rho: arb, e: arb, a: arb) -> arb:
    """From P(x > t), Q(x < -t) ≤ τ(t) = e^(-(t-ρ)²/(4ρ)) beyond ρ, by parts."""

    def integral(rate: arb, start: arb) -> arb:  # of e^(rate t) τ(t) from start on
        tail = normal_above((start - rho - 2 * rho * rate) / (2 * rho).sqrt())
        return (4 * arb.pi() * rho).sqrt() * (rate * rho + rate**2 * rho).exp() * tail

    right, left = _threshold(e, a, 1), _threshold(e, a, -1)
    flat = (_zeta(e, rho) - a).max(_NONE) if right < rho else _NONE
    steep = ((-rho).exp() * (_zeta(e, -rho) - a)).max(_NONE) if left < rho else _NONE
    above = integral(e, right.max(rho)) - integral(arb(-1), right.max(rho))
    below = (1 + a + 1 / e) * integral(arb(-1), left.max(rho)) - (1 + e) / e * integral(-1 - e, left.max(rho))
    return flat + above + steep + below


def _slope(e: arb, a: arb, cutoff: arb) -> arb:
    return ((1 + e) / e * (e * cutoff).exp() - 1 / e - 1 - a).max(_NONE)


def _approximate(epsilon: arb, delta: arb, e: arb, a: arb, n: int, third: arb) -> arb:
    """Losses ±epsilon, and delta at ±infinity; what is spent on it tells how far beyond epsilon f was cut off."""
    if not third > n * delta:
        raise Wrong("the failure probability does not pay for losses without a bound")
    cutoff = epsilon - (1 - n * delta / third).log()
    parts = (_zeta(e, epsilon) - a).max(_NONE) + (-epsilon).exp() * (_zeta(e, -epsilon) - a).max(_NONE)
    return (1 - delta) / (1 + (-epsilon).exp()) * parts + delta * (1 + _slope(e, a, cutoff))


def _distribution(c: Claim, what: str, claimed: Real, n: int, e: arb, a: arb, split: tuple[arb, arb, arb]) -> None:
    """Composed mechanisms: Λ between two numbers, on finer and finer grids, until they decide."""
    if not c.event:
        raise Unchecked("the mechanisms behind the distribution of privacy losses are not in the file")
    replaced, least, most = c.raw("privacy_adjacency") == "replace-one", _NONE, arb("inf")
    for made in loss.finer(loss.steps_of(c.event, replaced), replaced):
        ends = [_bill(n, e, a, arb(h), *split[:2]) for h in _excess(made, float(e), float(a), lower(split[2]) / n)]
        least, most = least.max(ends[0]), most.min(ends[1])
        if ball(claimed) >= most:
            return
        if ball(claimed) < least:
            raise Wrong(f"{what} is {claimed!r}, and what ran costs {float(least):.9g} or more")
    raise Unchecked(f"{what} is {claimed!r}, and what ran costs between {float(least):.9g} and {float(most):.9g}")


def _excess(made: loss.Loss, e: float, a: float, spent: float) -> tuple[float, float]:
    """H from both sides, at t = 1 with ``spent`` = δ₃/n."""
    x, tail = made.x, spent * -math.expm1(-1.0) - made.at_infinity
    if not tail > 0.0:
        raise Unchecked("the failure probability does not pay for losses without a bound")
    cutoff = 1.0 + made.reach(-math.log(tail))
    points = np.linspace(0.0, x[-1], 200)
    near = points[max(0, bisect_left(points, True, key=lambda s: made.stick(s)[0] <= spent) - 1)]  # A is not below
    rising, falling = np.expm1(e * np.minimum(x, 600 / e)) / e, np.expm1(-np.maximum(x, -600.0))
    error = (16.0 + np.abs(x)) * 2.0**-52 * (np.abs(rising) + np.abs(falling))
    excess = np.maximum(rising + falling + error - a, 0.0) * np.exp(np.minimum(x, 0.0))
    slope = upper(_slope(ball(e), ball(a), ball(cutoff)))
    high = made.mean(np.where(x > cutoff, slope, excess))[1] + (made.at_infinity + math.exp(-loss.FAR)) * slope
    capped = np.where(x > near, np.minimum(excess, excess[max(0, np.searchsorted(x, near) - 1)]), excess)
    return made.mean(np.maximum(capped * (1.0 - 1e-12) - 2 * error, 0.0))[0], high + made.at_zero
