"""Noisy sums of batches of which each record is in exactly one an epoch: what a record costs at a Rényi order.

With T batches, noise multiplier σ and contributions of norm at most 1, c = 1/σ, a record costs ln m_α/(α-1) nats an
epoch at order α ("Once an epoch" in docs/guarantees.md):

    whole α ≥ 2               m_α = α! T^-α [x^α] (Σ_{j ≤ α} x^j e^(c² j(j-1)/2)/j!)^T
    1 < α ≤ 2                 m_α = 1 + (α-1) (e^(c²) - 1)/T
    any α between             ln m_α linear between whole orders
"""

import math
from collections.abc import Iterator
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from functools import lru_cache

from bounds._rounding import outward, total
from bounds.accounting.events import Composed, Event, OnceAnEpoch, SelfComposed
from bounds.noisy_steps import squared_ratio

_ULP = 2.0**-52


def epochs_cost(event: Event, order: float) -> float:
    """Σ_e ln m_α: α - 1 times the most that one record costs in all epochs; rounded up.

    Raises ValueError where the event holds something else than epochs.
    """
    return total(*(outward(count * epoch_log_moment(order, *epoch)) for *epoch, count in _epochs(event, 1)))


def _epochs(event: Event, count: int) -> Iterator[tuple[int, float, int]]:
    """Batches, squared inverse noise multiplier, and how often, of each epoch."""
    match event:
        case OnceAnEpoch():
            yield event.batches, squared_ratio(event.event.noise_multiplier), count
        case Composed():
            for part in event.events:
                yield from _epochs(part, count)
        case SelfComposed():
            yield from _epochs(event.event, count * event.count)
        case _:
            raise ValueError(f"event must hold OnceAnEpoch alone, once or composed, got {event!r}; use PoissonSum for "
                             f"Poisson batches.")  # fmt: skip


def epoch_log_moment(order: float, batches: int, squared: float) -> float:
    """ln m_α at c² = ``squared``, rounded up."""
    if order <= 2.0:
        return outward(math.log1p((order - 1.0) * math.expm1(squared) / batches) * (1.0 + 16 * _ULP))
    low = math.floor(order)
    share = order - low  # exact
    upper = share * _whole(low + 1, batches, squared) if share else 0.0
    return outward((1.0 - share) * _whole(low, batches, squared) + upper)


@lru_cache(maxsize=1024)
def _whole(order: int, batches: int, squared: float) -> float:
    """ln m_α of a whole order, with 60 digits."""
    with localcontext(Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN)):
        c2 = Decimal(squared)
        terms = [(c2 * j * (j - 1) / 2).exp() / math.factorial(j) for j in range(order + 1)]
        power, square, left = [Decimal(1), *[Decimal(0)] * order], terms, batches
        while left:
            if left & 1:
                power = _product(power, square)
            square, left = _product(square, square), left >> 1
        return outward(float((power[order] * math.factorial(order) / Decimal(batches) ** order).ln()))


def _product(first: list[Decimal], second: list[Decimal]) -> list[Decimal]:
    """The product of two polynomials, up to their degree."""
    return [sum((first[i] * second[k - i] for i in range(k + 1)), Decimal(0)) for k in range(len(first))]
