"""The Brier risk by any bound of this package, and what it says of calibration without bins.

The Brier loss B = Σ_k (p_k - 1{y = k})² of a probability vector p lies in [0, 2]: half of it is a loss in [0, 1].
Proofs: docs/guarantees.md, "Brier risk and calibration without bins".
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from bounds import _check
from bounds._rounding import outward
from bounds.certificate import Certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class BrierRisk:
    """An upper bound on a Brier risk in [0, 2], with the certificate of half of it.

    Formal guarantee: if ``certificate`` is one of half the Brier loss of a Gibbs predictor Q, then, with probability at
    least 1 - certificate.failure_prob, ``value`` bounds the Brier risk of Q and that of the averaged predictions
    E_Q p_w, and ``calibration_error`` the calibration error of both.

    Attributes:
        certificate: of half the Brier loss; its terms, budget, status and assumptions are those of the bound.
    """

    certificate: Certificate

    @property
    def value(self) -> float:
        """R_B ≤ value, twice the certificate's; 2 says nothing. ``float(risk)`` gives it."""
        return 2.0 * self.certificate.value

    @property
    def calibration_error(self) -> float:
        """√value, rounded up, at least the root of E‖p - E[Y|p]‖² ≤ R_B (Y the one-hot label), at most √2.

        It bounds the mean E‖p - E[Y|p]‖ as well, and the top-label E|f - P(c = 1|f)|.
        """
        return outward(math.sqrt(self.value))

    def __float__(self) -> float:
        return self.value


def brier_risk(*, brier: float, bound: Callable[..., Certificate]) -> BrierRisk:
    """R_B(Q) ≤ 2·bound(risk = R̂_B/2): the Brier risk by any bound on losses in [0, 1] of this package.

        R_B(Q) ≤ 2 kl⁻¹(R̂_B(Q)/2, [KL(Q‖P) + ln ξ(n) + ln(1/failure_prob)] / n)    for ``maurer``

    "Brier risk and calibration without bins" in docs/guarantees.md.

    >>> step = functools.partial(maurer, kl_nats=30.0, n=60_000, failure_prob=0.05)
    >>> float(brier_risk(brier=0.04, bound=step))

    Formal guarantee: that of ``bound``, doubled. The same number bounds the Brier risk of the averaged predictions
    E_Q p_w, since the loss is convex in p; no factor 2 is paid for averaging, as it is for majority votes.

    Args:
        brier: R̂_B(Q), posterior mean of the Brier loss on the n examples (not of the averaged predictions), in [0, 2].
        bound: a bound of this package that takes ``risk``, every other argument given to it already.

    Raises ValueError when ``brier`` is out of range, or the bound is about another risk.
    """
    _check.real(brier=brier)
    if not 0.0 <= brier <= 2.0:
        raise ValueError(f"brier must lie in [0, 2], got {brier!r}; pass the mean of the sum of squares over classes.")
    half = brier / 2.0
    half = half if 2.0 * half >= brier else math.nextafter(half, 1.0)  # of the smallest doubles
    certificate = bound(risk=half)
    if certificate.terms.get("empirical_risk") != half:
        raise ValueError(
            f"bound must be one on the risk it is given, got a {certificate.name!r} certificate of another; pass "
            f"functools.partial(maurer, kl_nats=..., n=..., failure_prob=...) or its like."
        )
    return BrierRisk(certificate=certificate)
