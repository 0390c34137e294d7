"""Noise for a target epsilon: one factor on the whole schedule."""

from bounds.accounting import calibrate_noise
from bounds.privacy import Adjacency
from pacdp.schedules import Scaled, Schedule, as_schedule
from pacdp.step.accountant import privacy_event
from pacdp.step.event import GaussianRun, MechanismHistory, merged


def planned(schedule: Schedule | float, *, sample_rate: float, steps: int, done: int = 0) -> MechanismHistory:
    """The history that ``steps`` steps of ``schedule`` will have, but for the first ``done``."""
    sigma = as_schedule(schedule)
    return MechanismHistory(runs=merged(GaussianRun(float(sigma(t)), sample_rate, 1) for t in range(done, steps)))


def calibrated(
    schedule: Schedule | float,
    *,
    sample_rate: float,
    steps: int,
    target_epsilon: float,
    delta: float,
    adjacency: Adjacency,
    tolerance: float = 1e-3,
) -> Scaled:
    """The schedule times the smallest factor (to a relative ``tolerance``, rounded up) that keeps to the target.

    Formal guarantee: ``epsilon(planned(result), delta=delta, adjacency=adjacency) <= target_epsilon``: that number was
    computed before the result was returned.

    Raises:
        ValueError: numbers out of range, a target that no factor up to e^20 meets (as where a step has no noise), or a
            schedule whose values are no floats in double precision.
    """
    if not target_epsilon > 0.0:
        raise ValueError(f"expected target_epsilon > 0, got {target_epsilon}")
    base = planned(schedule, sample_rate=sample_rate, steps=steps)
    made = calibrate_noise(event=privacy_event(base), epsilon=target_epsilon, delta=delta, adjacency=adjacency,
                           tolerance=tolerance)  # fmt: skip
    result = Scaled(schedule=as_schedule(schedule), factor=made.scale)
    wanted = merged(run._replace(noise_multiplier=run.noise_multiplier * made.scale) for run in base.runs)
    if planned(result, sample_rate=sample_rate, steps=steps).runs != wanted:
        raise ValueError("schedule must return the same Python floats at every call, got other numbers once scaled")
    return result
