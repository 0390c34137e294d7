"""Numbers with error bars. Every function returns a ball (Arb) that contains the exact value; a float is exact."""

from collections.abc import Callable, Iterable
from functools import lru_cache
from math import inf, nextafter

from flint import arb, ctx  # pyright: ignore[reportMissingImports]

ctx.prec = 160  # bits
ctx.cap = 1025  # terms of a series, up to the order 1024
_NARROW = arb(2) ** -80
_APART = [arb(2) ** -power for power in (40, 60, 80)]
ZERO = arb(0)
ONE = arb(1)
INFINITE = arb("inf")
LEAST_TAIL = arb(1e-100)
"""Of smaller ones double precision may know that they lie below Chernoff's bound, and no more."""
Real = float | int


def ball(value: Real) -> arb:
    """The number that a float or a whole number is."""
    whole = float(value).is_integer()
    return arb(int(value) if whole else value)


def total(values: Iterable[arb]) -> arb:
    """The sum; 0 of none."""
    return sum(values, ZERO)


def least(values: Iterable[arb]) -> arb:
    """The ball whose middle is the smallest."""
    return min(values, key=float)


def largest(values: Iterable[arb]) -> arb:
    """The ball whose middle is the largest."""
    return max(values, key=float)


def log_sum(logs: list[arb]) -> arb:
    """ln Σ e^x over these x."""
    top = largest(logs).mid()
    whole = total((log - top).exp() for log in logs)
    return top + whole.log()


def zero_of(
    rising: Callable[[arb], arb], low: Real | arb, high: Real | arb
) -> arb:
    """Where a function that grows from below 0 at ``low`` to above 0 at ``high`` is 0; every sign is certain."""
    low, high = arb(low), arb(high)
    below = arb(-1)
    above = arb(1)
    side = 0
    for step in range(300):
        if high - low < _NARROW:
            break
        weight = below / (below - above)  # the Illinois rule
        if step % 4 == 0:
            weight = arb(0.5)
        guess = (low + (high - low) * weight).mid()
        height = rising(guess)
        if height < 0:
            above /= 2 if side < 0 else 1
            low = guess
            below = height
            side = -1
        elif height > 0:
            below /= 2 if side > 0 else 1
            high = guess
            above = height
            side = 1
        else:  # the precision tells no sign here, and may beside it
            for apart in _APART:
                near = guess - apart
                far = guess + apart
                if near > low and rising(near) < 0:
                    low = near
                if far < high and rising(far) > 0:
                    high = far
            break
    return low.union(high)


def binary_kl(q: arb, p: arb) -> arb:
    """kl(q‖p) = q ln(q/p) + (1-q) ln((1-q)/(1-p)), for p strictly between 0 and 1."""
    divergence = ZERO
    for a, b in ((q, p), (1 - q, 1 - p)):
        if a != 0:
            divergence += a * (a / b).log()
    return divergence


def kl_upper(q: arb, cost: arb) -> arb:
    """sup{p : kl(q‖p) ≤ cost}; 1 where nothing below it is reached."""
    q = q.min(ONE)
    if q == 1 or not cost.is_finite():
        return ONE
    if cost <= 0:
        return q
    return zero_of(lambda p: binary_kl(q, p) - cost, q, 1)


def binomial_below(errors: int, n: int, p: arb) -> arb:
    """P(Bin(n, p) ≤ errors), from its largest term down; what is left at the end is below a geometric series."""
    if errors >= n or p <= 0:
        return ONE
    if errors > n * float(p):  # the terms above shrink
        return 1 - binomial_below(n - errors - 1, n, 1 - p)
    term = arb.bin_uiui(n, errors)
    term = term * p**errors * (1 - p) ** (n - errors)
    whole = term
    odds = p / (1 - p)
    for k in range(errors, 0, -1):
        ratio = k / (odds * (n - k + 1))
        term *= ratio
        whole += term
        if term < whole * _NARROW**2:
            return whole + ZERO.union(term * ratio / (1 - ratio))
    return whole


def binomial_upper(errors: int, n: int, failure_prob: arb) -> arb:
    """sup{p : P(Bin(n, p) ≤ errors) ≥ failure_prob}: Clopper and Pearson's upper limit."""
    if errors == n:
        return ONE
    return zero_of(
        lambda p: failure_prob - binomial_below(errors, n, p), 0, 1
    )


def binomial_lower(errors: int, n: int, failure_prob: arb) -> arb:
    """inf{p : P(Bin(n, p) ≥ errors) ≥ failure_prob}."""
    return 1 - binomial_upper(n - errors, n, failure_prob)


@lru_cache(maxsize=64)
def log_xi(n: int) -> arb:
    """ln Σ_k C(n,k) (k/n)^k (1-k/n)^(n-k) = ln(1 + n! e^n n^(-n) P(Poisson(n) < n)), by Abel's identity."""
    m = arb(n)
    log_scale = (m + 1).lgamma() + m - m * m.log()
    terms = log_scale.exp() * m.gamma_upper(m, True)
    return (1 + terms).log()


def log_choose(n: int, k: int) -> arb:
    """ln C(n, k)."""
    return arb.bin_uiui(n, k).log()


def normal_above(z: arb) -> arb:
    """P(N(0, 1) > z)."""
    return (z / arb(2).sqrt()).erfc() / 2


def upper(x: arb) -> float:
    """A float at or above the ball."""
    return nextafter(float(x.upper()), inf)


def lower(x: arb) -> float:
    """A float at or below the ball."""
    return nextafter(float(x.lower()), -inf)
