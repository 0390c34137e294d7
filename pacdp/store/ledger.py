"""A ledger of one data set: what was ever released about its rows, counted before the noise is drawn.

A ledger is a folder with ``ledger.jsonl``, one line an entry (:mod:`pacdp.store.ledger_entries`), chained, locked and
on the disk before a reservation exists (:mod:`pacdp.store.chained_lines`), and ``ledger.head``, by which lines that
were cut off are missed. Nothing reduces what is counted. Who names the ledger says which data sets share their rows:
sets that overlap have one ledger. It holds no data, and no hash of data but keyed ones; what of it may be published:
docs/ledger.md.
"""

import hashlib
import hmac
import os
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, get_args

from bounds.accounting import Event, renyi_divergences
from bounds.privacy import Adjacency
from pacdp.store.canonical import canonical
from pacdp.store.chained_lines import Kind, Lines, append, create, locked, read
from pacdp.store.files import path_of
from pacdp.store.ledger_entries import Entry, Limit, from_line
from pacdp.store.ledger_totals import Spent, Tally, keeps_to, spent
from pacdp.store.reservation import SYSTEM, Reservation, Stream, Stretch, Unit

FORMAT = "pacdp-ledger/1"


class Overdrawn(ValueError):
    """What was to be reserved would cost more than the limit, together with all that is counted."""

    def __init__(self, sentence: str, *, now: Spent, after: Spent, limit: Limit) -> None:
        self.now, self.after, self.limit = now, after, limit
        super().__init__(sentence)


class SharedNoise(ValueError):
    """What was to be reserved draws the random numbers of another release, so that noise may cancel between them."""


