"""The general transfer at one choice of its parameters, and the search for a good choice."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
import itertools
from collections.abc import Mapping
from dataclasses import field
from math import exp, expm1, fsum, inf, nextafter, sqrt
from typing import Any, cast

import numpy as np

from bounds._losses import LossLaw
from bounds._rounding import log_inverse, outward, total
from bounds.record import record

# Where the search starts: log odds of the share of the transfer, and ln(α - 1). It may leave this grid.
_LOG_ODDS = (-6.0, -4.0, -2.0, 0.0, 3.0)
_LOG_EXCESSES = (-8.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.5, 2.0, 5.0, 8.0)
# Above the largest finite loss, in nats: where losses without a bound are cut off.
_MARGINS = (2.0, 0.25, 0.5, 1.0, 4.0, 8.0, 16.0)


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
