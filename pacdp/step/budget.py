"""A limit on what a private run may cost, and how many of its steps keep to it.

The schedule is public and fixed beforehand, so that the step before which training halts is known before it starts and
tells nothing about the data.
"""

import math
from dataclasses import dataclass

from bounds.privacy import Adjacency, ApproxDP
from pacdp.step.accountant import epsilon
from pacdp.step.event import MechanismHistory

_NOTHING = MechanismHistory()


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyBudget:
    """An (epsilon, delta) that a run never exceeds.

    Formal guarantee: after ``affordable_steps`` further steps the whole history is (epsilon, delta)-differentially
    private for these neighbours, and so is every beginning of it, being a function of the whole.

    Raises ValueError when epsilon is not positive and finite, delta outside (0, 1), or the relation unknown.
    """

    epsilon: float
    """Nats."""
    delta: float
    adjacency: Adjacency

    def __post_init__(self) -> None:
        if not 0.0 < self.epsilon < math.inf:
            raise ValueError(f"a budget's epsilon must be positive and finite, got {self.epsilon!r}")
        if not 0.0 < self.delta < 1.0:
            raise ValueError(f"a budget's delta must lie strictly between 0 and 1, got {self.delta!r}")
        ApproxDP(epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency, status="accounted")

    def allows(self, history: MechanismHistory) -> bool:
        """Whether the accountant's upper end for ``history`` keeps to the budget."""
        return epsilon(history, delta=self.delta, adjacency=self.adjacency) <= self.epsilon

    def affordable_steps(self, upcoming: MechanismHistory, *, after: MechanismHistory = _NOTHING) -> int:
        """How many of the ``upcoming`` steps may run when ``after`` ran before: the most for which it was shown."""
        if self.allows(after.followed_by(upcoming)):
            return upcoming.steps
        low, high = 0, upcoming.steps
        while high - low > 1:
            middle = (low + high) // 2
            enough = self.allows(after.followed_by(upcoming.first(middle)))
            low, high = (middle, high) if enough else (low, middle)
        return low
