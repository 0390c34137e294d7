"""Noise for a target epsilon: one factor on the whole schedule."""

from pacdp.private.privacy_events import GaussianRun, MechanismHistory, epsilon, merged
from pacdp.private.schedules import Scaled, Schedule, as_schedule


def planned(schedule: Schedule | float, *, sample_rate: float, steps: int) -> MechanismHistory:
    """The history that ``steps`` steps of ``schedule`` will have."""
    sigma = as_schedule(schedule)
    return MechanismHistory(runs=merged(GaussianRun(float(sigma(t)), sample_rate, 1) for t in range(steps)))


def calibrated(
    schedule: Schedule | float,
    *,
    sample_rate: float,
    steps: int,
    target_epsilon: float,
    delta: float,
    tolerance: float = 1e-3,
) -> Scaled:
    """The schedule times the smallest factor (to a relative ``tolerance``, rounded up) that keeps to the target.

    Formal guarantee: ``epsilon(planned(result), delta=delta) <= target_epsilon`` by the Rényi accountant.

    Raises:
        ValueError: a target that no factor up to 2^20 meets.
    """
    if not target_epsilon > 0.0:
        raise ValueError(f"expected target_epsilon > 0, got {target_epsilon}")
    base = planned(schedule, sample_rate=sample_rate, steps=steps)

    def meets(factor: float) -> bool:
        runs = tuple(run._replace(noise_multiplier=factor * run.noise_multiplier) for run in base.runs)
        return epsilon(MechanismHistory(runs=runs), delta=delta) <= target_epsilon

    high = 1.0
    while not meets(high):
        high *= 2.0
        if high > 2.0**20:
            raise ValueError(f"no noise meets epsilon {target_epsilon} at delta {delta}: raise delta or the target")
    low = high / 2.0
    while meets(low):
        low, high = low / 2.0, low
        if low < 2.0**-20:
            break
    while high > low * (1.0 + tolerance):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if meets(middle) else (middle, high)
    return Scaled(schedule=as_schedule(schedule), factor=high)
