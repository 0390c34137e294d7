"""What it costs to use a statement proved for a fixed prior, or fixed weights, at a privately released one.

``transfer_cost`` gives the nats that take the place of ln(1/failure_prob), for every notion of privacy in this package.
α, the level a and the split of the failure probability come from a numerical search that sees privacy, n and
failure_prob alone; what is returned is the theorem evaluated at that choice, rounded up. Proof: "General transfer" in
docs/guarantees.md.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
import itertools
from collections.abc import Mapping
from dataclasses import field
from functools import lru_cache
from math import exp, expm1, fsum, inf, nextafter, sqrt
from typing import Any, cast

import numpy as np

from bounds._arithmetic import log_inverse, outward, total
from bounds._check import door
from bounds._losses import ConcentratedLoss, GaussianLoss, LossLaw, from_approximate, from_distribution
from bounds.privacy import ApproxDP, GaussianDP, PrivacyClaim, PrivacyLossDistribution, PureDP, ZeroConcentratedDP
from bounds.record import record

# Where the search starts: log odds of the share of the transfer, and ln(α - 1). It may leave this grid.
_LOG_ODDS = (-6.0, -4.0, -2.0, 0.0, 3.0)
_LOG_EXCESSES = (-8.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.5, 2.0, 5.0, 8.0)
# Above the largest finite loss, in nats: where losses without a bound are cut off.
_MARGINS = (2.0, 0.25, 0.5, 1.0, 4.0, 8.0, 16.0)
Claim = PureDP | ApproxDP | GaussianDP | ZeroConcentratedDP | PrivacyLossDistribution
_SMALLEST_MU = 1e-12  # below it squares lose digits; rounding a guarantee up is sound
_LARGEST = 1e300  # beyond it, at the latest, nothing is promised


@record
class Charge:
    """What a price asks for n records at a failure probability.

    Attributes:
        nats: Λ, what takes the place of ln(1/failure_prob), rounded up.
        budget: what the parts of the failure probability pay for.
        terms: where the optimum of the price lies.
        name: of the cost: "confidence" for an independent prior, "transfer" for a private one.
    """

    nats: float
    budget: Mapping[str, float]
    terms: Mapping[str, float] = field(default_factory=dict[str, float])
    name: str = "transfer"


def range_nats(spread: float, n: int, failure_prob: float) -> float:
    """(√ln(1/failure_prob) + spread √(n/8))², rounded up: the price where each record's potential ranges over
    ``spread`` nats at most, whatever is released, so that the best order is known beforehand."""
    root = sqrt(log_inverse(failure_prob)) + float(spread) * sqrt(n / 8.0)
    return outward(root * root)


def charged(
    nats: float, alpha: float, a: float, transfer: float, privacy: float = 0.0, unbounded: float = 0.0
) -> Charge:
    """The charge of the general transfer at the Rényi order α and level a; α is infinite where it makes no difference.

    ``transfer`` is the probability spent on the transfer itself, δ₁; ``privacy`` that the losses of the n records add
    up to more than is charged, δ₂; ``unbounded`` that one of them is beyond all bounds.
    """
    budget, terms = dict[str, float](), {"transfer_alpha": alpha, "transfer_level": a}
    for entry, term, part in (
        ("transfer", "transfer_prob", transfer),
        ("privacy tail", "privacy_tail_prob", privacy),
        ("unbounded privacy loss", "unbounded_prob", unbounded),
    ):
        if part > 0.0:
            budget[entry] = terms[term] = part
    return Charge(nats=nats, budget=budget, terms=terms)


def evaluate(
    law: LossLaw, n: int, failure_prob: float, *, alpha: float, share: float, margin: float, precision: float
) -> Charge:
    """n (a + H_α(a)/δ₂) + α/(α-1) ln(1/δ₁), rounded up, at a good a; ``share`` is δ₁/(δ₁ + δ₂).

    Losses beyond the largest finite one by ``margin`` have probability at most infinity_mass / (1 - e^(-margin)) for
    each record, which is paid first.
    """
    unbounded = outward(n * law.infinity_mass / -expm1(-margin)) if law.infinity_mass > 0.0 else 0.0
    spent = share * max(0.0, failure_prob - unbounded)
    left = nextafter(fsum((failure_prob, -unbounded, -spent)), 0.0)  # all three sum to failure_prob at most
    if not (spent > 0.0 and left > 0.0):
        return charged(inf, alpha, inf, failure_prob)
    a = law.level(alpha, left, precision)
    per_record = total(a, law.divergence(alpha, a, margin) / left) if a < inf else inf
    nats = total(n * per_record, alpha / (alpha - 1.0) * log_inverse(spent))
    nats = nats if nats == nats else inf  # whatever overflowed, it was not small
    return charged(nats, alpha, a, spent, left, unbounded)


def search(law: LossLaw, n: int, failure_prob: float) -> Charge:
    """About the cheapest evaluation; the choice depends on the law, n and failure_prob alone."""
    from scipy.optimize import minimize  # takes long to import, and few need it

    cheap = law.coarse()

    def at(law: LossLaw, point: tuple[float, float], margin: float, precision: float) -> Charge:
        against, excess = exp(-min(max(point[0], -30.0), 30.0)), exp(min(max(point[1], -30.0), 8.0))
        share = 1.0 / (1.0 + against)
        return evaluate(law, n, failure_prob, alpha=1.0 + excess, share=share, margin=margin, precision=precision)

    def cost(point: tuple[float, float], margin: float) -> float:
        return min(1e300, at(cheap, point, margin, 1e-3).nats)

    def improved(point: tuple[float, float], margin: float) -> tuple[float, float]:
        options = {"xatol": 1e-3, "fatol": 1e-8 * cost(point, margin), "maxfev": 120}
        found = cast(Any, minimize)(cost, np.array(point), args=(margin,), method="Nelder-Mead", options=options)
        return float(found.x[0]), float(found.x[1])

    grid = itertools.product(_LOG_ODDS, _LOG_EXCESSES)
    margin = _MARGINS[0]
    point = improved(min(grid, key=lambda start: cost(start, margin)), margin)
    if law.infinity_mass > 0.0:
        margin = min(_MARGINS, key=lambda margin: cost(point, margin))
        point = improved(point, margin)
    return at(law, point, margin, 1e-9)


@door()
def transfer_cost(*, privacy: PrivacyClaim, n: int, failure_prob: float) -> Charge:
    """The cost of the general transfer, Λ = n (a + H_α(a)/δ₂) + α/(α-1) ln(1/δ₁), rounded up.

    "General transfer" in docs/guarantees.md: if E_S exp f(y, S) ≤ 1 for every fixed y, and a mechanism that saw S
    released Y, then f(Y, S) ≤ Λ except with probability δ₁ + δ₂, plus what losses without a bound cost. H_α(a) is the
    largest f-divergence E (ζ_α(x) - a)^+ of the mechanism from itself without one record, x their privacy loss. A pure
    guarantee uses the sharp transfer (``Sharp``) instead, at 2 epsilon if it is for add-remove adjacency.

    Formal guarantee: at least the theorem's expression at the alpha, a and split that are returned, whose parts sum to
    at most ``failure_prob``; the choice depends on nothing but the arguments. 532 nats for mu = 0.05 at n = 60000 and
    failure_prob = 0.05.

    ``privacy`` is about all that the mechanism released together, composed first, as max-information does not add up
    over its steps; n counts the independent records that it may have seen.

    Raises ValueError when an argument is out of range, or when n times the probability of a loss without a bound
    (delta, or the mass at infinity) leaves nothing of the failure probability.
    """
    return _cost(checked(privacy), n, failure_prob)


def checked(privacy: object) -> Claim:
    """``privacy``, if it is a promise that something is proved of."""
    if not isinstance(privacy, Claim):
        raise ValueError(
            f"privacy must be a privacy record (PureDP, ApproxDP, GaussianDP, ZeroConcentratedDP or "
            f"PrivacyLossDistribution), got {privacy!r}; nothing is proved of other mechanisms, so split the data."
        )
    return privacy


@lru_cache(maxsize=128)
def _cost(privacy: Claim, n: int, failure_prob: float) -> Charge:
    match privacy:
        case PureDP() | ApproxDP(delta=0.0):
            return _pure(privacy, n, failure_prob)
        case GaussianDP(mu=0.0) | ZeroConcentratedDP(rho=0.0):
            return charged(log_inverse(failure_prob), inf, 0.0, failure_prob)
        case GaussianDP(mu=size) | ZeroConcentratedDP(rho=size) | ApproxDP(epsilon=size) if size > _LARGEST:
            return charged(inf, inf, inf, failure_prob)
        case GaussianDP(mu=mu):
            law = GaussianLoss(max(mu, _SMALLEST_MU))
        case ZeroConcentratedDP(rho=rho):
            law = ConcentratedLoss(max(outward(sqrt(2.0 * rho)), _SMALLEST_MU))
        case ApproxDP():
            law = from_approximate(privacy)
        case PrivacyLossDistribution():
            law = from_distribution(privacy)
    if n * law.infinity_mass >= failure_prob:
        raise ValueError(
            f"privacy must bound the loss of a record except with probability below failure_prob / n = "
            f"{failure_prob / n:.3g}, got {law.infinity_mass:.3g} (its delta or mass at infinity), and nothing "
            f"rigorous is known beyond; pass a smaller delta, or a GaussianDP or PrivacyLossDistribution."
        )
    return search(law, n, failure_prob)


def _pure(privacy: PureDP | ApproxDP, n: int, failure_prob: float) -> Charge:
    """The sharp transfer, for replace-one adjacency."""
    epsilon = privacy.epsilon * (1.0 if privacy.adjacency == "replace-one" else 2.0)
    nats = range_nats(epsilon, n, failure_prob)
    if not 0.0 < nats < inf or epsilon == 0.0:
        return charged(nats, inf, epsilon, failure_prob)
    excess = sqrt(8.0 * log_inverse(failure_prob) / n)  # (α - 1) epsilon
    return charged(nats, 1.0 + excess / epsilon, (epsilon + excess) * epsilon / 8.0, failure_prob)
