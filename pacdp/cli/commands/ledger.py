"""The command about a data set's privacy ledger: what was released about its rows, and what it may cost."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.table import Table
from rich.text import Text

from bounds.privacy import Adjacency
from pacdp.cli.ledger_text import ADJACENCIES, explained, limit_line, runs_of, total_line, totals_of
from pacdp.cli.parsing import no_more
from pacdp.cli.terminal import output
from pacdp.store.ledger import FORMAT
from pacdp.store.ledger import Ledger as Book
from pacdp.store.ledger_entries import Entry
from pacdp.store.ledger_entries import Limit as Most
from pacdp.store.ledger_totals import Spent, spent, tally
from pacdp.store.reservation import Unit

_DEFAULT = Path("runs/ledger")


@dataclass(frozen=True, slots=True, kw_only=True)
class Show:
    """Verify a ledger and print its runs, what each cost by itself, and what all cost together."""

    path: tyro.conf.Positional[Path] = _DEFAULT
    """The ledger's folder."""
    delta: float | None = None
    """At which delta; by default the limit's."""
    latest: int = 30
    """How many runs to list, the latest; totals count all."""
    json: bool = False
    """Print JSON."""

    def __call__(self, rest: list[str]) -> None:
        """Print what the data set has spent."""
        no_more(rest)
        if self.latest < 0:
            raise ValueError(f"--latest must be 0 or more, got {self.latest}")
        book = Book.load(self.path)
        delta = _delta(book, self.delta)
        runs = runs_of(book.entries)
        listed = runs[max(0, len(runs) - self.latest) :]
        costs = [
            [
                spent(tally(entries), delta=delta, adjacency=one, unit=entries[0].stretch.unit)
                for one in ADJACENCIES
            ]
            for entries in listed
        ]
        totals = totals_of(book, delta)
        if self.json:
            print(json.dumps(_record(book, delta, listed, costs, totals), allow_nan=False))
            return
        out = output()
        out.print(
            f"{book.name}: {len(runs)} runs in {len(book.entries)} entries, started {book.created}"
        )
        table = Table(title=f"epsilon of each by itself, at delta {delta:g}")
        for column in (
            "run",
            "algorithm",
            "unit",
            "steps",
            *ADJACENCIES,
            "noise",
            "last (UTC)",
            "label",
        ):
            table.add_column(
                column, overflow="fold", justify="right" if column in ADJACENCIES else "left"
            )
        for entries, cost in zip(listed, costs, strict=True):
            one = entries[-1].stretch
            cells = [
                one.run,
                one.algorithm or one.kind,
                one.unit,
                _stretches(entries),
                *map(str, cost),
            ]
            cells += [
                "seeded" if one.stream.seeded else "system",
                entries[-1].time.partition("+")[0],
                one.label,
            ]
            table.add_row(*map(Text, cells))
        out.print(table)
        if len(runs) > len(listed):
            out.print(f"and {len(runs) - len(listed)} earlier runs, which the totals count")
        for total in totals:
            out.print(total_line(total))
        out.print(limit_line(book))
        out.print(f"digest {book.digest}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Set the most that everything together may cost, or lower it; what would pass it is refused before it is drawn."""

    path: tyro.conf.Positional[Path] = _DEFAULT
    """The ledger's folder; a ledger is started there if there is none."""
    epsilon: float
    delta: float
    adjacency: Adjacency
    unit: Unit = "example"
    """Whose presence is hidden: that of one example, or of a person with all theirs."""
    raising: Annotated[bool, tyro.conf.arg(name="raise")] = False
    """Allow a limit that is not within the present one; the ledger keeps a record of it."""

    def __call__(self, rest: list[str]) -> None:
        """Set the limit."""
        no_more(rest)
        most = Most(
            epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency, unit=self.unit
        )
        book = Book.open(self.path)
        book.set_limit(most, raising=self.raising)
        print(limit_line(book))


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    """Say in sentences what a ledger counts, what it does not, and why kills, copies and repeats are paid for."""

    path: tyro.conf.Positional[Path] = _DEFAULT
    """The ledger's folder."""
    delta: float | None = None
    """At which delta; by default the limit's."""

    def __call__(self, rest: list[str]) -> None:
        """Print how the ledger counts, in paragraphs."""
        no_more(rest)
        book = Book.load(self.path)
        for paragraph in explained(book, _delta(book, self.delta)):
            print(paragraph)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The privacy ledger of a data set: everything that was ever released about its rows, paid before it is drawn."""

    action: tyro.conf.OmitSubcommandPrefixes[
        Annotated[Show, tyro.conf.subcommand("show")]
        | Annotated[Limit, tyro.conf.subcommand("limit")]
        | Annotated[Explain, tyro.conf.subcommand("explain")]
    ]

    def __call__(self, rest: list[str]) -> None:
        """Carry out the action that was named."""
        self.action(rest)


def _delta(book: Book, given: float | None) -> float:
    if given is not None:
        return given
    if book.limit is None:
        raise ValueError(f"{book.folder} has no limit that names a delta: give --delta")
    return book.limit.delta


def _stretches(entries: Sequence[Entry]) -> str:
    """Steps, each stretch with how often it was paid: "1-100 2x, 101-200"."""
    counts = Counter((entry.stretch.first, entry.stretch.last) for entry in entries)
    said = [
        f"{first}-{last}" + (f" {count}x" if count > 1 else "")
        for (first, last), count in sorted(counts.items())
    ]
    return (
        ", ".join(said)
        if len(said) <= 4
        else f"{', '.join(said[:2])}, ... {said[-1]} ({len(said)} stretches)"
    )


def _record(
    book: Book, delta: float, runs: list[list[Entry]], costs: list[list[Spent]], totals: list[Spent]
) -> Any:
    def number(total: Spent) -> float | None:
        return total.epsilon if total.epsilon < math.inf else None

    def row(entries: list[Entry], cost: list[Spent]) -> dict[str, Any]:
        one = entries[-1].stretch
        named = {name: getattr(one, name) for name in ("run", "algorithm", "unit", "kind", "label")}
        stretches = [[entry.stretch.first, entry.stretch.last] for entry in entries]
        epsilon = {total.adjacency: number(total) for total in cost}
        return {**named, "seeded": one.stream.seeded, "stretches": stretches, "epsilon": epsilon}

    named = {"format": FORMAT, "path": str(book.folder), "name": book.name, "created": book.created}
    return {
        **named,
        "digest": book.digest,
        "entries": len(book.entries),
        "delta": delta,
        "runs": [row(entries, cost) for entries, cost in zip(runs, costs, strict=True)],
        "totals": [{**asdict(total), "epsilon": number(total)} for total in totals],
        "limit": None if book.limit is None else asdict(book.limit),
        "limits": list(book.limits),
    }
