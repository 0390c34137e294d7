"""What a private run did, as plain data.

A run of DP-SGD, DP-SGLD, DP-BBP or DP-MC-Dropout is one sequence of Poisson-sampled Gaussian mechanisms: step t draws
every example independently with probability q_t, sums gradients clipped to norm C, and adds N(0, (σ_t C)² I). Nothing
else about it matters for privacy, and all of it is public. :class:`MechanismHistory` is that sequence, run-length
encoded. :mod:`pacdp.step.accountant` says what it costs; checkpoints carry it.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

ADJACENCY = "add-remove"
MECHANISM = "poisson-sampled gaussian"


class GaussianRun(NamedTuple):
    """Equal steps in a row."""

    noise_multiplier: float
    """Standard deviation of the noise over the clipping norm."""
    sample_rate: float
    """Probability with which an example takes part in a step."""
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismHistory:
    """Poisson-sampled Gaussian mechanisms in the order in which they ran.

    Formal guarantee: the released weights are a function of the outputs of these mechanisms, composed adaptively with
    noise multipliers and sample rates fixed without looking at the data. A noise multiplier counts in clipping norms,
    by one of which the sum moves between add-remove neighbours (one example more or less); ``adjacency`` says so.
    """

    runs: tuple[GaussianRun, ...] = ()
    adjacency: Literal["add-remove"] = ADJACENCY

    def __post_init__(self) -> None:
        if self.adjacency != ADJACENCY:
            raise ValueError(
                f"adjacency must be {ADJACENCY!r}, the one the clipped sum is calibrated for, got {self.adjacency!r}"
            )
        for run in self.runs:
            check_run(*run)

    @property
    def steps(self) -> int:
        """Number of mechanisms."""
        return sum(run.steps for run in self.runs)

    def followed_by(self, other: "MechanismHistory") -> "MechanismHistory":
        """Both, one after the other on the same data: the history of several chains is that of one long chain."""
        return MechanismHistory(runs=merged((*self.runs, *other.runs)))

    def first(self, steps: int) -> "MechanismHistory":
        """The first ``steps`` mechanisms, or all if there are fewer."""
        runs, left = [], steps
        for run in self.runs:
            if left <= 0:
                break
            runs.append(run._replace(steps=min(run.steps, left)))
            left -= run.steps
        return MechanismHistory(runs=tuple(runs))

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {"mechanism": MECHANISM, "adjacency": self.adjacency, "runs": [list(run) for run in self.runs]}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "MechanismHistory":
        """The history that ``to_dict`` wrote.

        Raises:
            ValueError: the record describes another mechanism, or numbers no mechanism can have.
        """
        if not isinstance(record, Mapping) or record.get("mechanism") != MECHANISM:
            raise ValueError(f"record must describe a {MECHANISM} mechanism, got {record!r}")
        try:
            runs = tuple(GaussianRun(float(s), float(q), _whole(t)) for s, q, t in record["runs"])
            return cls(runs=runs, adjacency=record["adjacency"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"record is no history of mechanisms ({error}): {record!r}") from error


def merged(runs: Iterable[GaussianRun]) -> tuple[GaussianRun, ...]:
    """The same steps, with equal neighbours counted together."""
    out: list[GaussianRun] = []
    for run in runs:
        if out and out[-1][:2] == run[:2]:
            out[-1] = out[-1]._replace(steps=out[-1].steps + run.steps)
        else:
            out.append(run)
    return tuple(out)


def check_run(noise_multiplier: float, sample_rate: float, steps: int) -> None:
    """Refuse numbers that no mechanism has, by a ValueError."""
    if not (math.isfinite(noise_multiplier) and noise_multiplier >= 0.0):
        raise ValueError(f"noise_multiplier must be a finite number >= 0, got {noise_multiplier}")
    if not 0.0 < sample_rate <= 1.0:
        raise ValueError(f"expected 0 < sample_rate <= 1, got {sample_rate}")
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")


def _whole(value: Any) -> int:
    if not isinstance(value, int):
        raise TypeError(f"steps must be an integer, got {value!r}")
    return value
