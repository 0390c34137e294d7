"""The price of accounted privacy: Λ = n (a + H/δ₂) + α/(α-1) ln(1/δ₁) ("General transfer" in docs/guarantees.md).

x = ln(P/Q) is the loss of one record, ζ(x) = (e^((α-1)x) - 1)/(α-1) + e^(-x) - 1 and H = E_P (ζ(x) - a)^+, at the α and
a that the claim names. Where x may be infinite, or its law goes on for ever, f(u) = u (ζ(ln u) - a)^+ goes on beyond
e^A along its tangent, and δ₃ pays n P(x > A - t)/(1 - e^(-t)). Below e = α - 1.
"""

from bisect import bisect_left
from collections import Counter
from math import exp, expm1, inf, isnan, log
from typing import NamedTuple

import numpy as np
from flint import arb  # pyright: ignore[reportMissingImports]
from numpy import ndarray

from pacdp.verify import loss
from pacdp.verify.arithmetic import (
    INFINITE,
    ONE,
    ZERO,
    ball,
    lower,
    normal_above,
    total,
    upper,
    zero_of,
)
from pacdp.verify.claim import (
    Claim,
    Price,
    Unchecked,
    Wrong,
    about,
    agree,
    exactly,
    number,
    require,
)
from pacdp.verify.events import Step, mu_of, replaces, steps_of

SPLIT = {
    "transfer_prob": "transfer",
    "privacy_tail_prob": "privacy tail",
    "unbounded_prob": "unbounded privacy loss",
}
"""The terms that tell how δ is divided, and the entries of the budget that do where there are no such terms."""


class Transfer(NamedTuple):
    """What the theorem is evaluated at: n records, e = α - 1, the level a, and δ₁, δ₂, δ₃."""

    n: int
    e: arb
    a: arb
    transfer: arb
    tail: arb
    unbounded: arb

    def zeta(self, x: arb) -> arb:
        """ζ(x) = (e^((α-1)x) - 1)/(α-1) + e^(-x) - 1 ("General transfer")."""
        return (self.e * x).expm1() / self.e + (-x).expm1()

    def excess(self, x: arb) -> arb:
        """(ζ(x) - a)^+."""
        return (self.zeta(x) - self.a).max(ZERO)

    def nats(self, h: arb) -> arb:
        """Λ = n (a + H/δ₂) + (α/(α-1)) ln(1/δ₁) ("General transfer")."""
        each = self.a + h / self.tail
        return (
            self.n * each
            - (1 + self.e) / self.e * self.transfer.log()
        )

    def threshold(self, side: int) -> arb:
        """The distance from 0 at which ζ reaches a, to the right (side 1) or to the left (-1)."""
        far = 1.0
        while not self.zeta(side * arb(far)) > self.a:
            require(
                far <= 2.0**63,
                f"{float(self.a)!r} is never reached",
            )
            far *= 2.0
        return zero_of(
            lambda t: self.zeta(side * t) - self.a, 0, far
        )

    def slope(self, cutoff: arb) -> arb:
        """max{0, (α e^((α-1)A) - 1)/(α-1) - 1 - a} ("General transfer", losses without a bound)."""
        rising = (1 + self.e) / self.e * (self.e * cutoff).exp()
        return (rising - 1 / self.e - 1 - self.a).max(ZERO)


def check(p: Price) -> None:
    """Raise unless the nats pay for what the claim says of privacy ("General transfer")."""
    c = p.c
    parts = split(p)
    alpha = number(p.term("transfer_alpha"))
    level = number(p.term("transfer_level"))
    notion = c.inputs.privacy_notion
    named = {"privacy_mu", "privacy_rho"} & c.inputs.keys()
    lost = total(c[name] for name in named)
    if alpha == inf and named and lost == 0:
        agree(p.what, p.claimed, p.log)
    elif p.claimed < inf and 1 < alpha < inf and 0 <= level < inf:
        t = Transfer(p.n, ball(alpha) - 1, ball(level), *parts)
        if notion in _DIVERGENCES:
            exact = t.nats(_DIVERGENCES[notion](c, t))
            agree(p.what, p.claimed, exact, relative=1e-6)
        else:
            _check_composed(p, t)
    else:
        agree(p.what, p.claimed, INFINITE)


