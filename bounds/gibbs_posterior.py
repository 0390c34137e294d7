"""Certificates for the exact Gibbs posterior dQ ∝ e^(-tau R̂_s) dP that need no draw of it.

R̂_s is the empirical mean of a surrogate loss in [loss_low, loss_high]. A lower bound on ln Z = ln E_P e^(-tau R̂_s),
from draws of the prior, is all that enters: what E_Q R̂_s may be given ln Z, the certificate takes at its worst. It is
about the exact posterior, not about the weights that a Markov chain was at. Arguments out of range, as a bound on
ln Z above -tau·loss_low, raise ValueError. Proofs: docs/guarantees.md.

The divergence is KL(Q‖P) = -tau E_Q R̂ - ln Z. Draws of Q come from a Markov chain in practice, so an estimate of E_Q
R̂ makes a certificate optimistic; the upper bound from ln Z alone needs none.
"""

from collections.abc import Callable
from math import expm1, fsum, inf

import numpy as np

from bounds._arithmetic import inward, outward
from bounds._check import Array, door, probability, real
from bounds.certificate import Certificate
from bounds.hypotheses import declared, merged
from bounds.kl import binary_kl_upper, log_xi
from bounds.partition import check_loss
from bounds.prices import INDEPENDENT, Bill, Price, billed, settled

LOG_PARTITION = "log partition"
_REFERENCE = 'docs/guarantees.md, "Certificates without draws of the posterior"'
_CELLS = 64
_TOLERANCE = 2e-10
_SMALL = 1e-290  # below it differences lose digits, and a bound is 1
_UP = outward(1.0)


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


@door(error_loss=real, log_partition_failure_prob=probability)
def gibbs_pac_bayes(
    *,
    log_partition_lower_nats: float,
    tau: float,
    loss_low: float,
    loss_high: float,
    error_loss: float,
    n: int,
    failure_prob: float,
    log_partition_failure_prob: float,
    price: Price = INDEPENDENT,
) -> Certificate:
    """The 0-1 risk of the exact Gibbs posterior, from ln Z alone.

        R(Q) ≤ max_x kl⁻¹( (x - loss_low)/(error_loss - loss_low), [-ln Z - τx + ln ξ(n) + Λ]/n )

    x stands for E_Q R̂_s, which lies in [loss_low, min(loss_high, -ln Z/τ)]. An error costs at least ``error_loss``,
    hence the first argument; the second has KL(Q‖P) = -ln Z - τx. "Certificates without draws of the posterior" in
    docs/guarantees.md, where also the maximum is bounded from above cell by cell.

    Formal guarantee: for a prior fixed before the sample was seen (or a function of what the price's mechanism
    released, the draws behind ln Z being fresh given sample and release), R(Q) ≤ value for the exact Gibbs posterior Q
    with probability at least 1 - failure_prob - log_partition_failure_prob; τ may depend on the sample.

    Args:
        log_partition_lower_nats: a lower bound on ln Z, as from ``log_partition_best``; -inf says nothing.
        tau: τ, inverse temperature of the posterior, in nats per unit of mean loss.
        loss_low, loss_high: smallest and largest possible surrogate loss.
        error_loss: the least surrogate loss of an example that counts as an error, in (loss_low, loss_high]; ln 2 for
            cross-entropy in nats.
        failure_prob: probability over the sample that the PAC-Bayes bound fails.
        log_partition_failure_prob: probability that the lower bound on ln Z fails; 0 if it is certain.
    """
    known = log_partition, _, low, high = log_partition_lower_nats, tau, loss_low, loss_high
    size = magnitude(*known)
    if not low < error_loss <= high:
        raise ValueError(
            f"error_loss must lie in ({low!r}, {high!r}], got {error_loss!r}; for cross-entropy it is ln 2."
        )
    bill = _billed("gibbs_pac_bayes", price, n, failure_prob, log_partition_failure_prob, log_xi=log_xi(n))
    cap = gibbs_kl_upper(log_partition_lower_nats=log_partition, tau=tau, loss_low=low, loss_high=high)
    free_energy = max(log_partition, -tau * high - 2.0**-49 * size)  # finite, and at most ln Z
    slack, rest = 2.0**-48 * (size + abs(free_energy)), bill.total_nats
    scale = inward(error_loss - low)

    def bound(largest: Array, smallest: Array) -> Array:
        """Above the certificate at every x in [smallest, largest]."""
        with np.errstate(over="ignore"):
            risk = np.minimum(1.0, (largest - low) / scale * _UP)
            kl = np.clip(-free_energy - tau * smallest + slack, 0.0, cap)
            return np.asarray(binary_kl_upper(risk, (kl + rest) / n * _UP))

    top = min(high, max(low, (-free_energy + slack) / tau + slack / tau))
    value, worst = _maximum(bound, low, top) if scale > _SMALL else (1.0, top)
    worst_kl = min(cap, max(0.0, -free_energy - tau * worst))
    return settled(
        bill,
        value,
        of="Gibbs posterior",
        measures="0-1 risk",
        terms={"worst_mean_loss": worst, "worst_kl_nats": worst_kl, "kl_cap_nats": cap},
        inputs={**_inputs(known), "error_loss": error_loss},
        reference=_REFERENCE,
    )


