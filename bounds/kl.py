"""The binary relative entropy and its inverses, rounded so that a certificate can rest on them.

    kl(q‖p) = q ln(q/p) + (1-q) ln((1-q)/(1-p))    in nats

All three are NumPy ufuncs over float64: they broadcast, and take numbers, lists and arrays. Invalid input (NaN,
a rate outside [0, 1], negative nats) gives NaN; the functions that return certificates refuse it beforehand.

Why the inverses are safe. Write u = 2⁻⁵³ and T(a, b) = a ln(a/b) - a + b ≥ 0.
1. kl(q‖p) = T(q, p) + T(1-q, 1-p): two non-negative terms, so nothing cancels between them. Each is a·h(d/a)
   with d = b - a and h(x) = x - ln(1+x), by an atanh series when |d| is small against a. To first order its
   relative error is at most 16u (3u on the input times a condition number below 2.85, and 6u in the series),
   given a logarithm good to one ulp. ``_SLACK`` is 24u.
2. A candidate p is returned only when the computed kl(q‖p) is at least nats·(1 + 24u). The exact kl(q‖p) is
   then at least nats, so p lies at or beyond the true inverse however the iteration that found it behaved.
3. Below 2⁻⁸⁰⁰ nats the products underflow and step 1 fails. There either the inverse is within one ulp of q,
   or q is so small that T(q, p) ≤ kl(q‖p) is kl to all digits; T is homogeneous, and is inverted after an
   exact scaling by 2⁷⁰⁰.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownVariableType=false, reportUnknownMemberType=false
import math
from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
from numba import njit, vectorize

_SLACK = 24 * 2.0**-53
_TINY_NATS = 2.0**-800
_TINY_RATE = 2.0**-600
_SCALE = 2.0**700

_Scalar = TypeVar("_Scalar", bound=Callable[..., float])


# cache=True is sound because every callee is in this file: Numba notices edits here and nowhere else.
def _jit(function: _Scalar) -> _Scalar:
    return cast(_Scalar, njit(cache=True, error_model="numpy")(function))


def _ufunc(function: Callable[..., float]) -> np.ufunc:
    arguments = ", ".join(["float64"] * function.__code__.co_argcount)
    return cast(np.ufunc, vectorize([f"float64({arguments})"], cache=True)(function))


@_jit
def _term(a: float, b: float, d: float) -> float:
    """T(a, b) = a ln(a/b) - a + b for a, b ≥ 0 with d = b - a given separately."""
    if a == 0.0:
        return b
    if b == 0.0:
        return math.inf
    if a < 1e-290 * b or b < 1e-290 * a:
        return d - a * (math.log(b) - math.log(a))
    x = d / a
    if not -0.6 < x < 0.8:
        return d - a * math.log(b / a)
    r = x / (2.0 + x)
    y = r * r
    terms = 6 if y < 0.002 else 11 if y < 0.03 else 25
    series = 0.0
    for k in range(terms - 1, -1, -1):
        series = series * y + 1.0 / (2 * k + 3)
    return a * (r * (x - 2.0 * y * series))


@_jit
def _kl(q: float, p: float) -> float:
    d = p - q
    return _term(q, p, d) + _term(1.0 - q, 1.0 - p, -d)


@_jit
def _up(p: float) -> float:
    return np.nextafter(p, math.inf)


@_jit
def _down(p: float) -> float:
    return np.nextafter(p, -math.inf)


@_jit
def _tiny_upper(q: float, nats: float) -> float:
    """The inverse of T(q, ·) above q, for nats below _TINY_NATS."""
    if q >= _TINY_RATE:
        return _up(q)
    a, c = q * _SCALE, nats * _SCALE
    b = a + (c + math.sqrt(c) * math.sqrt(c + 2.0 * a))  # T(a, b) ≥ (b-a)²/(2b), so this is beyond the inverse
    for _ in range(60):
        if b <= a:
            break
        step = (_term(a, b, b - a) - c) / ((b - a) / b)
        b -= step
        if abs(step) <= 1e-9 * (b - a):
            break
    b = max(b, _up(a))
    width = 1.25 * _SLACK * c * (b / (b - a))
    b = _up(b + width)
    while _term(a, b, b - a) < c * (1.0 + _SLACK):
        width = 2.0 * width + 2.0**-52 * b
        b = _up(b + width)
    return _up(b / _SCALE)


@_jit
def _tiny_lower(q: float, nats: float) -> float:
    """The inverse of T(q, ·) below q, for nats below _TINY_NATS."""
    if q >= _TINY_RATE:
        return _down(q)
    a, c = q * _SCALE, nats * _SCALE
    exponent = 1.0 + c / a
    b = a * math.exp(-exponent) if exponent < 745.0 else 0.0
    b = max(b, a - math.sqrt(2.0 * a) * math.sqrt(c))
    for _ in range(60):
        if b <= 0.0 or b >= a:
            break
        step = b * math.expm1((_term(a, b, b - a) - c) / (a - b))
        b += step
        if abs(step) <= 1e-9 * b and abs(step) <= 1e-5 * (a - b):
            break
    b = min(b, _down(a))
    width = 1.25 * _SLACK * c * (b / (a - b))
    b = _down(b - width)
    while b > 0.0 and _term(a, b, b - a) < c * (1.0 + _SLACK):
        width = 2.0 * width + 2.0**-52 * b
        b = _down(b - width)
    return max(_down(b / _SCALE), 0.0) if b > 0.0 else 0.0


@_ufunc
def binary_kl(q: float, p: float) -> float:
    """kl(q‖p) in nats between Bernoulli laws of means ``q`` and ``p``, both in [0, 1]; a ufunc over float64.

    Infinite when p is 0 or 1 and q is not. Relative error at most 16·2⁻⁵³ for values above 1e-290 (proof sketch in
    docs/guarantees.md, "Inverting kl"). NaN when an argument is NaN or outside [0, 1].
    """
    if not (q >= 0.0 and q <= 1.0 and p >= 0.0 and p <= 1.0):
        return math.nan
    return _kl(q, p)


@_ufunc
def binary_kl_upper(q: float, nats: float) -> float:
    """The largest p with kl(q‖p) ≤ nats, rounded up; a ufunc over float64.

    ``q`` is a rate in [0, 1], ``nats`` a non-negative number or infinity (which gives 1). NaN on invalid input.

    Formal guarantee: never below the exact inverse, and at most 64 ulp above it.

    Newton's method in s = -ln(1-p), in which kl is convex, started and kept inside p - q ≤ √(nats/2),
    p - q ≤ nats + √(nats² + 2 q nats) and 1 - p ≥ exp(-(nats + H(q))/(1-q)); then a nudge outward that is
    returned only if the computed kl there exceeds nats by more than its own rounding error (see the module head).
    """
    if not (q >= 0.0 and q <= 1.0 and nats >= 0.0):
        return math.nan
    if nats == 0.0 or q == 1.0:
        return q
    if nats >= 40.0:  # the inverse is above 1 - 2⁻⁵³
        return 1.0
    if q == 0.0:
        return min(1.0, _up(_up(-math.expm1(-nats))))
    if nats < _TINY_NATS:
        return _tiny_upper(q, nats)
    rest = 1.0 - q
    bracket = nats + math.sqrt(nats) * math.sqrt(nats + 2.0 * q)
    guess = math.sqrt(2.0 * q * rest) * math.sqrt(nats) + (2.0 / 3.0) * (1.0 - 2.0 * q) * nats
    if guess <= 0.0 or guess > bracket:
        guess = bracket
    right = q + min(bracket, math.sqrt(0.5 * nats))
    if right >= 0.5:
        entropy = -q * math.log(q) - rest * math.log1p(-q)
        right = min(right, 1.0 - math.exp(-(nats + entropy) / rest))
        if right >= 1.0:
            return 1.0
    p = max(min(q + guess, right), _up(q))
    if p >= 1.0:
        return 1.0
    for iteration in range(60):
        d = p - q
        gap = _kl(q, p) - nats
        step = (1.0 - p) * math.expm1(gap / (d / p))
        p = min(p - step, right)
        if p <= q or (gap <= 0.0 and iteration > 0):
            break
        if abs(step) <= 1e-9 * p and abs(step) <= 1e-5 * d:
            break
    p = max(p, _up(q))
    width = 1.25 * _SLACK * nats * (p * (1.0 - p) / (p - q))
    p = _up(p + width)
    while p < 1.0 and _kl(q, p) < nats * (1.0 + _SLACK):
        width = 2.0 * width + 2.0**-52 * p
        p = _up(p + width)
    return min(p, 1.0)


@_ufunc
def binary_kl_lower(q: float, nats: float) -> float:
    """The smallest p with kl(q‖p) ≤ nats, rounded down; a ufunc over float64.

    ``q`` is a rate in [0, 1], ``nats`` a non-negative number or infinity (which gives 0, and 0 it is whenever the
    inverse underflows). NaN on invalid input.

    Formal guarantee: never above the exact inverse.

    Newton's method in s = ln p, kept inside q - p ≤ √(nats/2) and p ≥ q exp(-(nats - (1-q) ln(1-q))/q); nudge and
    acceptance test as for ``binary_kl_upper``.
    """
    if not (q >= 0.0 and q <= 1.0 and nats >= 0.0):
        return math.nan
    if nats == 0.0 or q == 0.0:
        return q
    if q == 1.0:
        return max(0.0, _down(_down(math.exp(-nats)))) if nats < 745.0 else 0.0
    if nats < _TINY_NATS:
        return _tiny_lower(q, nats)
    rest = 1.0 - q
    cost = nats - rest * math.log1p(-q)
    left = q * math.exp(-cost / q) if cost < 745.0 * q else 0.0
    left = max(left, q - math.sqrt(0.5 * nats))
    if left <= 0.0:
        return 0.0
    guess = math.sqrt(2.0 * q * rest) * math.sqrt(nats) - (2.0 / 3.0) * (1.0 - 2.0 * q) * nats
    p = q - guess if guess > 0.0 else left
    p = min(max(p, left), _down(q))
    for iteration in range(80):
        if p <= 0.0:
            break
        d = q - p
        gap = _kl(q, p) - nats
        step = p * math.expm1((gap / d) * (1.0 - p))
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


@_ufunc
def poisson_kl(a: float, b: float, difference: float) -> float:
    """T(a, b) = a ln(a/b) - a + b ≥ 0 in nats, with ``difference`` = b - a given to full relative accuracy.

    A building block (the divergence between Poisson laws of means a and b); relative error at most 16·2⁻⁵³.
    """
    return _term(a, b, difference)
