"""A ledger in words: its totals, its limit, and what it counts and does not count."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from bounds.privacy import Adjacency
from pacdp.cli.terminal import output
from pacdp.store.ledger import FORMAT, Ledger
from pacdp.store.ledger_entries import Entry
from pacdp.store.ledger_totals import Spent, spent, tally
from pacdp.store.reservation import UNITS

ADJACENCIES: tuple[Adjacency, ...] = ("add-remove", "replace-one")


def tell(book: Ledger, delta: float | None, latest: int) -> None:
    """Print the latest runs, what each cost by itself, and what all cost together."""
    delta, out = delta_of(book, delta), output()
    runs = runs_of(book.entries)
    listed = runs[max(0, len(runs) - latest) :]
    out.print(
        f"{book.name}: {len(runs)} runs in {len(book.entries)} entries, started {book.created}"
    )
    table = Table(title=f"epsilon of each by itself, at delta {delta:g}")
    for column in (
        *"run algorithm unit steps".split(),
        *ADJACENCIES,
        "noise",
        "last (UTC)",
        "label",
    ):
        justify = "right" if column in ADJACENCIES else "left"
        table.add_column(column, overflow="fold", justify=justify)
    for entries in listed:
        last, one = entries[-1], entries[-1].stretch
        noise = "seeded" if one.stream.seeded else "system"
        cells = [
            one.run, one.algorithm or one.kind, one.unit, _stretches(entries), *costs_of(entries, delta), noise,
            last.time.partition("+")[0], one.label,
        ]  # fmt: skip
        table.add_row(*(Text(str(cell)) for cell in cells))
    out.print(table)
    if len(runs) > len(listed):
        out.print(f"and {len(runs) - len(listed)} earlier runs, which the totals count")
    for total in totals_of(book, delta):
        out.print(total_line(total))
    out.print(limit_line(book))
    out.print(f"digest {book.digest}")


def record_of(book: Ledger, delta: float | None, latest: int) -> dict[str, Any]:
    """The same as JSON values; null stands for an epsilon that is unbounded."""
    delta, runs = delta_of(book, delta), runs_of(book.entries)

    def number(total: Spent) -> float | None:
        return total.epsilon if total.epsilon < math.inf else None

    def row(entries: list[Entry]) -> dict[str, Any]:
        one = entries[-1].stretch
        named = {name: getattr(one, name) for name in ("run", "algorithm", "unit", "kind", "label")}
        stretches = [[entry.stretch.first, entry.stretch.last] for entry in entries]
        epsilon = {total.adjacency: number(total) for total in costs_of(entries, delta)}
        return {**named, "seeded": one.stream.seeded, "stretches": stretches, "epsilon": epsilon}

    return {
        "format": FORMAT, "path": str(book.folder), "name": book.name, "created": book.created, "digest": book.digest,
        "entries": len(book.entries), "delta": delta,
        "runs": [row(entries) for entries in runs[max(0, len(runs) - latest) :]],
        "totals": [{**asdict(total), "epsilon": number(total)} for total in totals_of(book, delta)],
        "limit": None if book.limit is None else asdict(book.limit), "limits": list(book.limits),
    }  # fmt: skip


def costs_of(entries: Sequence[Entry], delta: float) -> list[Spent]:
    """What a run cost by itself, in both relations."""
    counted, unit = tally(entries), entries[0].stretch.unit
    return [spent(counted, delta=delta, adjacency=one, unit=unit) for one in ADJACENCIES]


def delta_of(book: Ledger, given: float | None) -> float:
    """The delta that is asked for: by default the limit's."""
    if given is not None:
        return given
    if book.limit is None:
        raise ValueError(f"{book.folder} has no limit that names a delta: give --delta")
    return book.limit.delta


