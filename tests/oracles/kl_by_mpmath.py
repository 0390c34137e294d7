"""The binary relative entropy and its inverse at 50 digits, slowly and without tricks."""

from functools import cache

import mpmath as mp
from mpmath import binomial, fsum, inf, isfinite, log, log1p, mpf

mp.mp.dps = 50


def kl(q, p):
    """kl(q‖p) of the exact rationals that the floats are."""
    q, p = mpf(q), mpf(p)
    if p in (0, 1):
        return mpf(0) if p == q else inf
    total = q * log(q / p) if q else mpf(0)
    return total + ((1 - q) * (log1p(-q) - log1p(-p)) if q != 1 else 0)


def halved(holds, inside, outside, times=120):
    """The last number at which it ``holds`` on the way from inside to outside, and the first at which it does not."""
    for _ in range(times):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return inside, outside


def kl_upper(q, nats):
    """sup{p : kl(q‖p) ≤ nats} to 30 digits."""
    return halved(lambda p: kl(q, p) <= nats, mpf(q), mpf(1))[1] if isfinite(nats) else mpf(1)


@cache
def xi(n):
    """Maurer's constant: sum over k of C(n, k) (k/n)^k (1 - k/n)^(n - k), with 0^0 = 1."""
    inner = fsum(binomial(n, k) * (mpf(k) / n) ** k * (1 - mpf(k) / n) ** (n - k) for k in range(1, n))
    return inner + 2
