"""The binary relative entropy and its inverses, rounded so that a certificate can rest on them.

    kl(q‖p) = q ln(q/p) + (1-q) ln((1-q)/(1-p))    in nats

All three are functions of float64 arrays: they broadcast as ufuncs do, and take numbers, lists and arrays. Invalid
input (NaN, a rate outside [0, 1], negative nats) gives NaN; the functions that return certificates refuse it
beforehand.

Why the inverses are safe. Write u = 2⁻⁵³ and T(a, b) = a ln(a/b) - a + b ≥ 0.
1. kl(q‖p) = T(q, p) + T(1-q, 1-p): two non-negative terms, so nothing cancels between them. Each is a·h(d/a)
   with d = b - a and h(x) = x - ln(1+x), by an atanh series when |d| is small against a. To first order its
   relative error is at most 16u, given a logarithm good to one ulp. ``_SLACK`` is 24u.
2. A point p is returned only when a computed kl(q‖·) proves that the exact kl(q‖p) is at least nats: by its value
   at p, or by its value at a point nearby, above whose tangent the convex function kl(q‖·) lies. So p lies at or
   beyond the true inverse however the iteration that found it behaved.
3. Below 2⁻⁸⁰⁰ nats the products underflow and step 1 fails. There either the inverse is within one ulp of q, or q is
   below 2⁻⁶⁰⁰, where T(q, p), which is homogeneous, is kl to more digits than an ulp has: rate and nats are scaled by
   2⁴⁸⁰ exactly, and what the inverse loses by it, a relative 2⁻¹²⁰, is less than the ulp that is added.

Maurer's constant ln ξ(n), what a PAC-Bayes bound of kl pays for all risks at once, stands here too.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
from functools import lru_cache
from math import ceil, exp, expm1, inf, log, log1p, nan, pi, sqrt

import numpy as np

from bounds._arithmetic import elementwise, jit, outward
from bounds._check import door

_SLACK = 24 * 2.0**-53
_TINY_NATS = 2.0**-800
_TINY_RATE = 2.0**-600
_SCALE = 2.0**480
_EVEN = tuple(1.0 / (4 * k + 3) for k in range(13))
_ODD = tuple(1.0 / (4 * k + 5) for k in range(13))
_EXACT_UP_TO = 10**10


@jit
def _series(y: float) -> float:
    """Σ_k y^k/(2k+3) for 0 ≤ y < 0.184, to within 2⁻⁵³; even and odd powers apart, as two shorter chains."""
    terms = 5 if y < 0.02 else 13
    z = y * y
    even = odd = 0.0
    for k in range(terms - 1, -1, -1):
        even = even * z + _EVEN[k]
        odd = odd * z + _ODD[k]
    return even + y * odd


@jit
def _term(a: float, b: float, d: float) -> float:
    """T(a, b) = a ln(a/b) - a + b for a, b ≥ 0 with d = b - a given separately."""
    if a == 0.0:
        return b
    if b == 0.0:
        return inf
    if -0.6 * a < d < 0.8 * a:
        r = d / (a + b)
        y = r * r
        return r * (d - 2.0 * a * y * _series(y))
    if a < 1e-290 * b or b < 1e-290 * a:
        return d - a * (log(b) - log(a))
    return d - a * log(b / a)


@jit
def _kl(q: float, p: float) -> float:
    d = p - q
    return _term(q, p, d) + _term(1.0 - q, 1.0 - p, -d)


@jit
def _up(p: float) -> float:
    return np.nextafter(p, inf)


@jit
def _down(p: float) -> float:
    return np.nextafter(p, -inf)


@jit
def _upper(q: float, nats: float) -> float:
    """The upper inverse for 0 < q < 1 and nats neither tiny nor 40.

    One or two of Halley's steps in s = -ln(1-p), in which kl is nearly linear, from a start that is within 2.3% of
    p - q; then Newton's step in p from a point where kl is known to within its rounding error, which the convexity
    of kl makes safe, repeated until what it may overshoot is two ulp (see the module head).
    """
    rest = 1.0 - q
    a, b = sqrt(nats / rest), sqrt(2.0 * q)
    p = max(q - rest * expm1(-a * (a + 6.0 * q / (3.0 * b + (1.0 + q) * a))), _up(q))
    if p >= 1.0:
        return 1.0
    d = p - q
    for _ in range(30):
        if d <= 1e-3 * q:  # plain logarithms would cancel; unless q is near 1, the start is good to 1e-7
            break
        u = 1.0 - p
        newton = (q * log(q / p) + rest * log1p(d / u) - nats) * (p / d)
        s = newton / (1.0 - 0.5 * (newton / p) * (q / d) * u)
        step = u * s / (1.0 - s * (0.5 - s / 12.0))  # 1 - e^(-s), nearly, and below 1
        p = min(p - step, 1.0 - 2.0**-53)
        d = p - q
        if abs(step) <= 0.03 * d:
            break
    p = max(p, _up(q))
    for _ in range(60):
        d = p - q
        u = 1.0 - p
        known = _kl(q, p)
        shift = (nats - known + _SLACK * known) * (p * u / d)
        overshoot = 0.5 * shift * ((shift / (p * u)) * (q * rest / d + d))
        p += shift
        p += 2.0**-52 * p  # one ulp or two, for the rounding of the last sums
        if p >= 1.0 or overshoot <= 2.0**-51 * p:
            return min(p, 1.0)
    return 1.0


@jit
def _lower(q: float, nats: float) -> float:
    """The lower inverse for 0 < q < 1 and nats that are not tiny.

    Newton's method in s = ln p, kept inside q - p ≤ √(nats/2) and p ≥ q exp(-(nats - (1-q) ln(1-q))/q); nudge and
    acceptance test as for ``binary_kl_upper``.
    """
    rest = 1.0 - q
    cost = nats - rest * log1p(-q)
    left = q * exp(-cost / q) if cost < 745.0 * q else 0.0
    left = max(left, q - sqrt(0.5 * nats))
    if left <= 0.0:
        return 0.0
    guess = sqrt(2.0 * q * rest) * sqrt(nats) - (2.0 / 3.0) * (1.0 - 2.0 * q) * nats
    p = q - guess if guess > 0.0 else left
    p = min(max(p, left), _down(q))
    for iteration in range(80):
        if p <= 0.0:
            break
        d = q - p
        gap = _kl(q, p) - nats
        step = p * expm1((gap / d) * (1.0 - p))
        p = max(p + step, left)
        if p >= q or (gap <= 0.0 and iteration > 0):
            break
        if abs(step) <= 1e-9 * p and abs(step) <= 1e-5 * d:
            break
    p = min(p, _down(q))
    if p <= 0.0:
        return 0.0
    width = 1.25 * _SLACK * nats * (p * (1.0 - p) / (q - p))
    p = _down(p - width)
    while p > 0.0 and _kl(q, p) < nats * (1.0 + _SLACK):
        width = 2.0 * width + 2.0**-52 * p
        p = _down(p - width)
    return max(p, 0.0)


@elementwise
def binary_kl(q: float, p: float) -> float:
    """kl(q‖p) in nats between Bernoulli laws of means ``q`` and ``p``, both in [0, 1].

    Infinite when p is 0 or 1 and q is not. Relative error at most 16·2⁻⁵³ for values above 1e-290 (proof sketch in
    docs/guarantees.md, "Inverting kl"). NaN when an argument is NaN or outside [0, 1].
    """
    if not (q >= 0.0 and q <= 1.0 and p >= 0.0 and p <= 1.0):
        return nan
    return _kl(q, p)


@elementwise
def binary_kl_upper(q: float, nats: float) -> float:
    """The largest p with kl(q‖p) ≤ nats, rounded up.

    ``q`` is a rate in [0, 1], ``nats`` a non-negative number or infinity (which gives 1). NaN on invalid input.

    Formal guarantee: never below the exact inverse, and at most 64 ulp above it.
    """
    if not (q >= 0.0 and q <= 1.0 and nats >= 0.0):
        return nan
    if nats == 0.0 or q == 1.0:
        return q
    if nats >= 40.0:  # the inverse is above 1 - 2⁻⁵³
        return 1.0
    if q == 0.0:
        return min(1.0, _up(_up(-expm1(-nats))))
    if nats < _TINY_NATS:
        return _up(q) if q >= _TINY_RATE else _up(_upper(q * _SCALE, nats * _SCALE) / _SCALE)
    return _upper(q, nats)


@elementwise
def binary_kl_lower(q: float, nats: float) -> float:
    """The smallest p with kl(q‖p) ≤ nats, rounded down.

    ``q`` is a rate in [0, 1], ``nats`` a non-negative number or infinity (which gives 0, and 0 it is whenever the
    inverse underflows). NaN on invalid input.

    Formal guarantee: never above the exact inverse.
    """
    if not (q >= 0.0 and q <= 1.0 and nats >= 0.0):
        return nan
    if nats == 0.0 or q == 0.0:
        return q
    if q == 1.0:
        return max(0.0, _down(_down(exp(-nats)))) if nats < 745.0 else 0.0
    if nats < _TINY_NATS:
        return _down(q) if q >= _TINY_RATE else max(0.0, _down(_lower(q * _SCALE, nats * _SCALE) / _SCALE))
    return _lower(q, nats)


@elementwise
def poisson_kl(a: float, b: float, difference: float) -> float:
    """T(a, b) = a ln(a/b) - a + b ≥ 0 in nats, with ``difference`` = b - a given to full relative accuracy.

    A building block (the divergence between Poisson laws of means a and b); relative error at most 16·2⁻⁵³.
    """
    return _term(a, b, difference)


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
