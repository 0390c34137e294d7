"""KL(Q‖P) of a Gibbs posterior dQ = e^(-tau R̂) dP / Z: what is proved, and what is an estimate.

    KL(Q‖P) = -tau E_Q R̂ - ln Z,    Z = E_P e^(-tau R̂)

Draws of Q come from a Markov chain in practice, so an estimate of E_Q R̂ makes a certificate optimistic. The upper
bound from ln Z alone needs none. Arguments that are out of range, or contradict each other, raise ValueError. Proofs:
docs/guarantees.md, "Divergence of a Gibbs posterior".
"""

from math import inf

from bounds._check import door
from bounds._rounding import outward
from bounds.partition import check_loss


@door()
def gibbs_kl_upper(*, log_partition_lower_nats: float, tau: float, loss_low: float, loss_high: float) -> float:
    """min{ -ln Z - τ·loss_low, τΔ, (τΔ)²/8 } nats with Δ = loss_high - loss_low, rounded up.

    The first is KL(Q‖P) = -ln Z - τ E_Q R̂ with the least R̂ in place of E_Q R̂; the others hold for every prior and
    every sample.

    Formal guarantee: at least KL(Q‖P) for the exact Gibbs posterior, if ``log_partition_lower_nats`` ≤ ln Z and R̂ lies
    in [loss_low, loss_high] for all weights; a bound on ln Z of -inf leaves the other two. What it may fail with, the
    certificate must be charged (``Certificate.charged``).
    """
    size = magnitude(log_partition_lower_nats, tau, loss_low, loss_high)
    spread = outward(tau * (loss_high - loss_low))
    caps = (spread, outward(spread * spread / 8.0))
    if log_partition_lower_nats == -inf:
        return min(caps)
    return min(max(0.0, -log_partition_lower_nats - tau * loss_low) + 2.0**-49 * size, *caps)


def magnitude(log_partition: float, tau: float, low: float, high: float) -> float:
    """What the rounding of sums of the four is relative to; refuses what ln Z is known not to be."""
    check_loss(tau, low, high)
    size = tau * (abs(low) + abs(high)) + (abs(log_partition) if log_partition > -inf else 0.0)
    if log_partition > -tau * low + 2.0**-49 * size:
        raise ValueError(
            f"log_partition_lower_nats must be at most -tau * loss_low = {-tau * low!r}, got {log_partition!r}: "
            f"ln Z never is above it; check the interval and the sign of the loss."
        )
    return size
