"""What a private run did, as plain data, and what Opacus's accountants make of it.

A run of DP-SGD, DP-SGLD, DP-BBP or DP-MC-Dropout is one sequence of Poisson-sampled Gaussian mechanisms: step t draws
every example independently with probability q_t, sums gradients clipped to norm C, and adds N(0, (σ_t C)² I). Nothing
else about it matters for privacy, and all of it is public. :class:`MechanismHistory` is that sequence, run-length
encoded. Accountants consume it; checkpoints carry it.
"""

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from opacus.accountants import IAccountant, PRVAccountant, RDPAccountant

ADJACENCY = "add-remove"
MECHANISM = "poisson-sampled gaussian"
_ORDERS = (1.25, 1.5, 1.75, 2, 2.25, 2.5, 2.75, 3, 3.5, 4, 4.5, 5, 5.5, *range(6, 21), 22, 24, 28, 32, 40, 48, 64, 96,
           128, 192, 256, 384, 512)  # fmt: skip


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
    noise multipliers and sample rates fixed without looking at the data, under add-remove adjacency (neighbours differ
    by one example more or less).
    """

    runs: tuple[GaussianRun, ...] = ()
    adjacency: Literal["add-remove"] = ADJACENCY

    def __post_init__(self) -> None:
        if self.adjacency != ADJACENCY:
            raise ValueError(
                f"adjacency must be {ADJACENCY!r}, the one the clipped sum is calibrated for, got {self.adjacency!r}"
            )
        for run in self.runs:
            _check_run(*run)

    @property
    def steps(self) -> int:
        """Number of mechanisms."""
        return sum(run.steps for run in self.runs)

    def followed_by(self, other: "MechanismHistory") -> "MechanismHistory":
        """Both, one after the other on the same data: the history of several chains is that of one long chain."""
        return MechanismHistory(runs=merged((*self.runs, *other.runs)))

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
        except (KeyError, TypeError) as error:
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


def epsilon(
    history: MechanismHistory, *, delta: float, accountant: Literal["rdp", "prv"] = "rdp", epsilon_error: float = 0.01
) -> float:
    """An upper bound on epsilon by one of Opacus's accountants; infinity where the accountant finds none.

    Formal guarantee: the mechanisms are (epsilon, delta)-differentially private under add-remove adjacency, as far as
    the accountant's theory goes: Rényi orders up to 512 ("rdp", Mironov 2017), or the upper end of the numerical
    composition of Gopi, Lee and Wutschitz 2021 ("prv", tighter, slow when every step has noise of its own). The
    central limit theorem of Gaussian differential privacy is not offered: it understates epsilon.

    Raises:
        ValueError: delta outside (0, 1), or another accountant.
    """
    if not 0.0 < delta < 1.0:
        raise ValueError(f"expected 0 < delta < 1, got {delta}")
    if accountant not in ("rdp", "prv"):
        raise ValueError(f"accountant must be 'rdp' or 'prv', got {accountant!r}")
    if history.steps == 0:
        return 0.0
    if any(run.noise_multiplier == 0.0 for run in history.runs):
        return math.inf
    theirs = RDPAccountant() if accountant == "rdp" else PRVAccountant()
    theirs.history = [tuple(run) for run in history.runs]
    options: dict[str, Any] = {"alphas": list(_ORDERS)} if accountant == "rdp" else {"eps_error": epsilon_error}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = float(theirs.get_epsilon(delta, **options))
    except (ValueError, RuntimeError, OverflowError, MemoryError):
        return math.inf
    return math.inf if math.isnan(value) else max(0.0, value)


class HistoryAccountant(IAccountant):
    """Opacus's accountant interface over a :class:`MechanismHistory`; it forgets nothing and counts steps."""

    def __init__(self) -> None:
        self.history: list[GaussianRun] = []

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Record one mechanism."""
        _check_run(noise_multiplier, sample_rate, 1)
        self.history[-1:] = merged((*self.history[-1:], GaussianRun(noise_multiplier, sample_rate, 1)))

    def get_epsilon(self, delta: float, **kwargs: Any) -> float:
        """See :func:`epsilon`."""
        return epsilon(self.recorded(), delta=delta, **kwargs)

    def recorded(self) -> MechanismHistory:
        """What ran so far."""
        return MechanismHistory(runs=tuple(GaussianRun(*run) for run in self.history))

    def __len__(self) -> int:
        return sum(run[2] for run in self.history)

    @classmethod
    def mechanism(cls) -> str:
        """The name under which Opacus stores its state."""
        return "pacdp-history"


def _check_run(noise_multiplier: float, sample_rate: float, steps: int) -> None:
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
