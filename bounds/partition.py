"""Lower bounds on the log partition function ln Z = ln E_{w~P} e^(-loss(w)) of a Gibbs posterior, with a guarantee.

``loss`` is in nats: an inverse temperature tau times a mean loss. A lower bound on ln Z is an upper bound on KL(Q‖P)
(``bounds.gibbs_posterior.gibbs_kl_upper``) and needs draws of the prior only, none of the posterior. Probabilities are
over the draws, for a prior, a loss and a tau that were settled before them.

Everywhere ``log_mean_exp`` is ln Ẑ, the logarithm of the mean of e^(-loss) over ``draws`` independent prior draws, as
from ``log_mean_exp`` (-inf is allowed and says nothing); ``mean_loss`` is the mean of R̂ over them, in [loss_low,
loss_high], the smallest and the largest that is possible; ``tau`` is in nats per unit of mean loss. Arguments out of
range raise ValueError. Proofs: docs/guarantees.md, "Log partition function".
"""

from collections.abc import Mapping
from math import exp, fsum, inf, log, log1p
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from bounds._arithmetic import log_inverse, outward
from bounds._check import door, real, vector
from bounds.kl import binary_kl_lower, binary_kl_upper
from bounds.record import record

# Below this ln Ẑ its exponential loses digits; a Chernoff bound there would need e^600 draws to say anything.
_SMALLEST_LOG = -600.0
_LARGEST = 1e300  # of losses in nats: their sums must be numbers too
_ULP = 2.0**-52


def log_mean_exp(values: ArrayLike) -> float:
    """ln of the mean of e^x over a list of numbers x, rounded down; -inf counts as e^x = 0.

    Formal guarantee: at most ln mean e^x in exact arithmetic. (A lower bound on ln Z may rest on it: see
    :func:`log_partition_lower`.) A term e^d is within 4 ulp and within |d| ulp more, as d = x - largest is rounded, and
    their sum is exact.
    """
    x = vector("values", values)
    if not (x < inf).all():
        raise ValueError("values must be below infinity and not NaN; has the loss overflowed?")
    largest = float(x.max())
    if largest == -inf:
        return largest
    with np.errstate(over="ignore"):
        away = np.maximum(x - largest, -800.0)  # where e^d is 0
    terms = np.exp(away)
    whole = fsum(terms)  # at least 1
    log_mean = log(whole / x.size)
    lost = outward(_ULP * fsum(terms * (8.0 - away)) / whole)
    return largest + log_mean - outward(2.0 * _ULP * (2.0 + abs(log_mean) + abs(largest)) - log1p(-lost))


@record
class LogPartition:
    """A lower bound on ln Z that holds with probability 1 - ``failure_prob``, to be charged to who uses it.

    ``nats`` is the largest of the ``candidates``, all of which hold together, and ``method`` says which one.
    """

    nats: float
    method: str
    failure_prob: float
    candidates: Mapping[str, float]


@door()
def log_partition_lower(log_mean_exp: float, failure_prob: float) -> float:
    """ln Z ≥ ln Ẑ - ln(1/failure_prob), rounded down, for an unbiased estimate Ẑ ≥ 0 of Z, by Markov's inequality.

    Formal guarantee: if E Ẑ ≤ Z and Ẑ ≥ 0, then ln Z ≥ value with probability at least 1 - failure_prob; nothing else
    is asked of Ẑ. The mean of e^(-loss) over exact independent prior draws qualifies, and so does that of importance
    weights, whose proposals are drawn from known densities; draws of Q do not.
    """
    if log_mean_exp == inf:
        raise ValueError("log_mean_exp must be below infinity, got inf; has the loss overflowed?")
    return _lowered(log_mean_exp - log_inverse(failure_prob), abs(log_mean_exp) + 1.0)


@door()
def log_partition_chernoff(*, log_mean_exp: float, draws: int, failure_prob: float) -> float:
    """ln Z ≥ ln kl₋⁻¹(Ẑ, ln(1/failure_prob)/draws), rounded down, for a loss ≥ 0.

    kl₋⁻¹ is the lower inverse and Ẑ the mean of e^(-loss) ∈ [0, 1] over independent draws of the prior. Better than
    ``log_partition_lower`` when Ẑ is several times ln(1/failure_prob)/draws, which asks for many draws or a small loss.

    Formal guarantee: for exact, independent draws of P and a loss ≥ 0, ln Z ≥ value with probability at least
    1 - failure_prob; together with ``log_partition_lower`` at the same Ẑ and failure_prob, without any split.
    """
    if log_mean_exp > 0.0:
        raise ValueError(f"log_mean_exp must be at most 0, got {log_mean_exp!r}; shift the loss so that it is ≥ 0.")
    if log_mean_exp < _SMALLEST_LOG:
        return -inf
    below = exp(log_mean_exp) * (1.0 - 2.0**-50)
    rate = binary_kl_lower(below, outward(log_inverse(failure_prob) / draws))
    return _lowered(log(rate), abs(log(rate))) if rate > 0.0 else -inf