_Line = TypeVar("_Line", Entry, Limit)
_ALONE = threading.RLock()
"""Held by the thread that reads or adds lines: an open ledger may be shared by threads. No fork finds it held."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_ALONE.acquire, after_in_parent=_ALONE.release, after_in_child=_ALONE.release
    )


class Ledger:
    """A ledger on disk: :meth:`open` it, :meth:`reserve` before drawing noise, ask :meth:`total` what was spent.

    Formal guarantee: whatever was reserved and not refused is counted by every total that anyone asks for later, also
    if processes are killed or the machine stops at any moment; two processes never reserve at the same time.
    """

    def __init__(self, folder: Path | str, lines: Lines) -> None:
        self.folder = Path(folder)
        self._lines = Lines()
        self._read: list[Entry | Limit] = []
        self._tally = Tally()
        self._take(lines)

    @classmethod
    def create(cls, folder: Path | str, *, name: str = "") -> "Ledger":
        """Start a ledger without entries; a new folder is for its owner's eyes alone.

        Raises:
            ValueError: there is a ledger, or it cannot be written.
        """
        folder = path_of(folder=folder)
        if not isinstance(name, str):
            raise ValueError(f"name must be text, got {name!r}")
        header = {
            "name": name or folder.absolute().name,
            "created": _now(),
            "key": secrets.token_hex(32),
        }
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise ValueError(f"cannot write the ledger {folder}: {error}") from error
        return cls(
            folder,
            create(
                _file(folder), header, _KIND, existing="go on with it, or choose another folder"
            ),
        )

    @classmethod
    def load(cls, folder: Path | str) -> "Ledger":
        """Read a ledger and verify it.

        Raises:
            ValueError: no ledger; a line that was changed, moved, added or taken out.
        """
        return cls(folder, read(_file(path_of(folder=folder)), _KIND))

    @classmethod
    def open(cls, folder: Path | str, *, name: str = "") -> "Ledger":
        """The ledger in ``folder``, started if there is none."""
        path = _file(path_of(folder=folder))
        if not os.path.lexists(path):
            try:
                return cls.create(folder, name=name)
            except ValueError:
                if not os.path.lexists(path):  # else another process was quicker
                    raise
        return cls.load(folder)

    def stream(self, *, keyed_by: Any, settings: Any, secret: bool = False) -> Stream:
        """The identity of noise that can be drawn again, by digests that this ledger's key keeps from being guessed.

        See :meth:`pacdp.store.reservation.Books.stream`. ``keyed_by`` must be the random generator's whole key: runs
        that share it and differ in ``settings`` share noise, and are refused.

        Raises:
            ValueError: no JSON values.
        """
        numbers, release = (
            self._keyed(value) for value in (["numbers", keyed_by], ["release", keyed_by, settings])
        )
        return Stream(numbers=f"secret:{numbers}" if secret else numbers, release=release)

    def reserve(self, stretch: Stretch) -> Reservation:
        """Count a stretch of steps for good, before its noise is drawn.

        A stretch whose every step was counted for the same seed or secret key is the same release, bit for bit: it
        costs nothing and writes nothing. Noise of the system is another one each time.

        Raises:
            Overdrawn: the limit would be passed; nothing was written.
            SharedNoise: other settings drew the same seeded numbers; nothing was written.
            ValueError: an event without a theorem, or a ledger that is damaged, locked or cannot be written.
        """
        if stretch.kind == "correction":
            raise ValueError(
                "kind must be reservation or release, got correction; Ledger.correct makes one"
            )
        _require_theorem(stretch.event)
        with self._locked():
            made = self._entry(stretch)
            known = made.repeats(self._kept(Entry))
            if known is None:
                self._require_own_numbers(made)
                self._require_within(made)
                self._append(made.to_line())
            number = (known or made).entry
            receipt = {"ledger": self.id, "entry": number, "hash": self._lines[number]["hash"]}
        return Reservation(stretch=stretch, receipt=receipt, repeated=known is not None)

    def correct(
        self,
        *,
        event: Event,
        unit: Unit,
        label: str,
        run: str = "none",
        tells_size: bool = False,
        stream: Stream = SYSTEM,
    ) -> None:
        """Count something that was released without having been reserved, or that an entry understates.

        It is counted whatever the limit says: it has happened. Nothing can be taken out again.

        Raises:
            SharedNoise: another release drew the numbers of ``stream``; nothing was written.
            ValueError: a value out of range, or no word in ``label`` on what it was; the ledger cannot be written.
        """
        made = Stretch(
            run=run,
            algorithm="",
            unit=unit,
            first=1,
            last=1,
            event=event,
            label=label,
            kind="correction",
            tells_size=tells_size,
            stream=stream,
        )
        if not label.strip():
            raise ValueError(f"label must say what was released, got {label!r}")
        _require_theorem(event)
        with self._locked():
            entry = self._entry(made)
            self._require_own_numbers(entry)
            self._append(entry.to_line())

    def set_limit(self, limit: Limit, *, raising: bool = False) -> None:
        """Refuse, from now on, whatever would make the total pass ``limit``.

        A limit may be set, or lowered, even below what is counted. Anything else is a higher one, which takes
        ``raising`` and shows in the ledger for good.

        Raises:
            ValueError: a limit that is not within the present one, without ``raising``; the ledger cannot be written.
        """
        if not isinstance(limit, Limit):
            raise ValueError(
                f"limit must be a Limit, got {limit!r}: give pacdp.store.ledger_entries.Limit(epsilon=, delta=, "
                "adjacency=)"
            )
        with self._locked():
            before = self.limit
            if before == limit:
                return
            higher = before is not None and not limit.within(before)
            if higher and not raising:
                raise ValueError(
                    f"{limit} is not within the limit of {self.folder}, {before}: a limit is raised "
                    "with raising=True, or --raise, and the ledger keeps a record of it"
                )
            values = {
                name: getattr(limit, name) for name in ("epsilon", "delta", "adjacency", "unit")
            }
            line = {
                "entry": len(self._lines),
                "kind": "limit",
                "time": _now(),
                **values,
                "raised": higher,
            }
            self._append({**line, "epsilon": float(limit.epsilon), "delta": float(limit.delta)})

    def require(self, receipt: Mapping[str, Any] | None) -> None:
        """Refuse to go on from a checkpoint whose steps this ledger does not count.

        Raises:
            ValueError: the checkpoint has no receipt, or one of another ledger or of an entry that is gone.
        """
        if receipt is None:
            raise ValueError(
                f"the checkpoint's steps are counted in no ledger: enter them into {self.folder} by "
                "Ledger.correct and start anew, or go on without a ledger"
            )
        self._read_on()
        try:
            kept = (
                receipt["ledger"] == self.id
                and self._lines[receipt["entry"]]["hash"] == receipt["hash"]
            )
        except (KeyError, TypeError, IndexError):
            kept = False
        if not kept:
            raise ValueError(
                f"the checkpoint's steps are not counted in {self.folder}: it is another ledger, or an "
                "older copy; name the one that the run was started with"
            )

    def total(self, *, delta: float, adjacency: Adjacency, unit: Unit = "example") -> Spent:
        """What everything counted so far costs together, whoever counted it.

        Raises:
            ValueError: delta, adjacency or unit out of range; a ledger that is damaged or gone.
        """
        self._read_on()
        return spent(self._tally, delta=delta, adjacency=adjacency, unit=unit)

    @property
    def limit(self) -> Limit | None:
        """The limit, if one was set."""
        self._read_on()
        return next(reversed(self._kept(Limit)), None)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All that is counted, in order."""
        self._read_on()
        return self._kept(Entry)

    @property
    def limits(self) -> tuple[dict[str, Any], ...]:
        """The lines of all limits that were set, in order."""
        self._read_on()
        return tuple(line for line in self._lines[1:] if line["kind"] == "limit")

    @property
    def name(self) -> str:
        """What the ledger is called."""
        return str(self._lines[0]["name"])

    @property
    def created(self) -> str:
        """When it was started, by this machine's clock, UTC."""
        return str(self._lines[0]["created"])

    @property
    def id(self) -> str:
        """The first line's hash, by which the ledger is known, wherever it lies."""
        return str(self._lines[0]["hash"])

    @property
    def digest(self) -> str:
        """The last line's hash, which covers the whole ledger."""
        self._read_on()
        return str(self._lines[-1]["hash"])

    def _entry(self, stretch: Stretch) -> Entry:
        return Entry.of(stretch, entry=len(self._lines), time=_now())

    def _require_own_numbers(self, made: Entry) -> None:
        other = made.shares_numbers(self._kept(Entry))
        if other is not None:
            raise SharedNoise(
                f"run {made.stretch.run} would draw the random numbers of run {other.stretch.run} (entry {other.entry} "
                f"of {self.folder}) under other settings, so that noise may cancel between the two and no epsilon "
                "holds for both: give it a seed of its own, or noise of the system, since a seeded run neither comes "
                "again nor goes on; to go on with a chain take its machine, versions, threads and settings of torch, "
                "with pacdp imported first"
            )

    def _require_within(self, made: Entry) -> None:
        limit = next(reversed(self._kept(Limit)), None)
        if limit is None:
            return
        counted = self._tally.with_more([made])
        if keeps_to(counted, limit):
            return
        about: dict[str, Any] = {
            "delta": limit.delta,
            "adjacency": limit.adjacency,
            "unit": limit.unit,
        }
        now, after = self.total(**about), spent(counted, **about)
        of, why = made.stretch, f" ({after.because})" if after.because else ""
        fix = "; take fewer steps, more noise, or a higher limit (pacdp ledger limit --raise)"
        raise Overdrawn(
            f"steps {of.first} to {of.last} of run {of.run} would take {self.folder} from epsilon {now} to "
            f"{after}{why}, beyond its limit of {limit}: nothing was drawn{fix if not why else ''}",
            now=now,
            after=after,
            limit=limit,
        )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with _ALONE, locked(_file(self.folder), _KIND, known=self._lines) as lines:
            self._take(lines)
            yield

    def _kept(self, kind: type[_Line]) -> tuple[_Line, ...]:
        """What was read last of one kind, in order; under the lock, where nobody adds to it, that is all."""
        return tuple(one for one in self._read if isinstance(one, kind))

    def _read_on(self) -> None:
        """Read what others have added since; whoever keeps a ledger open is told the whole of it."""
        with _ALONE:
            self._take(read(_file(self.folder), _KIND, known=self._lines))

    def _append(self, values: dict[str, Any]) -> None:
        self._take(append(_file(self.folder), values, self._lines, _KIND))

    def _take(self, lines: Lines) -> None:
        """Take over lines, which begin with those that were there before, and parse the new ones.

        All of them or, where Ctrl-C comes meanwhile, none: what is half counted would be missing from all totals.
        """
        new = [from_line(line) for line in lines[1 + len(self._read) :]]
        counted = self._tally.with_more(one for one in new if isinstance(one, Entry))
        self._lines, self._read, self._tally = lines, [*self._read, *new], counted

    def _keyed(self, values: Any) -> str:
        key = bytes.fromhex(self._lines[0]["key"])
        return hmac.new(key, canonical(values).encode(), hashlib.sha256).hexdigest()


def _require_theorem(event: Event) -> None:
    """Refuse an event that the accountant has no theorem for, under either relation."""
    refused: list[ValueError] = []
    for adjacency in get_args(Adjacency):
        try:
            renyi_divergences(event=event, adjacency=adjacency, orders=(2.0,))
        except ValueError as error:
            refused.append(error)
    if len(refused) == len(get_args(Adjacency)):
        raise refused[0]


def _fits(line: dict[str, Any], before: Any) -> bool:
    if not before:
        key = line.get("key")
        return (
            {"name", "created"} <= line.keys()
            and isinstance(key, str)
            and len(key) == 64
            and _hex(key)
        )
    try:
        from_line(line)
    except ValueError:
        return False
    return line.get("entry") == len(before)


def _hex(text: str) -> bool:
    return set(text) <= set("0123456789abcdef")


def _file(folder: Path) -> Path:
    return folder / "ledger.jsonl"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


_KIND = Kind(
    format=FORMAT,
    called="the ledger",
    made_by="give the folder of one, or name another folder for a new one",
    fits=_fits,
)
