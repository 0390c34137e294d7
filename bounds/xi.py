"""ln ξ(n), Maurer's constant, and the 2√n that most papers have in its place."""

from functools import lru_cache
from math import ceil, exp, log, pi, sqrt

import numpy as np

from bounds._check import door
from bounds._rounding import outward

_EXACT_UP_TO = 10**10


@door()
@lru_cache(maxsize=256)
def log_xi(n: int) -> float:
    """ln ξ(n) in nats, rounded up, with ξ(n) = Σ_k C(n,k) (k/n)^k (1-k/n)^(n-k).

    ξ(n) bounds E exp(n kl(R̂‖R)) for any mean R̂ of n independent losses in [0, 1] of mean R (Maurer 2004, "A note on
    the PAC-Bayesian theorem", Theorem 1). ξ(n) ≤ 2√n, but ξ(n) ≈ √(πn/2) is 0.47 nats smaller.

    Evaluated as 1 + Σ_{1≤k≤n} Π_{j<k} (1 - j/n). As 1 - x ≤ e^(-x), the terms after the K-th sum to at most
    (n/K) e^(-K²/(2n)), and ξ(n) ≤ 2 + √(πn/2), which replaces the sum above n = 10¹⁰.

    Formal guarantee: at least ln ξ(n). Raises ValueError when n is not a whole number of at least 1.
    """
    if n > _EXACT_UP_TO:
        return outward(log(2.0 + sqrt(pi * n / 2.0)))
    last = min(n, ceil(10.0 * sqrt(n)))
    products = np.cumprod(1.0 - np.arange(last) / n)
    tail = n / last * exp(-(last**2) / (2.0 * n)) if last < n else 0.0
    xi = 1.0 + float(products.sum()) + tail
    # three roundings a factor, and those of the sum
    return outward(log(xi) + (4.0 * last + 64.0) * 2.0**-53)


@door()
def log_two_sqrt(n: int) -> float:
    """ln(2√n) in nats, rounded up: the constant that most papers have in place of ``log_xi``."""
    return outward(log(2.0) + 0.5 * log(n))
