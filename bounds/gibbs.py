"""Gibbs posteriors dQ ∝ e^(-loss) dP from draws: what is proved, and what is an estimate.

    KL(Q‖P) = -E_Q loss - ln Z,    Z = E_P e^(-loss)

``loss`` is in nats (an inverse temperature times a mean loss). Draws of Q come from a Markov chain in practice, so
a certificate that uses them is optimistic; the bound on ln Z from independent prior draws is not.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bounds import _check
from bounds._rounding import log_inverse


class StreamingLogMeanExp:
    """ln of the mean of e^x over all x pushed so far, in constant memory and float64.

    Keeps the largest x and the sum of e^(x - largest), so no x over- or underflows. -inf counts as e^x = 0.
    """

    __slots__ = ("_count", "_largest", "_sum")

    def __init__(self) -> None:
        self._count = 0
        self._largest = -math.inf
        self._sum = 0.0

    def push(self, values: ArrayLike) -> None:
        """Take in a number or an array of numbers. Raises ValueError when one is NaN or plus infinity."""
        batch: Any = np.asarray(values, dtype=np.float64).ravel()
        if np.isnan(batch).any() or (batch == math.inf).any():
            raise ValueError("values must be below infinity and not NaN; has the loss overflowed?")
        self._count += batch.size
        top = float(batch.max(initial=-math.inf))
        if top == -math.inf:
            return
        if top > self._largest:
            self._sum *= math.exp(self._largest - top)
            self._largest = top
        self._sum += float(np.exp(batch - self._largest).sum())

    @property
    def count(self) -> int:
        """How many values were pushed."""
        return self._count

    @property
    def value(self) -> float:
        """ln mean e^x. Raises ValueError before the first value."""
        if self._count == 0:
            raise ValueError("value needs at least one number, got none; push draws first.")
        if self._sum == 0.0:
            return -math.inf
        return self._largest + math.log(self._sum / self._count)


@dataclass(frozen=True, slots=True, kw_only=True)
class GibbsKL:
    """An estimate of KL(Q‖P) in nats for a Gibbs posterior.

    Attributes:
        raw_nats: -E_Q loss - ln Z as estimated; negative when the estimates contradict each other.
        kl_nats: max(0, raw_nats), what a bound may be given.
        clipped: whether raw_nats was negative, and the estimate therefore is known to be wrong.
    """

    raw_nats: float
    kl_nats: float
    clipped: bool


def gibbs_kl(*, mean_loss_nats: float, log_partition_nats: float) -> GibbsKL:
    """KL(Q‖P) = -E_Q loss - ln Z for dQ ∝ e^(-loss) dP.

    Formal guarantee: an upper bound if ``mean_loss_nats`` ≤ E_Q loss and ``log_partition_nats`` ≤ ln Z; with
    estimates in their place, none, and the certificate must say so.

    Args:
        mean_loss_nats: E_Q loss in nats, e.g. tau times the Gibbs risk; 0 is a valid lower bound for a loss ≥ 0.
        log_partition_nats: ln Z = ln E_P e^(-loss) in nats, or a lower bound on it.

    Raises ValueError when an argument is NaN or infinite.
    """
    _check.real(mean_loss_nats=mean_loss_nats, log_partition_nats=log_partition_nats)
    raw = -float(mean_loss_nats) - float(log_partition_nats)
    if not math.isfinite(raw):
        raise ValueError(
            f"mean_loss_nats and log_partition_nats must be finite, got {mean_loss_nats!r} and {log_partition_nats!r}."
        )
    return GibbsKL(raw_nats=raw, kl_nats=max(0.0, raw), clipped=raw < 0.0)


def log_partition_lower(log_mean_exp: float, failure_prob: float) -> float:
    """ln Z ≥ ln Ẑ - ln(1/failure_prob), rounded down, for an unbiased estimate Ẑ ≥ 0 of Z.

    Markov's inequality: P(Ẑ ≥ Z/failure_prob) ≤ failure_prob. ("Log partition function" in docs/guarantees.md.)

    Formal guarantee: if E Ẑ ≤ Z and Ẑ ≥ 0, then ln Z ≥ value with probability at least 1 - failure_prob; nothing else
    is asked of Ẑ. The mean of e^(-loss) over exact independent prior draws qualifies, draws of Q do not.

    Args:
        log_mean_exp: ln Ẑ in nats, as from ``StreamingLogMeanExp``; -inf is allowed and says nothing.
        failure_prob: probability that the bound fails.

    Raises ValueError when ln Ẑ is NaN or plus infinity, or failure_prob is not in (0, 1).
    """
    _check.real(log_mean_exp=log_mean_exp)
    _check.open_probability(failure_prob=failure_prob)
    if log_mean_exp == math.inf:
        raise ValueError("log_mean_exp must be below infinity, got inf; has the loss overflowed?")
    value = log_mean_exp - log_inverse(failure_prob)
    return value - 2.0**-50 * (abs(log_mean_exp) + 1.0)


def weighted_average_size(alpha: float) -> float:
    """(2 - alpha)/alpha: how many equal weights have the variance of exponential weights alpha (1-alpha)^j.

    1.67 for alpha = 0.75, 399 for 0.005: the most independent draws that such a running average can be worth.

    Raises ValueError when alpha is not in (0, 1].
    """
    _check.probability(alpha=alpha)
    _check.positive(alpha=alpha)
    return (2.0 - alpha) / alpha


def effective_sample_size(draws: ArrayLike) -> float:
    """How many independent draws the mean of one stationary chain is worth, between 1 and the length.

    n / τ with τ = -1 + 2 Σ (ρ_2t + ρ_2t+1) over the initial sequence of positive pairs of autocorrelations (Geyer 1992,
    "Practical Markov chain Monte Carlo", section 3.3). A chain that never moves is worth one draw.

    Formal guarantee: none; it is an estimate, and assumes stationarity.

    Raises ValueError when the chain is not one-dimensional, shorter than 4, or not finite.
    """
    chain: Any = np.asarray(draws, dtype=np.float64)
    if chain.ndim != 1 or chain.size < 4:
        raise ValueError(f"draws must be one chain of at least 4 numbers, got shape {chain.shape}; pass chains singly.")
    if not np.isfinite(chain).all():
        raise ValueError("draws must be finite, got a NaN or an infinity among them.")
    n = int(chain.size)
    if float(np.ptp(chain)) == 0.0:
        return 1.0
    scaled = (chain - chain.mean()) / np.ptp(chain)
    spectrum = np.fft.rfft(scaled, 1 << (2 * n - 1).bit_length())
    covariance: Any = np.fft.irfft(np.abs(spectrum) ** 2)[: n - n % 2]
    pairs: Any = (covariance / covariance[0]).reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0.0)
    kept = pairs[: negative[0]] if negative.size else pairs
    time = -1.0 + 2.0 * float(kept.sum())
    return min(float(n), max(1.0, n / max(time, 1.0)))
