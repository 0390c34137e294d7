"""What takes the place of ln(1/δ) where a private mechanism made the prior (THEORY.md 2.3, 3.1 to 3.5).

Pure privacy has closed forms. Otherwise Λ = n (a + H/δ₂) + α/(α-1) ln(1/δ₁), where x = ln(P/Q) is the loss of one
record, ζ(x) = (e^((α-1)x) - 1)/(α-1) + e^(-x) - 1 and H = E_P (ζ(x) - a)^+, at the α and a that the claim names.
"""

import math
import time
from typing import Any

import numpy as np
from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify import loss
from pacdp.verify.arithmetic import ball, lower, normal_above, upper, zero_of
from pacdp.verify.claim import Claim, Unchecked, Wrong, about, agree, number

PREFIXES = ("", "dp_", "max_information_", "printed_2018_", "private_")
_SPLIT = {"transfer": "transfer_prob", "privacy tail": "privacy_tail_prob", "unbounded privacy loss": "unbounded_prob"}
"""How δ is divided: entries of the budget, or, where that is merged with others, terms."""
SECONDS = 10.0
"""For one distribution of privacy losses."""


def check_price(c: Claim, prefix: str, what: str, claimed: float, n: int, delta: arb, suffix: str = "") -> None:
    """Raise unless ``claimed`` nats pay for a prior of this kind on n records at failure probability ``delta``."""
    log = -delta.log()
    if prefix == "private_":
        return _accounted(c, what, claimed, n, delta, suffix)
    if prefix == "":
        nats = log
    elif prefix == "dp_":
        nats = _sharp(c["epsilon"], n, log)
    elif prefix == "max_information_":
        e = c["epsilon"]
        nats = arb(2).log() + log + n * e**2 / 2 + e * (n * (arb(4).log() + log) / 2).sqrt()
    else:
        nats = 2 * (arb(3).log() + log).max(n * c["epsilon"] ** 2)
    return agree(what, claimed, nats)


def _sharp(epsilon: arb, n: int, log: arb) -> arb:
    return (log.sqrt() + epsilon * (arb(n) / 8).sqrt()) ** 2


def _accounted(c: Claim, what: str, claimed: float, n: int, delta: arb, suffix: str) -> None:
    notion, both = c.raw("privacy_notion"), c.raw("privacy_adjacency") == "add-remove"
    alpha, level = (number(c.terms[name + suffix]) for name in ("transfer_alpha", "transfer_level"))
    if notion == "pure" or (notion == "approximate" and c["privacy_delta"] == 0):
        epsilon, _ = c["privacy_epsilon"] * (2 if both else 1), _split(c, delta, suffix)
        if epsilon > 0 and epsilon.is_finite():
            order = 1 + (-delta.log() / n).sqrt() / epsilon * arb(8).sqrt()
            about("terms.transfer_alpha", alpha, order)
            about("terms.transfer_level", level, order * epsilon**2 / 8)
        return agree(what, claimed, _sharp(epsilon, n, -delta.log()))
    if claimed == math.inf:
        return None
    if alpha == math.inf:
        if (
            notion in ("gaussian", "zero-concentrated")
            and c["privacy_mu" if notion == "gaussian" else "privacy_rho"] == 0
        ):
            return agree(what, claimed, -delta.log())
        raise Wrong("terms.transfer_alpha is infinite, and the privacy is not perfect")
    if not (alpha > 1 and level >= 0):
        raise Wrong(f"terms.transfer_alpha is {alpha!r} and terms.transfer_level {level!r}")
    e, a, (first, second, third) = ball(alpha) - 1, ball(level), _split(c, delta, suffix)
    if notion == "gaussian":
        h = _gaussian(c["privacy_mu"].max(arb(1e-12)), e, a)
    elif notion == "zero-concentrated":
        h = _concentrated(c["privacy_rho"].max(arb(1e-24)), e, a)
    elif notion == "approximate":
        h = _approximate(c["privacy_epsilon"], c["privacy_delta"], e, a, n, third)
    else:
        return _distribution(c, what, claimed, n, e, a, (first, second, third))
    return agree(what, claimed, _bill(n, e, a, h, first, second), relative=1e-6)


def _split(c: Claim, delta: arb, suffix: str) -> tuple[arb, arb, arb]:
    """δ₁, δ₂ and what losses without a bound are paid with; together δ."""
    if any(term + suffix in c.terms for term in _SPLIT.values()):
        parts = [ball(number(c.terms.get(term + suffix, 0.0))) for term in _SPLIT.values()]
    elif any(name in c.budget for name in _SPLIT) and not suffix and "chosen" not in c.inputs:
        parts = [c.paid(name) for name in _SPLIT]
    else:
        raise Unchecked("how the failure probability of the transfer was divided is not in the file")
    about("the parts of the transfer's failure probability", float(sum(parts, arb(0))), delta)
    return parts[0], parts[1], parts[2]


def _bill(n: int, e: arb, a: arb, h: arb, first: arb, second: arb) -> arb:
    return n * (a + h / second) - (1 + e) / e * first.log()


def _zeta(e: arb, x: arb) -> arb:
    return (e * x).expm1() / e + (-x).expm1()


def _threshold(e: arb, a: arb, side: int) -> arb:
    """The distance from 0 at which ζ reaches a, to the right (side 1) or to the left (-1)."""
    far = 1.0
    while not _zeta(e, side * arb(far)) > a:
        far *= 2.0
    return zero_of(lambda t: _zeta(e, side * t) - a, 0, far)