def runs_of(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Entries by run, unit and kind, in the order of their last ones."""
    found: dict[tuple[str, ...], list[Entry]] = {}
    for entry in entries:
        of = entry.stretch
        key = (of.run, of.algorithm, of.unit, of.kind)
        found[key] = [*found.pop(key, []), entry]
    return list(found.values())


def totals_of(book: Ledger, delta: float) -> list[Spent]:
    """Totals for examples and for people, in both relations."""
    return [
        book.total(delta=delta, adjacency=adjacency, unit=unit)
        for unit in UNITS
        for adjacency in ADJACENCIES
    ]


def total_line(total: Spent) -> str:
    """A total in words."""
    most = (
        f"is unbounded: {total.because}"
        if total.because
        else f"<= {total} at delta {total.delta:g}"
    )
    return f"all together, per {total.unit}, {total.adjacency}: epsilon {most}"


def limit_line(book: Ledger) -> str:
    """The limit, and whether it is passed already."""
    if book.limit is None:
        return "no limit: nothing is refused"
    limit = book.limit
    raised = sum(bool(line["raised"]) for line in book.limits)
    total = book.total(delta=limit.delta, adjacency=limit.adjacency, unit=limit.unit)
    left = (
        "which is passed already: everything is refused"
        if total.epsilon > limit.epsilon
        else f"spent {total}"
    )
    return f"limit {limit}, {left}" + (f"; it was raised {_times(raised)}" if raised else "")


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def explained(book: Ledger, delta: float | None) -> list[str]:
    """Paragraphs: what the ledger counts, what it does not, and why."""
    delta = delta_of(book, delta)
    entries, runs = [entry.stretch for entry in book.entries], runs_of(book.entries)
    paid_again = len(entries) - len(
        {(one.run, one.algorithm, one.kind, one.first, one.last) for one in entries}
    )
    kinds = Counter(entry.kind for entry in entries)
    seeded = sum(entry.stream.seeded for entry in entries)
    people = sum(entry.unit == "person" for entry in entries)
    said = [
        f"{book.folder} counts {len(entries)} entries of {len(runs)} runs: {kinds['reservation']} stretches of "
        f"training steps, {kinds['release']} releases of counts or scores, {kinds['correction']} corrections. Each was "
        "written down, for good, before its noise was drawn, and each run that was tuned is an entry like any other.",
        *(total_line(total) + "." for total in totals_of(book, delta)),
        limit_line(book) + ".",
        "Paid again: noise that comes from the system is new each time it is drawn. Whoever goes on from a checkpoint "
        "after a kill, resumes a copy of it, repeats a run with --force or branches off draws new noise for steps that "
        "may have been released before, and nothing shows that they were not; so the stretch is counted once more"
        + (
            f" (entries here that repeat a stretch of their run: {paid_again})."
            if paid_again
            else "."
        ),
        "Not paid again: a seeded run that repeats a stretch with the same seed and the same settings releases the "
        "same numbers, bit for bit. Other settings with the same random numbers are refused, since noise may cancel "
        "between the two."
        + (
            f" Seeded entries here: {seeded}; who knows their seed can subtract the noise, and then no epsilon holds."
            if seeded
            else ""
        ),
        "Not counted: what was released without a reservation, such as accuracies, plots or weights of runs without "
        "this ledger; what was looked at to choose settings or to stop; copies of these rows in data sets with another "
        "ledger; what was reserved in a copy of this one. Ledger.correct adds what was forgotten; nothing "
        "takes anything out.",
        "Units: an event that hides a person counts for each of their examples too, as if the person were replaced; an "
        "event that hides an example says nothing about people, for whom the total is then unbounded"
        + (f" ({people} of {len(entries)} entries hide people)." if entries else "."),
        "Totals rest on each entry's event being what ran, and on its noise, rates and number of steps having been "
        "chosen without looking at what earlier entries released; networks, losses and learning rates may be.",
        f"Lines are chained; their last hash is {book.digest}: "
        "note it elsewhere, and nobody can rewrite the ledger unseen.",
    ]
    return said


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
