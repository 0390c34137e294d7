"""What a mechanism promises, as plain records, and the budget of the exponential mechanism."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from bounds import _check
from bounds._rounding import outward

Adjacency = Literal["replace-one", "add-remove"]
PrivacyStatus = Literal["exact mechanism", "accounted", "assumes stationarity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PureDP:
    """(epsilon, 0)-differential privacy.

    Formal guarantee (of the mechanism it describes): for neighbouring data sets S, S' and every event,
    P(M(S) in event) ≤ exp(epsilon) · P(M(S') in event).

    Attributes:
        epsilon: privacy loss in nats; zero or more.
        adjacency: "replace-one" (same size, one record changed; what the bounds of ``bounds.private`` need) or
            "add-remove"; an epsilon for add-remove is at most 2 epsilon for replace-one.
        status: "exact mechanism" (the law that the theorem is about was sampled), "accounted" (an accountant
            proved it), or "assumes stationarity" (a Markov chain stood in for the law; certificates that use it
            are optimistic).

    Raises ValueError when epsilon is negative or NaN, or a word is not one of these.
    """

    epsilon: float
    adjacency: Adjacency
    status: PrivacyStatus

    def __post_init__(self) -> None:
        _check.nonnegative(epsilon=self.epsilon)
        for name, value, words in (
            ("adjacency", self.adjacency, get_args(Adjacency)),
            ("status", self.status, get_args(PrivacyStatus)),
        ):
            if value not in words:
                raise ValueError(f"{name} must be one of {', '.join(words)}, got {value!r}.")

    def to_dict(self) -> dict[str, Any]:
        """Plain types for JSON, with the notion of privacy under "notion"."""
        return {"notion": "pure", **asdict(self)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "PureDP":
        """The record that ``to_dict`` wrote. Raises ValueError when it describes something else."""
        if set(record) != {"notion", "epsilon", "adjacency", "status"} or record["notion"] != "pure":
            raise ValueError(f"record must describe pure differential privacy, got {dict(record)!r}.")
        return cls(epsilon=record["epsilon"], adjacency=record["adjacency"], status=record["status"])


def exponential_mechanism_epsilon(*, beta: float, tau: float, loss_range: float, n: int) -> float:
    """The replace-one epsilon of one exact sample from density ∝ exp(beta · F(w; S)), rounded up.

    F is the local entropy ln ∫ exp(-tau R̂(w') - tau gamma/2 ‖w' - w‖²) dP(w'), or -tau R̂(w) itself, and R̂ the mean
    of n losses. Replacing one record moves F by at most tau · loss_range / n everywhere, hence

        epsilon = 2 · beta · tau · loss_range / n.

    Dziugaite and Roy (ICML 2018), "Entropy-SGD optimizes the prior of a PAC-Bayes bound", Theorem 4.4.

    Formal guarantee: holds for an exact sample from a normalisable density; a Markov chain that approximates it
    has this epsilon only if it is stationary.

    Args:
        beta: inverse temperature of the mechanism (no unit).
        tau: inverse temperature of the loss, in nats per unit of mean loss.
        loss_range: oscillation of the loss, its largest minus its smallest possible value.
        n: number of records.

    Raises ValueError when an argument is not positive (beta and tau may be zero).
    """
    _check.nonnegative(beta=beta, tau=tau)
    _check.positive(loss_range=loss_range)
    _check.count(n=n)
    return outward(2.0 * beta * tau * loss_range / n)
