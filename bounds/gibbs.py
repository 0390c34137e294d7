"""KL(Q‖P) of a Gibbs posterior dQ = e^(-tau R̂) dP / Z: what is proved, and what is an estimate.

    KL(Q‖P) = -tau E_Q R̂ - ln Z,    Z = E_P e^(-tau R̂)

Draws of Q come from a Markov chain in practice, so an estimate of E_Q R̂ makes a certificate optimistic. The upper
bound from ln Z alone needs none. Arguments that are out of range, or contradict each other, raise ValueError. Proofs:
docs/guarantees.md, "Divergence of a Gibbs posterior".
"""

import math
from dataclasses import dataclass

from bounds import _check
from bounds._rounding import outward
from bounds.partition import checked_loss


@dataclass(frozen=True, slots=True, kw_only=True)
class GibbsKL:
    """An estimate of KL(Q‖P) in nats for a Gibbs posterior, held between what is known of it.

    Attributes:
        raw_nats: -E_Q loss - ln Z as estimated; negative when the estimates contradict each other.
        kl_nats: raw_nats raised to lower_nats or lowered to upper_nats, what a bound may be given.
        clipped: whether raw_nats was below lower_nats, and the estimate therefore is known to be wrong.
        lower_nats: what KL(Q‖P) cannot be below; 0 at least.
        upper_nats: what KL(Q‖P) cannot be above.
    """

    raw_nats: float
    kl_nats: float
    clipped: bool
    lower_nats: float = 0.0
    upper_nats: float = math.inf

    @property
    def note(self) -> str:
        """One sentence when the estimate is known to be wrong, else the empty string."""
        if self.raw_nats == self.kl_nats:
            return ""
        side = "below" if self.clipped else "above"
        return f"KL was estimated at {self.raw_nats:.6g} nats; it cannot be {side} {self.kl_nats:.6g}, which is used."


def gibbs_kl(
    *, mean_loss_nats: float, log_partition_nats: float, lower_nats: float = 0.0, upper_nats: float = math.inf
) -> GibbsKL:
    """KL(Q‖P) = -E_Q loss - ln Z for dQ ∝ e^(-loss) dP, held within [lower_nats, upper_nats].

    Formal guarantee: ``kl_nats`` ≥ KL(Q‖P) if ``mean_loss_nats`` ≤ E_Q loss and ``log_partition_nats`` ≤ ln Z, or if
    upper_nats ≥ KL(Q‖P) and the estimate is above it; with estimates in their place, none, and the certificate must
    say so. ``kl_nats`` is never below ``lower_nats``, and ``clipped`` and ``note`` tell when the estimate was. E_Q loss
    may be tau times the Gibbs risk, or 0 for a loss ≥ 0; a proved bound comes from ``gibbs_kl_upper``.
    """
    _check.real(mean_loss_nats=mean_loss_nats, log_partition_nats=log_partition_nats)
    _check.nonnegative(lower_nats=lower_nats, upper_nats=upper_nats)
    if lower_nats > upper_nats:
        raise ValueError(f"lower_nats must not exceed upper_nats, got {lower_nats!r} and {upper_nats!r}; one is wrong.")
    raw = -float(mean_loss_nats) - float(log_partition_nats)
    if not math.isfinite(raw):
        raise ValueError(
            f"mean_loss_nats and log_partition_nats must be finite, got {mean_loss_nats!r} and {log_partition_nats!r}."
        )
    low, high = float(lower_nats), float(upper_nats)
    kl = min(max(low, raw), high)
    return GibbsKL(raw_nats=raw, kl_nats=kl, clipped=raw < low, lower_nats=low, upper_nats=high)


def gibbs_kl_upper(*, log_partition_lower_nats: float, tau: float, loss_low: float, loss_high: float) -> float:
    """min{ -ln Z - τ·loss_low, τΔ, (τΔ)²/8 } nats with Δ = loss_high - loss_low, rounded up.

    The first is KL(Q‖P) = -ln Z - τ E_Q R̂ with the least R̂ in place of E_Q R̂; the others hold for every prior and
    every sample.

    Formal guarantee: at least KL(Q‖P) for the exact Gibbs posterior, if ``log_partition_lower_nats`` ≤ ln Z and R̂ lies
    in [loss_low, loss_high] for all weights; a bound on ln Z of -inf leaves the other two. What it may fail with, the
    certificate must be charged (``Certificate.charged``).
    """
    log_partition, tau, low, high, size = checked_partition(log_partition_lower_nats, tau, loss_low, loss_high)
    spread = outward(tau * (high - low))
    caps = (spread, outward(spread * spread / 8.0))
    if log_partition == -math.inf:
        return min(caps)
    return min(max(0.0, -log_partition - tau * low) + 2.0**-49 * size, *caps)


def checked_partition(
    log_partition_lower_nats: float, tau: float, loss_low: float, loss_high: float
) -> tuple[float, float, float, float, float]:
    """The four as floats, and the magnitude that rounding is relative to; refuses what ln Z is known not to be."""
    tau, low, high = checked_loss(tau, loss_low, loss_high)
    _check.real(log_partition_lower_nats=log_partition_lower_nats)
    log_partition = float(log_partition_lower_nats)
    size = tau * (abs(low) + abs(high))
    if log_partition > -math.inf:
        size += abs(log_partition)
    if log_partition > -tau * low + 2.0**-49 * size:
        raise ValueError(
            f"log_partition_lower_nats must be at most -tau * loss_low = {-tau * low!r}, got {log_partition!r}: "
            f"ln Z never is above it; check the interval and the sign of the loss."
        )
    return log_partition, tau, low, high, size
