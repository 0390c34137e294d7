"""User-level DP-SGD: DP-SGD whose unit of privacy is a patient (a user) with all of their records.

    w ← w - lr_t (Σ_i clip_C(Σ_k ∇ℓ(w; x_ik)) + N(0, (σ_t C)² I)) / B

i runs over a Poisson sample of patients, k over all records of patient i. Every patient's gradient is formed whole and
clipped once: a patient cut in two and clipped twice could move the sum by 2C (McMahan, Ramage, Talwar and Zhang 2018).
"""

from collections.abc import Callable
from dataclasses import dataclass

from pacdp.algorithms.algorithm import Scheduled
from pacdp.algorithms.method import Method
from pacdp.schedules import Schedule
from pacdp.step.mechanism import Mechanism
from pacdp.step.units import UnitFunction, summed_gradient


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLevelDPSGD(Scheduled):
    """Settings of user-level DP-SGD; give :func:`pacdp.loop.train` the people.

    Formal guarantee: the weights after every step together are the composition of the Gaussian mechanisms (σ_t, q) in
    the run's history on Poisson samples of patients, add-remove adjacency: neighbours differ by one patient, with all
    of the patient's records, more or less.
    """

    records_at_once: int | None = None
    """A patient's records go through the network so many at a time, for memory's sake; changes rounding only."""

    def __post_init__(self) -> None:
        if self.records_at_once is not None and self.records_at_once < 1:
            raise ValueError(f"records_at_once must be at least 1, got {self.records_at_once}")

    @property
    def contribution(self) -> UnitFunction:
        """The gradient of all of a person's records."""
        return summed_gradient

    @property
    def width(self) -> int | None:
        """``records_at_once``."""
        return self.records_at_once


@dataclass(frozen=True, slots=True, kw_only=True)
class UserDPSGDMethod(Method):
    """DP-SGD whose unit of privacy is a person with all of their records."""

    KIND, NAME, BY_PERSON = "UserDPSGD", "user-level DP-SGD", True
    NOISY_SUMS = True
    learning_rate: float = 0.5
    records_at_once: int = 0
    """A person's records go through the network so many at a time; 0 takes them together."""

    def algorithm(self, mechanism: Mechanism, noise: Callable[[], Schedule]) -> UserLevelDPSGD:
        """See :class:`pacdp.algorithms.method.Method`."""
        return UserLevelDPSGD(
            mechanism=mechanism,
            noise_multiplier=noise(),
            learning_rate=self.learning_rate,
            records_at_once=self.records_at_once or None,
        )
