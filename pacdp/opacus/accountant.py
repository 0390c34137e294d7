"""The accountant of ``bounds`` as one of Opacus's: importing this room registers it for any engine of Opacus.

Steps of a loop of one's own are counted before their noise is drawn: in the engine's event, and in a ledger.

PrivacyEngine(accountant="pld")
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from opacus.accountants import IAccountant, register_accountant

from bounds.accounting import Event, OnceAnEpoch, SelfComposed, event_from_dict, event_to_dict
from bounds.privacy import Adjacency
from pacdp.errors import CheckpointError
from pacdp.opacus.loader import Epoch
from pacdp.schedules import Schedule, value_at
from pacdp.step import event as events
from pacdp.step.accountant import epsilon
from pacdp.step.budget import planned, planned_epochs
from pacdp.step.noise import Randomness
from pacdp.step.paid import Paid, stream_of
from pacdp.step.processes import Together, process_rank, require_agreement
from pacdp.store.ledger import Ledger
from pacdp.store.reservation import Books, NoLedger, new_run

NAME = "pld"
_NO_END = 2**62
"""A loop of one's own may go on for as long as it likes."""


class EventAccountant(IAccountant):
    """Opacus's accountant interface over an event; it forgets nothing and counts steps.

    ``get_epsilon`` is about the neighbours of ``adjacency`` unless told otherwise.
    """

    def __init__(self) -> None:
        self._history, self._ran = events.History(), False
        self.books: Ledger | None = None
        """The ledger that counts steps too, where there is one by the time of a step."""
        self.receipt: Mapping[str, Any] | None = None
        """Which entry of it counts the last steps."""
        self.public_size = False
        """Whether a sample rate told the number of examples."""

    @property
    def adjacency(self) -> Adjacency:
        """The neighbours that epsilon is for where nobody says: replace-one where the number of examples is public."""
        return "replace-one" if self.public_size else events.ADJACENCY

    @property
    def event(self) -> Event | None:
        """What ran so far."""
        return self._history.event

    @event.setter
    def event(self, event: Event | None) -> None:
        """Take over a history.

        Raises:
            ValueError: steps ran, which writing would forget.
        """
        if self._ran:
            raise ValueError(
                f"this accountant has recorded {len(self)} steps that ran, which another history would forget: take "
                "a new engine for other data, and pacdp.private.joined for what one more run costs"
            )
        self._history = events.History(event)

    def begin(self, event: Event | None, receipt: Mapping[str, Any] | None = None) -> None:
        """Go on from what was recorded elsewhere, which enters a ledger that has not counted it.

        Raises:
            ValueError: its steps were counted in another ledger, or there is none here; or another history is here.
        """
        self.require(receipt)
        self.event, self.receipt, self._ran = event, receipt, event is not None
        if receipt is None:
            self.enter()

    def require(self, receipt: Mapping[str, Any] | None) -> None:
        """Refuse, by raising ValueError, steps that were counted in another ledger than this accountant's, and any
        where it has a history, which they would replace."""
        if self.event is not None:
            raise CheckpointError(
                f"this engine has already recorded {len(self)} steps, which loading would forget: load into a new one, "
                "and join their events with pacdp.private.joined"
            )
        if receipt is not None:
            (self.books or NoLedger()).require(receipt)

    def enter(self) -> None:
        """Enter all that ran into the ledger."""
        if self.books is not None and self.event is not None and process_rank() == 0:
            label = "steps before the engine's ledger"
            self.books.correct(
                event=self.event, unit="example", label=label, tells_size=self.public_size
            )

    @property
    def history(self) -> list[tuple[float, float, int]]:
        """Equal steps in a row as Opacus writes them: (noise_multiplier, sample_rate, steps).

        Raises:
            ValueError: a step that is no Gaussian one; read ``event`` then.
        """
        found = list[tuple[float, float, int]]()
        for step, count in events.runs_of(self.event):
            rate, noise, _ = events.told(step)
            if step != events.sampled_step([noise], sample_rate=rate):
                raise ValueError(
                    f"a step of the history is a {type(step).__name__}, which no noise multiplier describes: read event"
                )
            found.append((noise, rate, count))
        return found

    @history.setter
    def history(self, runs: Sequence[tuple[float | int, float | int, int]]) -> None:
        """Opacus's search for a noise multiplier writes here.

        Raises:
            ValueError: steps ran, which writing would forget.
        """
        each = (
            (events.sampled_step([float(noise)], sample_rate=rate), steps)
            for noise, rate, steps in runs
        )
        self.event = events.joined(*(SelfComposed(event=step, count=steps) for step, steps in each))

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Record one mechanism."""
        self.count(events.sampled_step([noise_multiplier], sample_rate=sample_rate))

    def count(self, event: Event) -> None:
        """Record a step, or an epoch."""
        self._history.append(event)
        self._ran = True

    def get_epsilon(self, delta: float, *, adjacency: Adjacency | None = None) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        """See :func:`pacdp.step.accountant.epsilon`."""
        return epsilon(self.event, delta=delta, adjacency=adjacency or self.adjacency)

    def __len__(self) -> int:
        return events.steps_of(self.event)

    @classmethod
    def mechanism(cls) -> str:
        """The name under which Opacus knows it."""
        return NAME

    def state_dict(self, destination: Any = None) -> Any:
        """Plain lists and strings, which load without running code."""
        state = OrderedDict() if destination is None else destination
        state["event"] = None if self.event is None else event_to_dict(self.event)
        state["adjacency"] = self.adjacency
        state["receipt"], state["mechanism"] = self.receipt, NAME
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what another accountant of this kind recorded.

        Raises:
            ValueError: the state of another mechanism, an event that none can have, recorded steps that loading
                would forget, or steps that another ledger counts.
        """
        name = (state_dict or {}).get("mechanism")
        if name != NAME or not {"event", "adjacency"} <= state_dict.keys():
            raise ValueError(
                f"state must be one that an accountant {NAME!r} wrote, got one of {name!r}: account for that run by "
                "the accountant that it was started with"
            )
        record = state_dict["event"]
        event = None if record is None else event_from_dict(record)
        self.public_size |= state_dict["adjacency"] != events.ADJACENCY
        self.begin(event, state_dict.get("receipt"))


