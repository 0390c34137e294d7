"""The general transfer at one choice of its parameters, and the search for a good choice."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
import itertools
import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from bounds._losses import LossLaw
from bounds._rounding import log_inverse, outward, total

# Where the search starts: log odds of the share of the transfer, and ln(α - 1). It may leave this grid.
_LOG_ODDS = (-6.0, -4.0, -2.0, 0.0, 3.0)
_LOG_EXCESSES = (-8.0, -6.0, -5.0, -4.0, -3.0, -2.0, -1.0, 0.5, 2.0, 5.0, 8.0)
# Above the largest finite loss, in nats: where losses without a bound are cut off.
_MARGINS = (2.0, 0.25, 0.5, 1.0, 4.0, 8.0, 16.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferCost:
    """The price of a private prior, and how it is made up.

    Attributes:
        nats: what takes the place of ln(1/failure_prob).
        alpha: the Rényi order α; infinity where the order makes no difference.
        a: the level in nats per record above which privacy losses are charged by their excess.
        failure_transfer: probability spent on the transfer itself, δ₁.
        failure_privacy: probability that the losses of the n records add up to more than is charged, δ₂.
        failure_unbounded: probability that one of them is beyond all bounds (a delta, or a mass at infinity).
    """

    nats: float
    alpha: float
    a: float
    failure_transfer: float
    failure_privacy: float
    failure_unbounded: float

    @property
    def budget(self) -> dict[str, float]:
        """The parts of the failure probability, by the names they have in a certificate; zeros left out."""
        return self._parts("transfer", "privacy tail", "unbounded privacy loss")

    @property
    def terms(self) -> dict[str, float]:
        """All that the theorem is evaluated at, by the names it has among the terms of a certificate."""
        parts = self._parts("transfer_prob", "privacy_tail_prob", "unbounded_prob")
        return {"transfer_alpha": self.alpha, "transfer_level": self.a, **parts}

    def _parts(self, *names: str) -> dict[str, float]:
        parts = (self.failure_transfer, self.failure_privacy, self.failure_unbounded)
        return {name: part for name, part in zip(names, parts, strict=True) if part > 0.0}


def settled(nats: float, alpha: float, a: float, failure_prob: float) -> TransferCost:
    """A cost whose whole failure probability pays for the transfer."""
    return TransferCost(
        nats=nats, alpha=alpha, a=a, failure_transfer=failure_prob, failure_privacy=0.0, failure_unbounded=0.0
    )


def evaluate(
    law: LossLaw, *, n: int, failure_prob: float, alpha: float, share: float, margin: float, precision: float
) -> TransferCost:
    """n (a + H_α(a)/δ₂) + α/(α-1) ln(1/δ₁), rounded up, at a good a; ``share`` is δ₁/(δ₁ + δ₂).

    Losses beyond the largest finite one by ``margin`` have probability at most infinity_mass / (1 - e^(-margin)) for
    each record, which is paid first.
    """
    unbounded = outward(n * law.infinity_mass / -math.expm1(-margin)) if law.infinity_mass > 0.0 else 0.0
    spent = share * max(0.0, failure_prob - unbounded)
    left = math.nextafter(math.fsum((failure_prob, -unbounded, -spent)), 0.0)  # all three sum to failure_prob at most
    if not (spent > 0.0 and left > 0.0):
        return settled(math.inf, alpha, math.inf, failure_prob)
    a = law.level(alpha, left, precision)
    per_record = total(a, law.divergence(alpha, a, margin) / left) if a < math.inf else math.inf
    nats = total(n * per_record, alpha / (alpha - 1.0) * log_inverse(spent))
    return TransferCost(
        nats=nats if nats == nats else math.inf,  # whatever overflowed, it was not small
        alpha=alpha,
        a=a,
        failure_transfer=spent,
        failure_privacy=left,
        failure_unbounded=unbounded,
    )


def search(law: LossLaw, n: int, failure_prob: float) -> TransferCost:
    """About the cheapest evaluation; the choice depends on the law, n and failure_prob alone."""
    from scipy.optimize import minimize  # takes long to import, and few need it

    cheap = law.coarse()

    def at(law: LossLaw, point: tuple[float, float], margin: float, precision: float) -> TransferCost:
        share = 1.0 / (1.0 + math.exp(-min(max(point[0], -30.0), 30.0)))
        alpha = 1.0 + math.exp(min(max(point[1], -30.0), 8.0))
        options = {"share": share, "alpha": alpha, "margin": margin, "precision": precision}
        return evaluate(law, n=n, failure_prob=failure_prob, **options)

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
