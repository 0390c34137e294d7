"""The lines of a ledger: what was reserved, released or added afterwards, and limits.

Every line has ``entry``, its number, ``kind`` and ``time`` (UTC, by this machine's clock). A reservation, a release and
a correction have ``run``, ``algorithm``, ``unit``, ``steps`` (first and last), ``event`` (as ``bounds.accounting``
writes it), ``stream``, ``label`` and ``tells_size``, which older lines lack; a limit has ``epsilon``, ``delta``,
``adjacency``, ``unit`` and whether it was ``raised``.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bounds import _check
from bounds.accounting import Composed, Event, SelfComposed, event_from_dict, event_to_dict
from bounds.accounting.events import delta_in_range
from bounds.privacy import Adjacency, one_of
from pacdp.store.record import record
from pacdp.store.reservation import UNITS, Stream, Stretch, Unit


@record
class Entry:
    """A stretch that counts: the number of its line, when it was written, and its event in parts."""

    entry: int
    time: str
    stretch: Stretch
    parts: Mapping[Event, int]
    """The events of which the stretch's event is composed, each with its count."""

    @classmethod
    def of(cls, stretch: Stretch, *, entry: int, time: str) -> "Entry":
        """The entry of a stretch."""
        return cls(entry=entry, time=time, stretch=stretch, parts=parts(stretch.event))

    def to_line(self) -> dict[str, Any]:
        """JSON values."""
        of = self.stretch
        return {
            "entry": self.entry,
            "kind": of.kind,
            "time": self.time,
            "run": of.run,
            "algorithm": of.algorithm,
            "unit": of.unit,
            "steps": [int(of.first), int(of.last)],
            "event": event_to_dict(of.event),
            "stream": asdict(of.stream),
            "label": of.label,
            "tells_size": of.tells_size,
        }

    def repeats(self, earlier: Sequence["Entry"]) -> "Entry | None":
        """The last entry that counted these numbers, if entries of this stream counted all of them before.

        Raises:
            ValueError: the same release is said to have had another event.
        """
        of = self.stretch
        same = [
            one
            for one in earlier
            if of.stream.repeatable and _identity(of) == _identity(one.stretch)
        ]
        if not _covered(of.first, of.last, [(one.stretch.first, one.stretch.last) for one in same]):
            return None
        if of.tells_size > any(one.stretch.tells_size for one in same):
            return None  # that these numbers tell how many records there are is counted nowhere
        known = _added(one.parts for one in same)
        if any(count > known[part] for part, count in self.parts.items()):
            raise ValueError(
                f"steps {of.first} to {of.last} of run {of.run} were counted before, for the same stream with another "
                "event: the settings of a stream must say all that fixes its event"
            )
        return same[-1]

    def shares_numbers(self, earlier: Sequence["Entry"]) -> "Entry | None":
        """An entry that drew the same random numbers for another release, whose noise this one's may cancel."""
        of = self.stretch
        others = (
            one
            for one in earlier
            if of.stream.repeatable and of.stream.numbers == one.stretch.stream.numbers
        )
        return next((one for one in others if _identity(of) != _identity(one.stretch)), None)


@record
class Limit:
    """What all that is counted may cost together: (epsilon, delta) for these neighbours of this unit."""

    epsilon: float | int
    delta: float
    adjacency: Adjacency
    unit: Unit = "example"

    def __post_init__(self) -> None:
        _check.nonnegative(epsilon=self.epsilon)
        _check.positive(delta=self.delta)
        if self.epsilon == float("inf"):
            raise ValueError(
                "epsilon must be finite, got inf; a ledger without a limit refuses nothing"
            )
        delta_in_range(delta=self.delta)
        one_of(Adjacency, adjacency=self.adjacency)
        if self.unit not in UNITS:
            raise ValueError(f"unit must be one of {', '.join(UNITS)}, got {self.unit!r}")

    def within(self, other: "Limit") -> bool:
        """Whether whatever keeps to this limit keeps to the other one."""
        same = (self.adjacency, self.unit) == (other.adjacency, other.unit)
        return same and self.epsilon <= other.epsilon and self.delta <= other.delta

    def __str__(self) -> str:
        return (
            f"epsilon {self.epsilon:g} at delta {self.delta:g} ({self.adjacency}, per {self.unit})"
        )


def from_line(line: Mapping[str, Any]) -> Entry | Limit:
    """What a line of a ledger says.

    Raises:
        ValueError: nothing that a ledger writes.
    """
    values = {name: value for name, value in line.items() if name != "hash"}
    try:
        if values["kind"] == "limit":
            return Limit(
                **{name: values[name] for name in ("epsilon", "delta", "adjacency", "unit")}
            )
        entry, time, (first, last) = values.pop("entry"), values.pop("time"), values.pop("steps")
        event, stream = event_from_dict(values.pop("event")), Stream(**values.pop("stream"))
        return Entry.of(
            Stretch(**values, first=first, last=last, event=event, stream=stream),
            entry=entry,
            time=time,
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"no entry of a ledger: {error}") from error


def parts(event: Event) -> Counter[Event]:
    """The events of which an event is composed, each with its count."""
    match event:
        case Composed():
            return _added(parts(part) for part in event.events)
        case SelfComposed():
            return Counter(
                {part: count * int(event.count) for part, count in parts(event.event).items()}
            )
        case _:
            return Counter({event: 1})


def _added(counts: Iterable[Mapping[Event, int]]) -> Counter[Event]:
    total: Counter[Event] = Counter()
    for one in counts:
        total.update(one)
    return total


def _covered(first: int, last: int, stretches: Iterable[tuple[int, int]]) -> bool:
    for start, end in sorted(stretches):
        if start > first:
            return False
        first = max(first, end + 1)
        if first > last:
            return True
    return False


def _identity(of: Stretch) -> tuple[Any, ...]:
    """What agrees where one release is repeated."""
    return of.stream, of.kind, of.algorithm, of.unit
