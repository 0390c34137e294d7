"""What the accountant answers: a number in a bracket, with everything it is about."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from bounds.privacy import Adjacency, ApproxDP, PrivacyStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyBound:
    """The promise (epsilon, delta) of an event; one of the two was given, the other lies in a bracket.

    Formal guarantee: where the status is "accounted", the event is (``epsilon``, ``delta``)-differentially private for
    the neighbours stated, both directions included: the number that was asked for is ``upper``.

    Attributes:
        lower: no mechanism of this description has to have less; exponential mechanisms are counted as free here.
        estimate: a guess in between, without a guarantee.
        upper: the number to report; ``epsilon`` (nats) or ``delta`` is the same number, whichever was asked for.
        adjacency: the neighbouring relation.
        status: "accounted" (proved), or "approximate accountant" (optimistic; for reproducing papers).
        method: the accountant, in words.
    """

    lower: float
    estimate: float
    upper: float
    epsilon: float
    delta: float
    adjacency: Adjacency
    status: PrivacyStatus = "accounted"
    method: str

    def __float__(self) -> float:
        return self.upper

    @property
    def guarantee(self) -> ApproxDP:
        """The record that bounds on the risk take."""
        return ApproxDP(epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency, status=self.status)

    def to_dict(self) -> dict[str, Any]:
        """Plain types for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The record that ``to_dict`` wrote. Raises ValueError when it has other fields."""
        names = {field.name for field in fields(cls)}
        if set(record) != names:
            raise ValueError(f"record must have the fields {sorted(names)}, got {sorted(record)}.")
        return cls(**record)