@door(mean_loss=real)
def log_partition_jensen(
    *, mean_loss: float, tau: float, loss_low: float, loss_high: float, draws: int, failure_prob: float
) -> float:
    """ln Z ≥ -tau E_P R̂ ≥ -tau · (upper confidence bound on E_P R̂), rounded down, for loss = tau R̂.

    Jensen's inequality, and the Chernoff bound for the mean of R̂ ∈ [loss_low, loss_high] over independent draws of the
    prior. Good while tau times the spread of R̂ under the prior is small.

    Formal guarantee: for exact, independent draws of P, ln Z ≥ value with probability at least 1 - failure_prob.
    """
    check_loss(tau, loss_low, loss_high)
    if not loss_low <= mean_loss <= loss_high:
        raise ValueError(f"mean_loss must lie in [{loss_low!r}, {loss_high!r}], got {mean_loss!r}; check the interval.")
    spread = outward(loss_high - loss_low)
    rate = min(1.0, outward((mean_loss - loss_low) / (loss_high - loss_low)))
    upper = loss_low + spread * binary_kl_upper(rate, outward(log_inverse(failure_prob) / draws))
    return max(_lowered(-tau * upper, tau * (abs(loss_low) + spread)), _floor(tau, loss_low, loss_high))


@door()
def log_partition_best(
    *,
    log_mean_exp: float,
    mean_loss: float,
    tau: float,
    loss_low: float,
    loss_high: float,
    draws: int,
    failure_prob: float,
) -> LogPartition:
    """The best of Markov, Chernoff, Jensen and the certain bound -tau·loss_high, all from the same prior draws.

    Markov and Chernoff read the same Ẑ, and each fails when Ẑ is above a threshold; the lower threshold decides, so
    both hold together at failure_prob/2. Jensen reads another mean and gets the other half.

    Formal guarantee: for exact, independent draws of P and R̂ in [loss_low, loss_high], all candidates are at most ln Z
    with probability at least 1 - failure_prob.
    """
    half = failure_prob / 2.0
    jensen = log_partition_jensen(
        mean_loss=mean_loss, tau=tau, loss_low=loss_low, loss_high=loss_high, draws=draws, failure_prob=half
    )
    size = abs(log_mean_exp) + tau * abs(loss_low) if log_mean_exp > -inf else 0.0
    shifted = log_mean_exp + tau * loss_low
    if shifted > 2.0**-40 * (1.0 + size):
        raise ValueError(
            f"log_mean_exp must be at most -tau * loss_low = {-tau * loss_low!r}, got {log_mean_exp!r}; "
            f"some draw has a loss below loss_low."
        )
    chernoff = log_partition_chernoff(log_mean_exp=min(0.0, _lowered(shifted, size)), draws=draws, failure_prob=half)
    candidates = {
        "certain": _floor(tau, loss_low, loss_high),
        "markov": log_partition_lower(log_mean_exp, half),
        "chernoff": _lowered(chernoff - tau * loss_low, size + abs(chernoff) if chernoff > -inf else 0.0),
        "jensen": jensen,
    }
    method, known = max(candidates, key=candidates.__getitem__), MappingProxyType(candidates)
    return LogPartition(nats=known[method], method=method, failure_prob=failure_prob, candidates=known)


def check_loss(tau: float, loss_low: float, loss_high: float) -> None:
    """Refuse an interval that is empty or infinite, or too large."""
    if not -inf < loss_low < loss_high < inf:
        raise ValueError(
            f"loss_low must be below loss_high, both finite, got {loss_low!r} and {loss_high!r}; bound the loss."
        )
    if max(abs(loss_low), abs(loss_high)) * max(1.0, tau) > _LARGEST:
        raise ValueError(
            f"loss_low and loss_high, and tau = {tau!r} times them, must be below 1e300, got {loss_low!r} and "
            f"{loss_high!r}; rescale the loss."
        )


def _floor(tau: float, loss_low: float, loss_high: float) -> float:
    """-tau · loss_high, which ln Z never is below."""
    return _lowered(-tau * loss_high, tau * (abs(loss_low) + abs(loss_high)))


def _lowered(value: float, size: float) -> float:
    """A float below the exact value of a short sum whose terms have magnitude ``size``."""
    return value - 2.0**-49 * size
