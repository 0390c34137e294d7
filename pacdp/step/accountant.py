"""What a history of mechanisms costs, by the accountant of ``bounds``; and that accountant as one of Opacus's.

``import pacdp.private`` registers it, so that any engine of Opacus can ask for it:

    PrivacyEngine(accountant="pld")

The number to report is the upper end of a bracket computed from the distribution of the composed privacy loss;
discretisation, truncation and rounding are in it. docs/accounting.md says how, and which theorems it rests on.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from opacus.accountants import IAccountant, register_accountant

from bounds.accounting import (
    Composed,
    Event,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    PrivacyBound,
    SelfComposed,
    privacy_epsilon,
    privacy_record,
    renyi_epsilon,
)
from bounds.privacy import Adjacency, ApproxDP, GaussianDP
from bounds.privacy_loss import PrivacyLossDistribution
from pacdp.step.event import ADJACENCY, MECHANISM, GaussianRun, MechanismHistory, check_run, merged

NAME = "pld"
# what the accountant's grid can resolve; beyond, less noise or a larger rate is accounted for than was used
_LEAST_NOISE, _MOST_NOISE, _LEAST_RATE = 1e-100, 1e10, 1e-9


def privacy_event(history: MechanismHistory) -> Event:
    """The history as the accountant's event. Noise beyond 1e10 counts as 1e10, rates below 1e-9 as 1e-9.

    Raises:
        ValueError: a history without steps.
    """
    if history.steps == 0:
        raise ValueError("history must hold at least one step to be an event, got none: what did not run costs nothing")
    return Composed(events=tuple(_event(run) for run in history.runs))


def privacy_spent(
    history: MechanismHistory, *, delta: float, adjacency: Adjacency, resolution: float | None = None
) -> PrivacyBound:
    """The epsilon of a history, bracketed: ``lower``, ``estimate``, ``upper``, of which ``upper`` is to be reported.

    Formal guarantee: the mechanisms are (upper, delta)-differentially private for these neighbours, and so is whatever
    is computed from their outputs. No mechanism of this description has less than ``lower``.

    Args:
        delta: a probability strictly between 0 and 1.
        adjacency: "add-remove", or "replace-one", where the clipped sum moves by twice as much.
        resolution: see ``bounds.accounting.privacy_epsilon``.

    Raises:
        ValueError: delta or adjacency out of range.
    """
    if history.steps == 0:
        if not 0.0 < delta < 1.0:
            raise ValueError(f"delta must lie strictly between 0 and 1, got {delta!r}")
        ApproxDP(epsilon=0.0, delta=delta, adjacency=adjacency, status="accounted")
        return PrivacyBound(lower=0.0, estimate=0.0, upper=0.0, epsilon=0.0, delta=delta, adjacency=adjacency,
                            status="accounted", method="nothing ran")  # fmt: skip
    return privacy_epsilon(event=privacy_event(history), delta=delta, adjacency=adjacency, resolution=resolution)


def epsilon(history: MechanismHistory, *, delta: float, adjacency: Adjacency) -> float:
    """``privacy_spent(...).upper``: never less than the truth; infinity where a step has no noise.

    Formal guarantee: the mechanisms are (epsilon, delta)-differentially private for these neighbours.

    Raises:
        ValueError: delta or adjacency out of range.
    """
    return privacy_spent(history, delta=delta, adjacency=adjacency).upper


def epsilon_by_renyi(history: MechanismHistory, *, delta: float, adjacency: Adjacency) -> float:
    """The epsilon that the Rényi divergences of the steps imply: a cross-check of :func:`epsilon`, mostly larger.

    Both are proved, by different theorems and without common code, so that neither can lie below the other's
    ``lower``.

    Formal guarantee: as for :func:`epsilon`; Mironov 2017, Proposition 3.

    Raises:
        ValueError: delta or adjacency out of range.
    """
    if history.steps == 0:
        return epsilon(history, delta=delta, adjacency=adjacency)
    return renyi_epsilon(event=privacy_event(history), delta=delta, adjacency=adjacency).upper


def privacy_claim(history: MechanismHistory, *, adjacency: Adjacency) -> GaussianDP | PrivacyLossDistribution:
    """What ``bounds.private_pac_bayes(privacy=...)`` takes, for a prior or weights that these mechanisms released.

    A Gaussian where that is exact (every example in every step), else the distribution of the privacy loss. Those
    bounds compare the run with itself without one example, so that "add-remove" serves, and costs less.

    Formal guarantee: the record's loss dominates that of the history for these neighbours.

    Raises:
        ValueError: adjacency unknown, or a step without noise.
    """
    if history.steps == 0:
        return GaussianDP(mu=0.0, adjacency=adjacency, status="accounted")
    return privacy_record(event=privacy_event(history), adjacency=adjacency)


class HistoryAccountant(IAccountant):
    """Opacus's accountant interface over a :class:`MechanismHistory`; it forgets nothing and counts steps.

    ``get_epsilon`` is about add-remove neighbours unless told otherwise, as everything in Opacus is.
    """

    def __init__(self) -> None:
        self.history: list[GaussianRun] = []

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Record one mechanism."""
        check_run(noise_multiplier, sample_rate, 1)
        self.history[-1:] = merged((*self.history[-1:], GaussianRun(noise_multiplier, sample_rate, 1)))

    def get_epsilon(self, delta: float, *, adjacency: Adjacency = ADJACENCY) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        """See :func:`epsilon`."""
        return epsilon(self.recorded(), delta=delta, adjacency=adjacency)

    def recorded(self) -> MechanismHistory:
        """What ran so far."""
        return MechanismHistory(runs=tuple(GaussianRun(float(s), float(q), steps) for s, q, steps in self.history))

    def __len__(self) -> int:
        return sum(run[2] for run in self.history)

    @classmethod
    def mechanism(cls) -> str:
        """The name under which Opacus knows it."""
        return NAME

    def state_dict(self, destination: Any = None) -> Any:
        """Plain lists and strings, which load without running code."""
        state = OrderedDict() if destination is None else destination
        state["history"] = [list(run) for run in self.recorded().runs]
        state["mechanism"] = self.mechanism()
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what another accountant of this kind recorded.

        Raises:
            ValueError: the state of another mechanism, a history that none can have, or recorded steps that loading
                would forget.
        """
        if not state_dict or state_dict.get("mechanism") != self.mechanism() or "history" not in state_dict:
            name = (state_dict or {}).get("mechanism")
            raise ValueError(f"state must be one that an accountant {NAME!r} wrote, got one of {name!r}: "
                             "account for that run by the accountant that it was started with")  # fmt: skip
        if self.history:
            raise ValueError(f"this accountant has recorded {len(self)} steps, which loading would forget: "
                             "load into a new one")  # fmt: skip
        record = {"mechanism": MECHANISM, "adjacency": ADJACENCY, "runs": state_dict["history"]}
        self.history = list(MechanismHistory.from_dict(record).runs)


def _event(run: GaussianRun) -> Event:
    if run.noise_multiplier < _LEAST_NOISE:
        return NonPrivate()
    noise = Gaussian(noise_multiplier=float(min(run.noise_multiplier, _MOST_NOISE)))
    step = PoissonSampled(sample_rate=max(float(run.sample_rate), _LEAST_RATE), event=noise)
    return SelfComposed(event=step, count=run.steps)


register_accountant(NAME, HistoryAccountant)
