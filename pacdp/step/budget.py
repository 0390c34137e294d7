"""A limit on what a private run may cost, how many steps keep to it, and the noise with which all of them do.

The schedule is public and fixed beforehand, so that the step before which training halts is known before it starts and
tells nothing about the data. How many runs a private choice of hyper-parameters makes is drawn here as well.
"""

import math
import secrets
from bisect import bisect_left
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import partial

from bounds import _check
from bounds.accounting import Event, LastAlone, NegativeBinomialRuns, PoissonRuns, calibrate_noise
from bounds.privacy import Adjacency, ApproxDP
from pacdp.errors import require_finite
from pacdp.schedules import Scaled, Schedule, as_schedule, value_at
from pacdp.step import event as events
from pacdp.step.accountant import epsilon

_DIGITS, _BITS = 80, 192


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyBudget:
    """An (epsilon, delta) that a run never exceeds.

    Formal guarantee: after ``affordable_steps`` steps the whole history is (epsilon, delta)-differentially private for
    these neighbours, and so is every beginning of it, being a function of the whole.

    Raises ValueError when epsilon is not positive and finite, delta outside (0, 1), or the relation unknown.
    """

    epsilon: float
    """Nats."""
    delta: float
    adjacency: Adjacency = events.ADJACENCY

    def __post_init__(self) -> None:
        require_finite(epsilon=self.epsilon)
        _check.open_probability(delta=self.delta)
        ApproxDP(
            epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency, status="accounted"
        )

    def allows(self, event: Event | None) -> bool:
        """Whether the accountant's upper end for what ran keeps to the budget."""
        return epsilon(event, delta=self.delta, adjacency=self.adjacency) <= self.epsilon

    def affordable_steps(self, upcoming: Event | None, *, after: Event | None = None) -> int:
        """How many of the ``upcoming`` steps may run when ``after`` ran before: the most for which it was shown."""
        if self.allows(events.joined(after, upcoming)):
            return events.steps_of(upcoming)

        def overdrawn(steps: int) -> bool:
            return not self.allows(events.joined(after, events.first(upcoming, steps)))

        return bisect_left(range(1, events.steps_of(upcoming)), True, key=overdrawn)

    def require_steps(self, upcoming: Event | None) -> int:
        """The affordable steps, of which there must be one.

        Raises:
            ValueError: the first step alone costs more, or a run of which the last iterate alone is released.
        """
        last = self.affordable_steps(upcoming)
        if last == 0 and upcoming is not None:
            ((begins, _), *_) = events.runs_of(upcoming)
            what, instead = "the first step alone costs", "raise the noise, lower sample_rate"
            if isinstance(begins, LastAlone):
                what = f"the {begins.steps} steps, of which the last iterate alone is released, together cost"
                instead = "raise the noise, take fewer steps"
            raise ValueError(
                f"{what} more than the budget of epsilon {self.epsilon:g} at delta {self.delta:g} "
                f"({self.adjacency}): {instead} or raise the budget"
            )
        return last


def planned(
    schedule: Schedule | float, *, sample_rate: float, steps: int, done: int = 0
) -> Event | None:
    """The history that ``steps`` steps of ``schedule`` will have, but for the first ``done``."""
    _check.whole(steps=steps, done=done)
    sigmas = (value_at(t, schedule=schedule) for t in range(done, steps))
    return events.history(events.sampled_step([one], sample_rate=sample_rate) for one in sigmas)


def planned_epochs(
    schedule: Schedule | float, *, batches: int, steps: int, done: int = 0
) -> Event | None:
    """The history that steps on batches with every unit once an epoch will have, but for the first ``done``.

    An epoch that begins is counted as a whole, at the least noise of its steps. The rest of one that began before is
    counted as a sum over all units: if it runs a second time, a unit has the place that it had.
    """
    _check.count(batches=batches)
    _check.whole(steps=steps, done=done)

    def least(first: int) -> float:
        return min(value_at(t, schedule=schedule) for t in range(first, first + batches))

    begun, next_epoch = done // batches * batches, -(-done // batches) * batches
    rest = range(begun, min(next_epoch, steps), batches)
    return events.history(
        [
            *(events.sampled_step([least(first)], sample_rate=1.0) for first in rest),
            *(
                events.epoch(least(first), batches=batches)
                for first in range(next_epoch, steps, batches)
            ),
        ]
    )


def calibrated(
    schedule: Schedule | float,
    *,
    steps: int,
    target_epsilon: float,
    delta: float,
    adjacency: Adjacency,
    sample_rate: float | None = None,
    batches: int | None = None,
    tolerance: float = 1e-3,
) -> Scaled:
    """The schedule times the smallest factor (to a relative ``tolerance``, rounded up) that keeps to the target.

    Formal guarantee: ``epsilon(planned(result), delta=delta, adjacency=adjacency) <= target_epsilon``: that number was
    computed before the result was returned. With batches of which every unit is in one an epoch it is that of
    ``planned_epochs``.

    Args:
        sample_rate: of Poisson batches.
        batches: of an epoch, in place of a rate.

    Raises:
        ValueError: numbers out of range, no steps, a target that no factor up to e^20 meets (as where a step has no
            noise), or a schedule whose values are no floats in double precision.
    """
    _check.positive(target_epsilon=target_epsilon)
    _check.count(steps=steps)
    if sample_rate is not None and batches is None:
        plan = partial(planned, sample_rate=sample_rate, steps=steps)
    elif batches is not None and sample_rate is None:
        plan = partial(planned_epochs, batches=batches, steps=steps)
    else:
        raise ValueError(f"give either sample_rate or batches, got {sample_rate!r} and {batches!r}")
    base = plan(schedule)
    assert base is not None
    asked = {"epsilon": target_epsilon, "delta": delta, "adjacency": adjacency}
    if batches is not None and adjacency == "replace-one":
        half = 0.5 * target_epsilon * (1.0 - 1e-3)
        share = delta / (1.0 + math.exp(half))
        asked = {"epsilon": half, "delta": share, "adjacency": events.ADJACENCY}
    made = calibrate_noise(event=base, **asked, tolerance=tolerance)
    if epsilon(made.event, delta=delta, adjacency=adjacency) > target_epsilon:
        raise ValueError(f"target_epsilon {target_epsilon!r} is not met: give a smaller one")
    result = Scaled(schedule=as_schedule(schedule), factor=made.scale)
    if plan(result) != made.event:
        raise ValueError(
            "schedule must return the same Python floats at every call, got other numbers once scaled"
        )
    return result


def number_of_runs(law: NegativeBinomialRuns | PoissonRuns) -> int:
    """A draw of K from the operating system's randomness, for :func:`bounds.accounting.tuned_epsilon`.

    K is secret: whoever sees it, or how long the search took, sees more than the accountant counts.

    Formal guarantee: the law of the draw is ``law`` but for 2⁻¹⁸⁰ in total variation, which adds (1 + e^ε) 2⁻¹⁸⁰ to
    delta.

    Raises:
        ValueError: ``law`` is a number or anything else that is no law of K.
    """
    if not isinstance(law, NegativeBinomialRuns | PoissonRuns):
        raise ValueError(
            f"law must be a NegativeBinomialRuns or PoissonRuns of bounds.accounting, got {law!r}: a number of runs "
            "that is fixed costs that many runs"
        )
    with localcontext(prec=_DIGITS):
        left = Decimal(secrets.randbits(_BITS)) / 2**_BITS
        for k, probability in enumerate(law.probabilities()):
            left -= probability
            if left < 0:
                return k
    raise AssertionError("the probabilities have no end")
