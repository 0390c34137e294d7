"""Noisy sums step by step: what one record's contribution to a step costs at a Rényi order, rounded up.

A step releases Σ_i b_i g(s_i) + N(0, σ²), b_i = 1 for every record (rate 1), or b_i secret, independent and 1 with
probability ``rate``. x = ‖g(s)‖²/σ² is a record's squared contribution. For y = ln of the moment below, a record costs
y/(α-1) nats at order α ("Noisy sums" in docs/guarantees.md):

    rate 1                    α(α-1) x/2
    whole α ≥ 2               ln Σ_j C(α,j) (1-q)^(α-j) q^j e^(j(j-1)x/2)
    1 < α < 2                 ln(1 + [(1-q)^α - 1 + αq] (e^x - 1))
    any α between             linear between whole orders, 0 at α = 1; the smaller of both where both apply

Where each record is in exactly one batch an epoch, with T batches, noise multiplier σ and contributions of norm at most
1, c = 1/σ, a record costs ln m_α/(α-1) nats an epoch at order α ("Once an epoch" in docs/guarantees.md):

    whole α ≥ 2               m_α = α! T^-α [x^α] (Σ_{j ≤ α} x^j e^(c² j(j-1)/2)/j!)^T
    1 < α ≤ 2                 m_α = 1 + (α-1) (e^(c²) - 1)/T
    any α between             ln m_α linear between whole orders
"""

from collections.abc import Iterator, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from functools import lru_cache
from math import comb, expm1, factorial, floor, inf, log, log1p, ulp

import numpy as np
from numpy.typing import ArrayLike

from bounds._arithmetic import outward, total
from bounds._check import Array, as_given, reals, vector
from bounds.accounting.events import Composed, Event, Gaussian, OnceAnEpoch, PoissonSampled, SelfComposed

_LARGEST_ORDER = 1024.0
_ULP = 2.0**-52
_LEAST = ulp(0.0)
Group = tuple[float, Array, tuple[int, ...]]


def poisson_log_moments(
    *, sample_rate: float, noise_multiplier: float, squared_norms: ArrayLike, orders: Sequence[float]
) -> Array:
    """Σ_i ln m_α(‖g_i‖/σ) of one noisy sum, for each order α: what all records together cost in one step.

    Formal guarantee: at least the sum of the stated logarithms (module head), for each order. Without clipping, the
    totals over all steps, of all records and not only the sampled ones, are what ``noisy_sum_realised`` takes.

    Args:
        sample_rate: probability that a record takes part, in (0, 1]; 1 for all records.
        noise_multiplier: standard deviation of the noise, in the unit of the norms.
        squared_norms: ‖g(s_i)‖² of every record i of the data set.
        orders: orders α, each above 1 and at most 1024.
    """
    step = PoissonSampled(sample_rate=sample_rate, event=Gaussian(noise_multiplier=noise_multiplier))
    ((rate, noise, _),) = flattened(step)
    norms = of_records("squared_norms", squared_norms)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        x = np.where(norms > 0.0, norms * squared_ratio(noise) * (1.0 + 4 * _ULP) + _LEAST, 0.0)
    return np.array([total(*log_moment(order, rate, x).tolist()) for order in checked_orders(orders)])


def of_records(name: str, values: ArrayLike) -> Array:
    """Numbers of zero or more, one for each record, as an array."""
    found = vector(name, np.atleast_1d(as_given(values)))
    if not (found >= 0.0).all():
        raise ValueError(f"{name} must be numbers of zero or more, one for each record, got another.")
    return found


def checked_orders(orders: Sequence[float]) -> tuple[float, ...]:
    """``orders`` as a tuple, if they are different numbers above 1."""
    given = reals("orders", orders)
    if not given or len(set(given)) < len(given) or not all(1.0 < order <= _LARGEST_ORDER for order in given):
        raise ValueError(
            f"orders must be different numbers above 1 and at most {_LARGEST_ORDER:g}, got {given!r}; pass "
            f"bounds.ORDERS."
        )
    return given


