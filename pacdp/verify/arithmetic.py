"""Numbers with error bars. Every function returns a ball (Arb) that contains the exact value; a float is exact."""

import math
from collections.abc import Callable
from functools import lru_cache

from flint import arb, ctx  # pyright: ignore[reportMissingImports]

ctx.prec = 160  # bits
_NARROW = arb(2) ** -80
Real = float | int


def ball(value: Real) -> arb:
    """The number that a float or a whole number is."""
    return arb(int(value)) if float(value).is_integer() else arb(value)


def zero_of(rising: Callable[[arb], arb], low: Real | arb, high: Real | arb) -> arb:
    """Where a function that grows from below 0 at ``low`` to above 0 at ``high`` is 0; every sign is certain."""
    low, high, below, above, side = arb(low), arb(high), arb(-1), arb(1), 0
    for step in range(300):
        if high - low < _NARROW:
            break
        weight = arb(0.5) if step % 4 == 0 else below / (below - above)  # halving, or the Illinois rule
        guess = (low + (high - low) * weight).mid()
        height = rising(guess)
        if not (height < 0 or height > 0):  # as close as the precision tells: take the neighbours that are certain
            near, far = guess - _NARROW, guess + _NARROW
            return arb(near if rising(near) < 0 else low).union(arb(far if rising(far) > 0 else high))
        if height < 0:
            low, below, above, side = guess, height, above / 2 if side < 0 else above, -1
        else:
            high, above, below, side = guess, height, below / 2 if side > 0 else below, 1
    return arb(low).union(arb(high))


def binary_kl(q: arb, p: arb) -> arb:
    """kl(q‖p) = q ln(q/p) + (1-q) ln((1-q)/(1-p)), for p strictly between 0 and 1."""
    parts = ((a, b) for a, b in ((q, p), (1 - q, 1 - p)) if a != 0)
    return sum((a * (a / b).log() for a, b in parts), arb(0))


def kl_upper(q: arb, cost: arb) -> arb:
    """sup{p : kl(q‖p) ≤ cost}; 1 where nothing below it is reached."""
    q = q.min(arb(1))
    if q == 1 or not cost.is_finite():
        return arb(1)
    return q if cost <= 0 else zero_of(lambda p: binary_kl(q, p) - cost, q, 1)


def binomial_below(errors: int, n: int, p: arb) -> arb:
    """P(Bin(n, p) ≤ errors), term by term."""
    term, odds = (1 - p) ** n, p / (1 - p)
    whole = term
    for k in range(1, errors + 1):
        term = term * odds * (n - k + 1) / k
        whole += term
    return whole


def binomial_upper(errors: int, n: int, failure_prob: arb) -> arb:
    """sup{p : P(Bin(n, p) ≤ errors) ≥ failure_prob}: Clopper and Pearson's upper limit."""
    if errors == n:
        return arb(1)
    if 2 * errors > n:  # the other terms are fewer
        return zero_of(lambda p: failure_prob - 1 + binomial_below(n - errors - 1, n, 1 - p), 0, 1)
    return zero_of(lambda p: failure_prob - binomial_below(errors, n, p), 0, 1)


def binomial_lower(errors: int, n: int, failure_prob: arb) -> arb:
    """inf{p : P(Bin(n, p) ≥ errors) ≥ failure_prob}."""
    return 1 - binomial_upper(n - errors, n, failure_prob)


@lru_cache(maxsize=64)
def log_xi(n: int) -> arb:
    """ln Σ_k C(n,k) (k/n)^k (1-k/n)^(n-k) = ln(1 + n! e^n n^(-n) P(Poisson(n) < n)), by Abel's identity."""
    m = arb(n)
    return (1 + ((m + 1).lgamma() + m - m * m.log()).exp() * m.gamma_upper(m, True)).log()


def log_two_sqrt(n: int) -> arb:
    """ln(2√n)."""
    return (2 * arb(n).sqrt()).log()


def normal_above(z: arb) -> arb:
    """P(N(0, 1) > z)."""
    return (z / arb(2).sqrt()).erfc() / 2


def upper(x: arb) -> float:
    """A float at or above the ball."""
    return math.nextafter(float(x.upper()), math.inf)


def lower(x: arb) -> float:
    """A float at or below the ball."""
    return math.nextafter(float(x.lower()), -math.inf)
