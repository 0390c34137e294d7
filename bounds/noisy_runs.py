"""Prices of noisy sums, made from what ran and from what it kept: an event, and squared norms step by step.

The prices themselves, from which a bound takes its nats, are in ``bounds.noisy``.
"""

from collections.abc import Sequence
from math import sqrt, ulp
from typing import Any, Unpack

from bounds._arithmetic import outward, total
from bounds._check import count, door, nonnegative, reals, records
from bounds.accounting.events import Event, event_to_json
from bounds.hypotheses import Hypothesis
from bounds.noisy import Known, RealisedPoissonSum, RealisedSum, WorstCaseSum
from bounds.noisy_steps import flattened, in_order, log_moment, record_cost, squared_ratio


def noisy_sum_worst_case(*, event: Event, hypotheses: Sequence[Hypothesis] = ()) -> WorstCaseSum:
    """The worst-case price of an event of Gaussian noise on clipped sums over all records.

    mu² = Σ_t 1/noise_multiplier_t², rounded up. Formal guarantee: "Noisy sums" in docs/guarantees.md. Raises ValueError
    for sampled steps, for which there is ``PoissonSum``, and where a step is no noisy sum.
    """
    for rate, _, _ in flattened(event):
        if rate != 1.0:
            raise ValueError(f"event must hold steps on all records, got a sample rate of {rate!r}; use PoissonSum.")
    twice = record_cost(event, 2.0)  # ln m at order 2 is Σ 1/noise_multiplier²
    mu = outward(sqrt(twice))
    return WorstCaseSum(mu=mu, event=event_to_json(event), hypotheses=records("hypotheses", hypotheses, Hypothesis))


@door(records=count)
def noisy_sum_realised(
    *,
    event: Event,
    squared_norms: Sequence[float],
    records: int,
    **known: Unpack[Known],
) -> RealisedSum:
    """The realised price of a run, from what it kept at each step: V = Σ_t squared_norms_t/noise_multiplier_t².

    Formal guarantee: "Noisy sums" in docs/guarantees.md. Batches may be anything that was drawn without the records.

    Args:
        event: the steps in order; noise multipliers in the unit of the norms, which need not be a clip norm.
        squared_norms: at each step the sum of ‖g_t(s_i)‖² over all records of the batch.
        records: size of the data set.
        known: orders and weights, fixed before the run, and hypotheses: as for ``RealisedSum``.
    """
    norms = _norms(squared_norms)
    noises = [noise for _, noise in in_order(event, len(norms))]
    parts = (_product(norm, squared_ratio(noise)) for norm, noise in zip(norms, noises, strict=True))
    given: dict[str, Any] = {**known}
    return RealisedSum(contributions=total(*parts), records=records, **given)


@door(records=count)
def poisson_sum_realised(
    *,
    event: Event,
    squared_norms: Sequence[float],
    records: int,
    **known: Unpack[Known],
) -> RealisedPoissonSum:
    """The realised price of clipped sums over secret Poisson batches: M_j = Σ_t squared_norms_t ln m_α_j,t(clip norm).

    ln m is convex in the squared norm and 0 at 0, so that for norms up to the clip norm the chord is above it. Without
    clipping add up ``poisson_log_moments`` and make a ``RealisedPoissonSum``.

    Formal guarantee: "Noisy sums on secret batches" in docs/guarantees.md.

    Args:
        event: the steps in order; noise multipliers in clip norms.
        squared_norms: at each step the sum over *all* records of the data set, sampled or not, of the squared norms of
            the clipped contributions, in squared clip norms.
        records, known: as for ``noisy_sum_realised``.
    """
    norms = _norms(squared_norms)
    steps = in_order(event, len(norms))
    for norm in norms:
        if not norm <= records * (1.0 + 1e-9):  # sums are rounded
            raise ValueError(
                f"squared_norms must be at most records = {records!r}, as no contribution is above the clip norm, got "
                f"{norm!r}; divide them by the squared clip norm."
            )
    by_rate: dict[float, list[tuple[float, float]]] = {}
    for norm, (rate, noise) in zip(norms, steps, strict=True):
        by_rate.setdefault(rate, []).append((squared_ratio(noise), norm))

    def moment(order: float) -> float:
        parts: list[float] = []
        for rate, found in by_rate.items():
            each = log_moment(order, rate, [x for x, _ in found]).tolist()
            parts += [_product(norm, value) for (_, norm), value in zip(found, each, strict=True)]
        return total(*parts)

    return RealisedPoissonSum.of(moment, records, known)


def _norms(values: Sequence[float]) -> tuple[float, ...]:
    return reals("squared_norms", values, nonnegative)


def _product(first: float, second: float) -> float:
    """The product, rounded up; 0 where one is 0."""
    return outward(first * second) + ulp(0.0) if first > 0.0 and second > 0.0 else 0.0