@dataclass(kw_only=True)
class Account:
    """Counts the steps of one chain.

    Attributes:
        accountant: of all chains of one engine.
        schedule: gives the same number whenever it is asked for a step.
        every: steps that are reserved in the ledger together, those of one pass of the loader: a loop that is killed
            pays for the rest of its pass as well.
        once: whether a pass is an epoch, in one batch of which each example is; it is counted at its first step.
    """

    accountant: EventAccountant
    schedule: Schedule
    sample_rate: float
    every: int
    randomness: Randomness
    together: Together
    device: torch.device
    once: bool = False
    paid: Paid | None = None

    def next(self, step: int, epoch: Epoch | None) -> tuple[int, float]:
        """Count the next step, from 0 on, or the epoch that begins with it; return its number and its noise multiplier.

        Args:
            step: by how many it follows; epochs begin at multiples of ``every``.
            epoch: that of its batch, where passes are epochs.

        Raises:
            ValueError: the ledger refuses, and no noise may be drawn; or the epoch was counted at more noise, as where
                a run goes on with another schedule.
        """
        first = step
        if epoch is not None:
            ahead = -(-step // self.every) * self.every
            first = ahead if epoch.first is None else epoch.first
            step = first + epoch.used - 1
        noise = value_at(step, noise_multiplier=self.schedule)
        if self.together.several:
            require_agreement({f"noise_multiplier at step {step}": noise}, self.device)
        if epoch is not None and noise < epoch.noise:
            raise ValueError(
                f"this epoch was counted at noise_multiplier {epoch.noise:g}, and this step has {noise:g}: go on with "
                "the schedule that it began with"
            )
        books = self.accountant.books
        if (
            books is not None or self.together.several
        ):  # where all hear whether some have a ledger alone
            if self.paid is None or books not in (None, self.paid.books):
                self.paid = self._paid(NoLedger() if books is None else books)
            self.paid.before(step + 1)
            self.accountant.receipt = self.paid.receipt
        if epoch is None:
            self.accountant.step(noise_multiplier=noise, sample_rate=self.sample_rate)
        elif epoch.begins:
            ((whole, _),) = events.runs_of(self.planned(first, first + self.every))
            self.accountant.count(whole)
            epoch.first = first
            epoch.noise = whole.event.noise_multiplier if isinstance(whole, OnceAnEpoch) else 0.0
        return step, noise

    def planned(self, done: int, steps: int) -> Event | None:
        """The history that the steps from ``done`` on and before ``steps`` will have."""
        if self.once:
            return planned_epochs(self.schedule, batches=self.every, steps=steps, done=done)
        return planned(self.schedule, sample_rate=self.sample_rate, steps=steps, done=done)

    def _paid(self, books: Books) -> Paid:
        """Leave is asked of these books."""
        return Paid(
            books,
            run=new_run(),
            algorithm="PrivateEngine",
            unit="example",
            cost=lambda first, last: self.planned(first - 1, last),
            stream=stream_of(books, self.randomness),
            every=self.every,
            last=_NO_END,
            together=self.together,
            device=self.device,
            tells_size=self.accountant.public_size,
        )


register_accountant(NAME, EventAccountant)