def uncomposed(event: Event, count: int = 1) -> Iterator[tuple[Event, int]]:
    """What an event composes, and how often each, in order but where compositions are repeated."""
    match event:
        case Composed():
            for part in event.events:
                yield from uncomposed(part, count)
        case SelfComposed():
            yield from uncomposed(event.event, count * event.count)
        case _:
            yield event, count


def flattened(event: Event) -> Iterator[tuple[float, float, int]]:
    """Rate, noise multiplier and number of each run of noisy sums, in order but where compositions are repeated.

    Raises ValueError where a step is no Gaussian noise on one sum.
    """
    for part, count in uncomposed(event):
        match part:
            case Gaussian():
                yield 1.0, part.noise_multiplier, count
            case PoissonSampled(event=Gaussian() as inner):
                yield part.sample_rate, inner.noise_multiplier, count
            case _:
                raise ValueError(
                    f"event must hold Gaussian steps, each on all records or on one Poisson sample, got {part!r}; for "
                    f"other mechanisms use Accounted, which knows their privacy alone."
                )


def in_order(event: Event, steps: int) -> list[tuple[float, float]]:
    """Rate and noise multiplier of each step, if there are so many."""
    planned = sum(count for _, _, count in flattened(event))
    if planned != steps:
        raise ValueError(
            f"squared_norms must hold one number for each of the {planned} steps of the event, got {steps}; norms that "
            f"were not recorded cannot be left out."
        )
    return _one_by_one(event)


def _one_by_one(event: Event) -> list[tuple[float, float]]:
    match event:
        case SelfComposed():
            return _one_by_one(event.event) * event.count
        case Composed():
            return [step for part in event.events for step in _one_by_one(part)]
        case _:
            return [(rate, noise) for rate, noise, _ in flattened(event)]


def squared_ratio(noise_multiplier: float) -> float:
    """1/noise_multiplier², rounded up."""
    inverse = 1.0 / noise_multiplier
    return outward(inverse * inverse) if inverse * inverse > 0.0 else _LEAST


@lru_cache(maxsize=64)
def grouped(event: Event) -> tuple[Group, ...]:
    """The steps by rate: the rate, squared inverse noise multipliers (rounded up), and how often each occurs."""
    counts: dict[float, dict[float, int]] = {}
    for rate, noise, count in flattened(event):
        of_rate = counts.setdefault(rate, {})
        of_rate[noise] = of_rate.get(noise, 0) + count
    return tuple(
        (rate, np.array([squared_ratio(noise) for noise in found]), tuple(found.values()))
        for rate, found in counts.items()
    )


def record_cost(event: Event, order: float) -> float:
    """Σ_t ln m_α(1/σ_t), σ_t in clip norms: α - 1 times the most that one record costs; rounded up."""
    costs = (
        _times(count, value)
        for rate, x, counts in grouped(event)
        for count, value in zip(counts, log_moment(order, rate, x).tolist(), strict=True)
    )
    return total(*costs)


def _times(count: int, value: float) -> float:
    try:
        return outward(count * value)
    except OverflowError:
        return inf


def log_moment(order: float, rate: float, x: ArrayLike) -> Array:
    """ln m_α at the squared contributions x ≥ 0, elementwise, rounded up (module head)."""
    x = np.asarray(x, dtype=np.float64)
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        if rate == 1.0:
            found = 0.5 * order * (order - 1.0) * x
        else:
            low = floor(order)
            share = order - low  # exact
            found = (1.0 - share) * _whole(low, rate, x) if share < 1.0 and low > 1 else np.zeros_like(x)
            if share > 0.0:
                found = found + share * _whole(low + 1, rate, x)
            if order < 2.0:
                found = np.fmin(found, _quadratic(order, rate, x))
        found = found * (1.0 + 32 * _ULP)
        return np.where(x > 0.0, found + 8 * _LEAST, 0.0)


def _quadratic(order: float, rate: float, x: Array) -> Array:
    """ln(1 + [(1-q)^α - 1 + αq] (e^x - 1)), rounded up."""
    moved = np.expm1(x) * _curvature(order - 1.0, rate)
    return np.log1p(moved * (1.0 + (32.0 + 2.0 * x) * _ULP) + 8 * _LEAST)