def check_promise(c: Claim) -> None:
    """What is promised is what the event costs, where the file has one; a distribution of losses is composed later."""
    replaced = replaces(c.inputs.privacy_adjacency)
    if not c.event:
        return
    notion = c.inputs.privacy_notion
    ran = steps_of(c.event, replaced)
    if notion == "gaussian":
        mu = mu_of(ran) * (2 if replaced else 1)
        agree("inputs.privacy_mu", c.inputs.privacy_mu, mu)
    elif notion in ("pure", "approximate"):
        epsilon = number(c.inputs.privacy_epsilon)
        delta = number(dict.get(c.inputs, "privacy_delta", 0.0))
        what = f"epsilon = {epsilon!r} at delta = {delta!r}"
        loss.require_private(what, ran, epsilon, delta, replaced)
    elif notion == "zero-concentrated":
        _require_concentrated(c, ran, replaced)


def _require_concentrated(
    c: Claim, ran: list[Step], replaced: bool
) -> None:
    """rho ≥ Σ (moved by a record/σ)²/2 + ε²/2 will do, since a sample costs no more (Bun and Steinke 2016).

    As orders grow, of a sample the divergence over the order comes to the same, or to that of a record more where one
    is replaced; less than the sum of these is refuted.
    """
    least = most = ZERO
    for step, times in Counter(ran).items():
        of_one = times / ball(step.noise) ** 2 / 2
        most += of_one * (4 if replaced else 1)
        pure = total(ball(one) ** 2 for one in step.epsilons)
        most += times * pure / 2
        least += of_one * (4 if replaced and step.rate == 1 else 1)
    what = f"rho = {c.inputs.privacy_rho!r}"
    require(
        c.privacy_rho >= least * (1 - ball(1e-9)),
        f"{what} is not what ran, which costs {float(least)!r} or more",
    )
    if c.privacy_rho < most * (1 - ball(1e-9)):
        raise Unchecked(
            f"{what} is between what this checker shows and what it refutes"
        )


def split(p: Price) -> list[arb]:
    """δ₁, δ₂ and δ₃, by the terms and by the budget, which add up to what pays for the price."""
    budget = p.c.budget
    said = [p.c.terms[one + p.suffix] for one in SPLIT]
    paid = [budget[entry] for entry in SPLIT.values()]
    none = [None] * 3
    if "transfer" in budget:
        require(
            said in (none, paid),
            f"the budget divides the failure probability as {paid}, and the terms as {said}",
        )
        said = paid
    if said == none:
        raise Unchecked(
            "how the failure probability of the transfer was divided is not in the file"
        )
    parts = [exactly(one or 0) for one in said]
    whole = float(total(parts))
    what = "the parts of the transfer's probability"
    about(what, whole, p.c.price_prob)
    return parts


def gaussian(mu: arb, t: Transfer) -> arb:
    """x ~ N(mu²/2, mu²): E[e^(sx); x > c] = e^(s(s+1)mu²/2) P(N > c/mu - (1/2 + s) mu) ("General transfer")."""

    def tail(power: arb, side: int) -> arb:
        scale = power * (power + 1) * mu**2 / 2
        start = t.threshold(side) / mu
        shift = (arb(0.5) + power) * mu
        return scale.exp() * normal_above(start - side * shift)

    h = ZERO
    for side in (1, -1):
        none = tail(ZERO, side)
        h += (tail(t.e, side) - none) / t.e
        h += tail(-ONE, side) - (1 + t.a) * none
    return h


def concentrated(rho: arb, t: Transfer) -> arb:
    """From P(x > s), Q(x < -s) ≤ τ(s) = e^(-(s-rho)²/(4rho)) for s > rho, by parts ("General transfer")."""
    right = t.threshold(1).max(rho)
    left = t.threshold(-1).max(rho)
    flat = t.excess(rho)  # 0 where the threshold lies beyond rho
    steep = (-rho).exp() * t.excess(-rho)
    above = _tail(rho, t.e, right) - _tail(rho, -ONE, right)
    slow = (1 + t.a + 1 / t.e) * _tail(rho, -ONE, left)
    fast = (1 + t.e) / t.e * _tail(rho, -1 - t.e, left)
    return flat + above + steep + slow - fast


def _tail(rho: arb, rate: arb, start: arb) -> arb:
    """∫ e^(rate s) τ(s) ds from start on ("General transfer", rho-zCDP)."""
    distance = start - rho - 2 * rho * rate
    above = normal_above(distance / (2 * rho).sqrt())
    exponent = rate * rho + rate**2 * rho
    return (4 * arb.pi() * rho).sqrt() * exponent.exp() * above


