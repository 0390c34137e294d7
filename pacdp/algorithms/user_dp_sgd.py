"""User-level DP-SGD: DP-SGD whose unit of privacy is a patient (a user) with all of their records.

    w ← w - lr_t (Σ_i clip_C(Σ_k ∇ℓ(w; x_ik)) + N(0, (σ_t C)² I)) / B

i runs over a Poisson sample of patients, k over all records of patient i. Every patient's gradient is formed whole and
clipped once: a patient cut in two and clipped twice could move the sum by 2C (McMahan, Ramage, Talwar and Zhang 2018).
"""

from bounds import _check
from bounds.record import record
from pacdp.algorithms.algorithm import Descent
from pacdp.schedules import Schedule
from pacdp.step.units import UnitFunction, summed_gradient


@record
class UserDPSGD(Descent):
    """Settings of user-level DP-SGD; give :func:`pacdp.loop.train` the people.

    Formal guarantee: the weights after every step together are the composition of the Gaussian mechanisms (σ_t, q) in
    the run's history on Poisson samples of patients, add-remove adjacency: neighbours differ by one patient, with all
    of the patient's records, more or less.
    """

    NAME = "user-level DP-SGD"
    learning_rate: float | Schedule = 0.5
    records_at_once: int = 0
    """A patient's records go through the network so many at a time, for memory's sake, which changes rounding only; 0
    takes them together."""

    def __post_init__(self) -> None:
        _check.whole(records_at_once=self.records_at_once)

    @property
    def contribution(self) -> UnitFunction:
        """The gradient of the summed losses of all of a person's records."""
        return summed_gradient

    @property
    def width(self) -> int | None:
        """``records_at_once``."""
        return self.records_at_once or None
