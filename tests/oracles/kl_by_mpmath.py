"""The binary relative entropy and its inverse at 50 digits, slowly and without tricks."""

from functools import cache

import mpmath as mp

mp.mp.dps = 50


def kl(q, p):
    """kl(q‖p) of the exact rationals that the floats are."""
    q, p = mp.mpf(q), mp.mpf(p)
    if p in (0, 1):
        return mp.mpf(0) if p == q else mp.inf
    total = q * mp.log(q / p) if q else mp.mpf(0)
    return total + ((1 - q) * (mp.log1p(-q) - mp.log1p(-p)) if q != 1 else 0)


def kl_upper(q, nats):
    """sup{p : kl(q‖p) ≤ nats} to 30 digits, by bisection."""
    low, high, nats = mp.mpf(q), mp.mpf(1), mp.mpf(nats)
    if not mp.isfinite(nats):
        return high
    for _ in range(110):
        middle = (low + high) / 2
        low, high = (middle, high) if kl(q, middle) <= nats else (low, middle)
    return high


@cache
def xi(n):
    """Maurer's constant: sum over k of C(n, k) (k/n)^k (1 - k/n)^(n - k), with 0^0 = 1."""
    inner = mp.fsum(mp.binomial(n, k) * (mp.mpf(k) / n) ** k * (1 - mp.mpf(k) / n) ** (n - k) for k in range(1, n))
    return inner + 2
