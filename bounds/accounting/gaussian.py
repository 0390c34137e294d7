"""The Gaussian mechanism without sampling, exactly: every composition of such mechanisms is one of them.

    delta(ε) = Φ(-a) - e^ε Φ(-b) = φ(a) (R(a) - R(b)),   a = ε/μ - μ/2,   b = a + μ,

R the Mills ratio. Balle and Wang (2018), Theorem 8; Dong, Roth and Su (2022), Corollary 2.13 and, for composition,
Corollary 3.3: μ² = Σ μ_t². mu, sensitivity over standard deviation, and epsilon, in nats, are 0 or more; delta lies
strictly between 0 and 1.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
from collections.abc import Callable
from math import exp, inf, sqrt

from scipy.special import erfcx, ndtr

from bounds._check import door
from bounds.accounting.events import delta_in_range

_SLACK = 2.0**-46


@door()
def gaussian_delta(*, mu: float, epsilon: float) -> float:
    """The delta of mu-GDP at epsilon, rounded up.

    Formal guarantee: a mu-GDP mechanism is (epsilon, value)-DP; the Gaussian mechanism with no smaller delta, but for
    rounding.
    """
    return delta_bracket(mu, epsilon)[1]


@door(delta=delta_in_range)
def gaussian_epsilon(*, mu: float, delta: float) -> float:
    """The epsilon of mu-GDP at delta, rounded up; 0 where delta is promised without any loss.

    Formal guarantee: a mu-GDP mechanism is (value, delta)-DP.
    """
    return epsilon_end(mu, delta, 1)


def delta_bracket(mu: float, epsilon: float) -> tuple[float, float]:
    """Below and above delta(epsilon)."""
    if mu == 0.0 or epsilon == inf:
        return 0.0, 0.0
    if mu == inf:
        return 1.0, 1.0
    a = epsilon / mu - 0.5 * mu
    b = epsilon / mu + 0.5 * mu
    if a < -5.0:
        high, low = float(ndtr(-a)), 0.5 * exp(-0.5 * a * a) * float(erfcx(b / sqrt(2.0)))
        noise = _SLACK * (high + low) * (1.0 + abs(a) + abs(b))
        value = high - low
    else:
        scale = 0.5 * exp(-0.5 * a * a)
        first, second = float(erfcx(a / sqrt(2.0))), float(erfcx(b / sqrt(2.0)))
        value = scale * (first - second)
        noise = _SLACK * scale * (first + second) + value * _SLACK * (1.0 + a * a)
    return max(0.0, value - noise), min(1.0, value + noise + 1e-300)


def epsilon_end(mu: float, delta: float, side: int) -> float:
    """Below epsilon(delta), or above it where ``side`` is 1."""
    if mu == inf:
        return inf
    if delta_bracket(mu, 0.0)[side] <= delta:
        return 0.0
    return _border(lambda epsilon: delta_bracket(mu, epsilon)[side] > delta)[side]


def _border(below: Callable[[float], bool]) -> tuple[float, float]:
    """The last number that is below and its neighbour, which is not; infinity where all are."""
    low, high = 0.0, 1.0
    while below(high):
        low, high = high, 2.0 * high
        if high > 1e300:
            return inf, inf
    for _ in range(200):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (middle, high) if below(middle) else (low, middle)
    return low, high