def _gaussian(mu: arb, e: arb, a: arb) -> arb:
    """x ~ N(mu²/2, mu²): E[e^(tx); x > c] = e^(t(t+1)mu²/2) P(N(0, 1) > c/mu - (1/2 + t) mu)."""
    h = arb(0)
    for side in (1, -1):
        start = _threshold(e, a, side)
        rise, none, fall = ((t * (t + 1) * mu**2 / 2).exp() * normal_above(start / mu - side * (arb(0.5) + t) * mu)
                            for t in (e, arb(0), arb(-1)))  # fmt: skip
        h += (rise - none) / e + fall - (1 + a) * none
    return h


def _concentrated(rho: arb, e: arb, a: arb) -> arb:
    """From P(x > t), Q(x < -t) ≤ τ(t) = e^(-(t-ρ)²/(4ρ)) beyond ρ, by parts."""

    def integral(rate: arb, start: arb) -> arb:  # of e^(rate t) τ(t) from start on
        tail = normal_above((start - rho - 2 * rho * rate) / (2 * rho).sqrt())
        return (4 * arb.pi() * rho).sqrt() * (rate * rho + rate**2 * rho).exp() * tail

    right, left = _threshold(e, a, 1), _threshold(e, a, -1)
    flat = (_zeta(e, rho) - a).max(arb(0)) if right < rho else arb(0)
    steep = ((-rho).exp() * (_zeta(e, -rho) - a)).max(arb(0)) if left < rho else arb(0)
    above = integral(e, right.max(rho)) - integral(arb(-1), right.max(rho))
    below = (1 + a + 1 / e) * integral(arb(-1), left.max(rho)) - (1 + e) / e * integral(-1 - e, left.max(rho))
    return flat + above + steep + below


def _slope(e: arb, a: arb, cutoff: arb) -> arb:
    return ((1 + e) / e * (e * cutoff).exp() - 1 / e - 1 - a).max(arb(0))


def _approximate(epsilon: arb, delta: arb, e: arb, a: arb, n: int, third: arb) -> arb:
    """Losses ±epsilon, and delta at ±infinity; what is spent on it tells how far beyond epsilon f was cut off."""
    if not third > n * delta:
        raise Wrong("the budget does not pay for losses without a bound")
    cutoff = epsilon - (1 - n * delta / third).log()
    mass = (1 - delta) / (1 + (-epsilon).exp())
    parts = [(_zeta(e, epsilon) - a).max(arb(0)), (-epsilon).exp() * (_zeta(e, -epsilon) - a).max(arb(0))]
    return mass * sum(parts, arb(0)) + delta * (1 + _slope(e, a, cutoff))


def _distribution(c: Claim, what: str, claimed: float, n: int, e: arb, a: arb, split: tuple[arb, arb, arb]) -> None:
    """Composed mechanisms: Λ between two numbers, on finer and finer grids."""
    event = c.privacy.get("event")
    if not event:
        raise Unchecked("the mechanisms behind the distribution of privacy losses are not in the file")
    if not split[2] > 0:
        raise Unchecked("nothing pays for losses without a bound")
    replaced, end, low = c.raw("privacy_adjacency") == "replace-one", time.monotonic() + SECONDS, arb(0)
    for resolution in (0.1, 0.03, 0.01, 0.003):
        made = loss.compose(frozenset(loss.steps_of(event).items()), replaced, resolution)
        ends = [_bill(n, e, a, arb(h), *split[:2]) for h in _excess(made, float(e), float(a), n, lower(split[2]))]
        if ball(claimed) >= ends[1]:
            return None
        low = low.max(ends[0])
        if ball(claimed) < low:
            raise Wrong(f"{what} is {claimed!r}, and what ran costs {float(low):.9g} or more")
        if time.monotonic() > end:
            break
    raise Unchecked(f"{what} is {claimed!r}, and what ran costs between {float(low):.9g} and {float(ends[1]):.9g}")


def _excess(made: loss.Loss, e: float, a: float, n: int, third: float) -> tuple[float, float]:
    """H from both sides. f continues beyond the cut-off A along its tangent, and n P(x > A - 1)/(1 - 1/e) ≤ δ₃."""
    x = made.x
    cutoff = 1.0 + made.reach(math.log(n / third / -math.expm1(-1.0)))
    near = max((s for s in np.linspace(0.0, x[-1], 200)[1:-1] if n * made.stick(s)[0] > third), default=0.0)
    rising, falling = np.expm1(e * np.minimum(x, 600 / e)) / e, np.expm1(-np.maximum(x, -600.0))
    error = (16.0 + np.abs(x)) * 2.0**-52 * (np.abs(rising) + np.abs(falling))
    excess = np.maximum(rising + falling + error - a, 0.0) * np.exp(np.minimum(x, 0.0))
    slope = upper(_slope(ball(e), ball(a), ball(cutoff)))
    high = made.mean(np.where(x > cutoff, slope, excess))[1] + made.at_infinity * slope + made.at_zero
    capped = excess[max(0, np.searchsorted(x, near) - 1)]
    under = np.where(x > near, np.minimum(excess, capped), excess) * (1.0 - 1e-12) - 2 * error
    return made.mean(np.maximum(under, 0.0))[0], high + slope * math.exp(-loss.FAR)
