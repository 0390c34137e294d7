"""Noisy sums of batches of which each record is in exactly one an epoch: what a record costs at a Rényi order.

With T batches, noise multiplier σ and contributions of norm at most 1, c = 1/σ, a record costs ln m_α/(α-1) nats an
epoch at order α ("Once an epoch" in docs/guarantees.md):

    whole α ≥ 2               m_α = α! T^-α [x^α] (Σ_{j ≤ α} x^j e^(c² j(j-1)/2)/j!)^T
    1 < α ≤ 2                 m_α = 1 + (α-1) (e^(c²) - 1)/T
    any α between             ln m_α linear between whole orders
"""

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from functools import lru_cache
from math import expm1, factorial, floor, log1p

from bounds._rounding import outward, total
from bounds.accounting.events import Event, OnceAnEpoch
from bounds.noisy_steps import squared_ratio, uncomposed

_ULP = 2.0**-52


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
    upper = share * _whole(low + 1, batches, squared) if share else 0.0
    return outward((1.0 - share) * _whole(low, batches, squared) + upper)


@lru_cache(maxsize=1024)
def _whole(order: int, batches: int, squared: float) -> float:
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