@lru_cache(maxsize=4096)
def _curvature(excess: float, rate: float) -> float:
    """(1-q)^α - 1 + αq, rounded up, for α - 1 = ``excess`` in (0, 1): a series of positive terms where q is small."""
    if rate >= 0.1:
        lost, gained = (1.0 - rate) * -expm1(excess * log1p(-rate)), excess * rate
        return outward(gained - lost + 16 * _ULP * (gained + lost))
    term = (1.0 + excess) * (0.5 * (rate * excess) * rate)
    whole = term
    for k in range(2, 24):  # each at most a tenth of the one before
        term *= rate * (k - 1.0 - excess) / (k + 1.0)
        whole += term
    return outward(whole * (1.0 + 32 * _ULP)) + _LEAST


@lru_cache(maxsize=1024)
def _log_binomials(order: int) -> tuple[float, ...]:
    return tuple(log(comb(order, j)) for j in range(2, order + 1))


def _whole(order: int, rate: float, x: Array) -> Array:
    """ln(1 + Σ_{j≥2} C(α,j) (1-q)^(α-j) q^j (e^(j(j-1)x/2) - 1)), rounded up; no term is negative. 0 at order 1."""
    if order < 2:
        return np.zeros_like(x)
    stay, go = log1p(-rate), log(rate)
    top: Array = np.full_like(x, -np.inf)
    logs: list[Array] = []
    for j, choices in enumerate(_log_binomials(order), start=2):
        exponent = 0.5 * j * (j - 1) * x
        logs.append(choices + (order - j) * stay + j * go + exponent + np.log(-np.expm1(-exponent)))
        top = np.maximum(top, logs[-1])
    base = np.where(np.isfinite(top), top, 0.0)
    whole = base + np.log(np.sum([np.exp(one - base) for one in logs], axis=0))
    size = order * (abs(stay) + abs(go) + 1.0) + 0.5 * order * (order - 1) * x + 750.0
    whole = whole + (size * 8.0 + order) * _ULP
    near: Array = np.log1p(np.exp(np.minimum(whole, 700.0)))
    return np.where(whole > 700.0, whole, near)


def epochs_cost(event: Event, order: float) -> float:
    """Σ_e ln m_α: α - 1 times the most that one record costs in all epochs; rounded up.

    Raises ValueError where the event holds something else than epochs.
    """
    costs: list[float] = []
    for part, count in uncomposed(event):
        if not isinstance(part, OnceAnEpoch):
            raise ValueError(f"event must hold OnceAnEpoch alone, once or composed, got {part!r}; use PoissonSum for "
                             f"Poisson batches.")  # fmt: skip
        squared = squared_ratio(part.event.noise_multiplier)
        costs.append(outward(count * epoch_log_moment(order, part.batches, squared)))
    return total(*costs)


def epoch_log_moment(order: float, batches: int, squared: float) -> float:
    """ln m_α at c² = ``squared``, rounded up."""
    if squared > 700.0:  # where e^(c²) overflows: no more than if the record's batch were known
        return outward(0.5 * order * (order - 1.0) * squared)
    if order <= 2.0:
        return outward(log1p((order - 1.0) * expm1(squared) / batches) * (1.0 + 16 * _ULP))
    low = floor(order)
    share = order - low  # exact
    upper = share * _whole_epoch(low + 1, batches, squared) if share else 0.0
    return outward((1.0 - share) * _whole_epoch(low, batches, squared) + upper)


@lru_cache(maxsize=1024)
def _whole_epoch(order: int, batches: int, squared: float) -> float:
    """ln m_α of a whole order, with 60 digits."""
    with localcontext(Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN)):
        c2 = Decimal(squared)
        terms = [(c2 * j * (j - 1) / 2).exp() / factorial(j) for j in range(order + 1)]
        power, square, left = [Decimal(1), *[Decimal(0)] * order], terms, batches
        while left:
            if left & 1:
                power = _product(power, square)
            square, left = _product(square, square), left >> 1
        return outward(float((power[order] * factorial(order) / Decimal(batches) ** order).ln()))


def _product(first: list[Decimal], second: list[Decimal]) -> list[Decimal]:
    """The product of two polynomials, up to their degree."""
    return [sum((first[i] * second[k - i] for i in range(k + 1)), Decimal(0)) for k in range(len(first))]