def approximate(epsilon: arb, delta: arb, t: Transfer) -> arb:
    """Losses ±ε, and δ at ±∞; δ₃ tells how far beyond ε f was cut off ("General transfer", (ε, δ)-DP)."""
    require(
        t.unbounded > t.n * delta,
        "the failure probability does not pay for losses without a bound",
    )
    cutoff = epsilon - (1 - t.n * delta / t.unbounded).log()
    down = (-epsilon).exp()
    finite = t.excess(epsilon) + down * t.excess(-epsilon)
    finite *= (1 - delta) / (1 + down)
    return finite + delta * (1 + t.slope(cutoff))


_DIVERGENCES = {
    "gaussian": lambda c, t: gaussian(
        c.privacy_mu.max(ball(1e-12)), t
    ),
    "zero-concentrated": lambda c, t: concentrated(
        c.privacy_rho.max(ball(1e-24)), t
    ),
    "approximate": lambda c, t: approximate(
        c.privacy_epsilon, c.privacy_delta, t
    ),
}
"""H by the notion of privacy; another one is a distribution of losses, and composed from what ran."""


def _check_composed(p: Price, t: Transfer) -> None:
    """Composed mechanisms: Λ between two numbers, on finer and finer grids, until they decide."""
    if not p.c.event:
        raise Unchecked(
            "the mechanisms behind the distribution of privacy losses are not in the file"
        )
    replaced = p.c.inputs.privacy_adjacency == "replace-one"
    ran = steps_of(p.c.event, replaced)
    fewest = ZERO
    most = INFINITE
    try:
        for made in loss.finer(ran, replaced):
            low, high = excess(made, t)
            fewest = fewest.max(t.nats(arb(low)))
            most = most.min(t.nats(arb(high)))
            if ball(p.claimed) >= most:
                return
            _require_enough(p, fewest)
        between = (
            f"between {float(fewest):.9g} and {float(most):.9g}"
        )
        raise Unchecked(
            f"{p.what} is {p.claimed!r}, and what ran costs {between}"
        )
    except Unchecked:
        for made in loss.with_more_noise(ran, replaced):
            _require_enough(p, t.nats(arb(excess(made, t)[0])))
        raise


def _require_enough(p: Price, fewest: arb) -> None:
    """Raise Wrong where the claim pays less than this."""
    if ball(p.claimed) < fewest:
        raise Wrong(
            f"{p.what} is {p.claimed!r}, and what ran costs {float(fewest):.9g} or more"
        )


def excess(made: loss.Loss, t: Transfer) -> tuple[float, float]:
    """H from both sides, with δ₃ n P(x > A - 1)/(1 - 1/e) paid for ("General transfer", losses without a bound)."""
    spent = lower(t.unbounded) / t.n
    tail = spent * -expm1(-1.0) - made.at_infinity
    if not tail > 0.0:
        raise Unchecked(
            "the failure probability does not pay for losses without a bound"
        )
    cutoff = 1.0 + made.reach(-log(tail))
    slope = upper(t.slope(ball(cutoff)))
    values, error = _excess_on_the_grid(made.x, t)
    _, high = made.mean(np.where(made.x > cutoff, slope, values))
    high += (made.at_infinity + exp(-loss.FAR)) * slope
    # below every cut-off A that δ₃ may pay for, all counts in full
    points = np.linspace(0.0, made.x[-1], 200)
    first = bisect_left(
        points,
        True,
        key=lambda point: made.stick(point)[0] <= spent,
    )
    near = points[max(0, first - 1)]
    last = int(np.searchsorted(made.x, near)) - 1
    most = np.where(made.x > near, values[max(0, last)], np.inf)
    capped = np.minimum(values, most) * (1.0 - 1e-12)
    low, _ = made.mean(np.maximum(capped - 2 * error, 0.0))
    high += made.at_zero
    # what leaves double precision decides nothing
    return low, inf if isnan(high) else high


def _excess_on_the_grid(
    x: ndarray, t: Transfer
) -> tuple[ndarray, ndarray]:
    """(ζ(x) - a)^+ under P for x ≥ 0, under Q for x < 0, rounded up, and by how much it may be too large."""
    e = float(t.e)
    a = float(t.a)
    rising = np.expm1(e * np.minimum(x, 600 / e)) / e
    falling = np.expm1(-np.maximum(x, -600.0))
    size = np.abs(rising) + np.abs(falling)
    error = (16.0 + np.abs(x)) * 2.0**-52 * size
    above = np.maximum(rising + falling + error - a, 0.0)
    return above * np.exp(np.minimum(x, 0.0)), error
