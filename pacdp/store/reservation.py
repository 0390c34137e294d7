"""What a training loop asks of a ledger, and what it is given: leave to draw the noise of a stretch of steps.

A loop reserves steps before it draws their noise, from one checkpoint to the next or all at once:

    granted = books.reserve(Stretch(run=run, algorithm="sgld", unit="example", first=1, last=100, event=event))
    for step in range(1, 101):
        granted.draw(step)
        ...

The steps of a reservation are drawn once, in order, by the process that made it. Whoever goes on from a checkpoint
reserves again: with noise of the system that is a new release, whatever became of the old one. ``granted.receipt``
belongs in the checkpoint's header, and :meth:`Books.require` is asked about it before a run goes on.
"""

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from bounds import _check
from bounds.accounting import Event, event_to_dict
from pacdp.store.record import record

Unit = Literal["example", "person"]
UNITS: tuple[Unit, ...] = get_args(Unit)
Kind = Literal["reservation", "release", "correction"]


class NotReserved(ValueError):
    """Noise was about to be drawn that nobody reserved."""


@record
class Stream:
    """Where noise comes from: the operating system, or numbers that a seed or a key fixes.

    Both are keyed digests, made by :meth:`Books.stream`; a repeat of both is the same release, bit for bit.
    """

    numbers: str = "system"
    """Which random numbers; "system" for those that nobody can draw again, "secret:" and a digest for those that only
    who holds a secret key can."""
    release: str = ""
    """Everything that fixes what is released, the random numbers among it."""

    def __post_init__(self) -> None:
        _check.text(numbers=self.numbers, release=self.release)
        if not self.numbers or self.repeatable != bool(self.release):
            raise ValueError(
                f"numbers and release must both be digests of noise that can be drawn again, got {self.numbers!r} and "
                f"{self.release!r}; take a stream from the ledger's stream()"
            )

    @property
    def repeatable(self) -> bool:
        """Whether the noise can be drawn again, from a seed or a secret key."""
        return self.numbers != "system"

    @property
    def seeded(self) -> bool:
        """Whether a seed fixes the noise, which whoever knows it can subtract."""
        return self.repeatable and not self.numbers.startswith("secret:")


SYSTEM = Stream()
"""Noise that nobody can draw again."""


@record
class Stretch:
    """Steps of a run that are to be counted together. Values out of range raise ValueError."""

    run: str
    """The run's random name, from :func:`new_run`, which its checkpoints carry."""
    algorithm: str
    unit: Unit
    """Whose presence the event hides."""
    first: int
    """The first step, from 1 on."""
    last: int
    """The last step, which is part of the stretch."""
    event: Event
    """What all steps of the stretch release together."""
    stream: Stream = SYSTEM
    label: str = ""
    """A few words for whoever reads the ledger."""
    kind: Kind = "reservation"
    """A reservation is of steps of training, a release of counts or scores, a correction of what has happened."""
    tells_size: bool = False
    """Whether rate or divisor are made of the number of units: nothing is promised for add-remove neighbours then."""

    def __post_init__(self) -> None:
        _check.text(run=self.run, algorithm=self.algorithm, label=self.label)
        if not self.run:
            raise ValueError("run must be the run's name, got none; take one from new_run()")
        if self.unit not in UNITS:
            raise ValueError(f"unit must be one of {', '.join(UNITS)}, got {self.unit!r}")
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind must be one of {', '.join(get_args(Kind))}, got {self.kind!r}")
        if not isinstance(self.tells_size, bool):
            raise ValueError(f"tells_size must be True or False, got {self.tells_size!r}")
        _check.count(first=self.first, last=self.last)
        if self.first > self.last:
            raise ValueError(f"first must be at most last, got steps {self.first} to {self.last}")
        if not isinstance(self.stream, Stream):
            raise ValueError(
                f"stream must be SYSTEM, or come from the ledger's stream(), got {self.stream!r}"
            )
        event_to_dict(self.event)  # which refuses what is no event


@dataclass(slots=True, kw_only=True)
class Reservation:
    """Leave to draw the noise of a stretch of steps, each once, in order, in this process.

    Formal guarantee: the steps are counted, and the count is on the disk, before a reservation of a ledger exists.
    """

    stretch: Stretch
    receipt: Mapping[str, Any] | None
    """For the checkpoint's header: which entry of which ledger counts the steps; None without a ledger."""
    repeated: bool = False
    """Whether these very numbers were released before, so that they cost nothing more."""
    _next: int = field(init=False)
    _process: int = field(init=False, default_factory=os.getpid)

    def __post_init__(self) -> None:
        self._next = self.stretch.first

    def __reduce__(self) -> Any:
        """Refused: a copy could draw the same steps once more."""
        raise TypeError(
            "a reservation is not copied, since its steps are drawn once: reserve them anew"
        )

    def draw(self, step: int) -> None:
        """Say that the noise of ``step`` is drawn now.

        Raises:
            NotReserved: a step outside the stretch, one that was drawn already, or another process.
        """
        run, last = self.stretch.run, self.stretch.last
        if not self._next <= step <= last:
            left = f"steps {self._next} to {last} are" if self._next <= last else "no step is"
            raise NotReserved(
                f"step {step} of run {run} is not reserved: {left} left of the reservation of steps "
                f"{self.stretch.first} to {last}; reserve steps anew before drawing their noise"
            )
        if os.getpid() != self._process:
            raise NotReserved(
                f"step {step} of run {run} was reserved by process {self._process}, not by {os.getpid()}: a process "
                "that draws noise of its own reserves it itself"
            )
        self._next = step + 1


@runtime_checkable
class Books(Protocol):
    """A ledger, as a loop knows it: :class:`pacdp.store.ledger.Ledger` or :class:`NoLedger`."""

    def stream(self, *, keyed_by: Any, settings: Any, secret: bool = False) -> Stream:
        """The identity of noise that can be drawn again.

        Args:
            keyed_by: JSON values that fix the random numbers, and nothing else: the seed, with whatever the generator
                is keyed by besides.
            settings: JSON values that fix all else about the release: algorithm, schedule, network, data, device,
                versions. Two runs that agree in both must release the same numbers, bit for bit.
            secret: whether ``keyed_by`` holds a key of the operating system in place of a seed.
        """
        ...

    def reserve(self, stretch: Stretch) -> Reservation:
        """Count the stretch, for good, before its noise is drawn.

        Raises:
            ValueError: it cannot be counted, or would pass a limit; then nothing may be drawn.
        """
        ...

    def require(self, receipt: Mapping[str, Any] | None) -> None:
        """Refuse to go on from a checkpoint whose steps these books do not count.

        Raises:
            ValueError: the receipt is of other books.
        """
        ...


class NoLedger:
    """Books that count nothing: for tests, and for whoever keeps a ledger elsewhere."""

    def stream(self, *, keyed_by: Any, settings: Any, secret: bool = False) -> Stream:
        """Noise that nobody compares."""
        del keyed_by, settings, secret
        return SYSTEM

    def reserve(self, stretch: Stretch) -> Reservation:
        """Leave to draw the stretch."""
        return Reservation(stretch=stretch, receipt=None)

    def require(self, receipt: Mapping[str, Any] | None) -> None:
        """Refuse to go on, uncounted, with what a ledger counted so far.

        Raises:
            ValueError: there is a receipt.
        """
        if receipt is not None:
            raise ValueError(
                "the checkpoint's steps are counted in a ledger: name that ledger, so that those that follow are too"
            )


def new_run() -> str:
    """A run's name: 64 random bits, for its checkpoints and the ledger."""
    return secrets.token_hex(8)
