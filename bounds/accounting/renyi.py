"""Rényi differential privacy: quick, additive over steps, and an upper bound only, some ten per cent above the truth.

The divergence of a Poisson-sampled Gaussian at any order α > 1, whole or not, is a one-dimensional integral (Mironov,
Talwar and Zhang 2019), summed here by the trapezoidal rule, whose error for such integrands falls exponentially; step
widths are chosen to leave it below 1e-12. That, for each step, and 1e-9 relative are added. Conversion to (epsilon,
delta): Canonne, Kamath and Steinke (2020), Proposition 12.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, exp, inf, log, log1p, pi, sqrt

import numpy as np

from bounds._arithmetic import jit
from bounds._check import Array, door, positive, reals
from bounds.accounting._levels import grouped
from bounds.accounting._pieces import Allocation, Mechanism, Noise, mechanisms
from bounds.accounting._schedule import schedule
from bounds.accounting.events import Event, delta_in_range
from bounds.privacy import Adjacency, PrivacyBound

ORDERS = (
    *(1.0 + 0.05 * 1.25**k for k in range(20)),
    *(float(k) for k in range(6, 33)),
    *(32.0 * 1.2**k for k in range(1, 25)),
)
_SLACK = 1.0 + 1e-9
_ROUNDING = 1e-12  # of the logarithm of a moment


@jit
def _log_moment(
    order: float, rate: float, move: float, sigma: float, replace: bool, low: float, high: float, points: int
) -> float:
    """ln ∫ P^α Q^(1-α), P = (1-q) φ₀ + m φ₁, Q = φ₀ or (1-q) φ₀ + m φ₋₁."""
    stay = log1p(-rate) if rate < 1.0 else -inf
    shift, scale = log(move), 0.5 / (sigma * sigma)
    step = (high - low) / (points - 1)
    peak, total = -inf, 0.0
    for i in range(points):
        z = low + i * step
        up = shift + (2.0 * z - 1.0) * scale
        value = max(stay, up) + log1p(exp(-abs(stay - up)))
        exponent = order * value - z * z * scale
        if replace:
            down = shift - (2.0 * z + 1.0) * scale
            exponent += (1.0 - order) * (max(stay, down) + log1p(exp(-abs(stay - down))))
        if exponent > peak:
            total = total * exp(peak - exponent) + 1.0
            peak = exponent
        else:
            total += exp(exponent - peak)
    return peak + log(total * step / (sigma * sqrt(2.0 * pi)))


def renyi_divergences(*, event: Event, adjacency: Adjacency, orders: Sequence[float] = ORDERS) -> Array:
    """The Rényi divergences of an event at each order (above 1), in nats, rounded up; inf where nothing is promised.

    Formal guarantee: for neighbouring data sets the divergence of the outputs is at most this at that order, in both
    directions, but for the integration error that is described in the module.

    Raises ValueError when an order is not above 1, or the event holds a nesting that no theorem here covers.
    """
    orders = reals("orders", orders, positive)
    if not min(orders, default=2.0) > 1.0:
        raise ValueError(f"orders must be above 1, got {min(orders)!r}; 1 + 1e-6 is as good as 1.")
    made = schedule(event, adjacency)
    if not made.private:
        return np.full(len(orders), inf)
    total = np.array(orders) * made.mu**2 / 2.0
    at, before = np.array(orders) - 1.0, np.empty(0)
    for part, count, shares, times in grouped(mechanisms(made)):
        if isinstance(part, Noise) and part.rate == 1.0:
            continue
        found = _divergences(part, orders)
        total += count * found
        for share, uses in zip(shares, times, strict=True):  # moments of a mixture are those of its parts, mixed
            own, other = log(share) if share else -inf, log1p(-share) if share < 1.0 else -inf
            total += uses * (np.logaddexp(own + at * before, other + at * found) + _ROUNDING) / at
        before = found
    return total * _SLACK


@door(delta=delta_in_range)
def renyi_epsilon(
    *, event: Event, delta: float, adjacency: Adjacency, orders: Sequence[float] = ORDERS
) -> PrivacyBound:
    """epsilon at delta from Rényi divergences D_α, at the best order.

        epsilon = min_α D_α + ln((α-1)/α) - (ln delta + ln α)/(α-1), at least 0

    Formal guarantee: the event is (upper, delta)-DP, whether the orders, numbers above 1, were fixed beforehand or not.
    There is no bound from below: ``lower`` is 0.

    Raises ValueError when an argument is out of range.
    """
    divergences = renyi_divergences(event=event, adjacency=adjacency, orders=orders)
    best = epsilon_of_divergences(divergences, orders, delta)
    return PrivacyBound(
        lower=0.0, estimate=best, upper=best, epsilon=best, delta=delta, adjacency=adjacency, method="Rényi divergences"
    )


def epsilon_of_divergences(divergences: Array, orders: Sequence[float], delta: float) -> float:
    """The epsilon of :func:`renyi_epsilon`."""
    at = np.array(orders)
    found = divergences + np.log1p(-1.0 / at) - (log(delta) + np.log(at)) / (at - 1.0)
    return max(0.0, float(found.min()) + 1e-12)


@lru_cache(maxsize=4096)
def _divergences(part: Mechanism, orders: tuple[float, ...]) -> Array:
    return np.array([_divergence(part, float(order)) for order in orders])


def _divergence(part: Mechanism, order: float) -> float:
    if isinstance(part, Allocation):
        return inf  # its likelihood ratio is bounded from above alone
    if not isinstance(part, Noise):
        x = part.epsilon
        weights = -np.logaddexp(0.0, np.array([-x, x])) + (order - 1.0) * np.array([x, -x])
        return float(np.logaddexp.reduce(weights)) / (order - 1.0)
    reach = 12.0 * part.sigma
    far = (2.0 * order if part.replace else order) + reach
    step = min(part.sigma / 8.0, part.sigma**2 / 2.0)
    points = ceil((far + reach + 1.0) / step)
    logs: list[float] = []
    for weight, loss in part.choices():
        move = part.rate * exp(loss)
        found = _log_moment(order, part.rate, move, part.sigma, part.replace, -reach - 1.0, far, points)
        logs.append(log(weight) + found)
    return (max(0.0, float(np.logaddexp.reduce(logs))) + _ROUNDING) / (order - 1.0)