@door(log_partition_failure_prob=probability)
def gibbs_catoni(
    *,
    log_partition_lower_nats: float,
    tau: float,
    loss_low: float,
    loss_high: float,
    n: int,
    failure_prob: float,
    log_partition_failure_prob: float,
    price: Price = INDEPENDENT,
) -> Certificate:
    """Catoni's bound for the surrogate risk of the exact Gibbs posterior, rescaled to [0, 1].

        (R_s(Q) - loss_low)/Δ ≤ [1 - exp((ln Z + τ·loss_low - Λ)/n)] / (1 - e^(-τΔ/n))

    with Δ = loss_high - loss_low. Catoni 2007, Theorem 1.2.1, at the posterior's own temperature C = τΔ,
    where C R̂(Q) + KL(Q‖P) is -ln Z and nothing about the posterior is left to be known.

    Formal guarantee: as for ``gibbs_pac_bayes``, for τ, prior and loss fixed before the sample was seen; the value
    bounds the mean of (ℓ - loss_low)/Δ. Times Δ/(error_loss - loss_low) it bounds the 0-1 risk. Arguments as there.
    """
    known = log_partition, _, low, high = log_partition_lower_nats, tau, loss_low, loss_high
    size, spread = magnitude(*known), tau * (high - low)
    free_energy = outward(spread)
    if log_partition > -inf:
        free_energy = min(free_energy, max(0.0, -log_partition - tau * low) + 2.0**-49 * size)
    bill = _billed("gibbs_catoni", price, n, failure_prob, log_partition_failure_prob, free_energy=free_energy)
    scale = inward(spread / n)
    shrink = -expm1(-scale)
    return settled(
        bill,
        outward(-expm1(-bill.total_per_example) / shrink) if scale > _SMALL else 1.0,
        of="Gibbs posterior",
        measures="surrogate risk, rescaled to [0, 1]",
        terms={"inverse_temperature": spread},
        inputs=_inputs(known),
        reference=_REFERENCE,
    )


def _maximum(bound: Callable[[Array, Array], Array], low: float, high: float) -> tuple[float, float]:
    """A number above bound(x, x) for all x in [low, high], by halving cells; and where it is nearly attained.

    ``bound`` increases in its first argument and decreases in its second, so bound(right, left) is above the whole
    cell. A cell at or below a value already attained is dropped: the maximum returned is no smaller.
    """
    edges = np.linspace(low, high, _CELLS + 1) if high > low else np.array([low, low])
    left, right = edges[:-1], edges[1:]
    attained, where, largest = -inf, low, inf
    for _ in range(60):
        upper, point = bound(right, left), bound(right, right)
        best = int(np.argmax(point))
        if point[best] > attained:
            attained, where = float(point[best]), float(right[best])
        kept = upper > attained
        if not kept.any():
            return attained, where
        largest = float(upper.max())
        if largest <= attained + _TOLERANCE:
            break
        left, right = left[kept], right[kept]
        middle = 0.5 * (left + right)
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
    return largest, where


def _billed(
    formula: str, price: Price, n: int, failure_prob: float, log_partition_failure_prob: float, **nats: float
) -> Bill:
    """The bill with what the bound on ln Z may fail with; its draws are a hypothesis where it can."""
    bill = billed(formula, price, n, failure_prob, **nats)
    if log_partition_failure_prob > 0.0:
        known = declared("draws independent", f"the caller of bounds.{bill.name}")
        bill = bill._replace(hypotheses=merged(bill.hypotheses, (known,)))
    whole = fsum((failure_prob, log_partition_failure_prob))
    if not whole < 1.0:
        raise ValueError(
            f"log_partition_failure_prob and failure_prob must sum to less than 1, got {log_partition_failure_prob!r} "
            f"and {failure_prob!r}."
        )
    budget = {**bill.budget, LOG_PARTITION: log_partition_failure_prob}
    inputs = {**bill.inputs, "log_partition_failure_prob": log_partition_failure_prob}
    return bill._replace(failure_prob=whole, budget=budget, inputs=inputs)


def _inputs(known: tuple[float, ...]) -> dict[str, float]:
    names = ("log_partition_lower_nats", "tau", "loss_low", "loss_high")
    return {name: value for name, value in zip(names, known, strict=False) if value != -inf}
