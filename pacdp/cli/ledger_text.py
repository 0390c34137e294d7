"""A ledger in words: its totals, its limit, and what it counts and does not count."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from bounds.privacy import Adjacency
from pacdp.cli.serial import Values
from pacdp.cli.terminal import table
from pacdp.store.ledger import FORMAT, Ledger
from pacdp.store.ledger_entries import Entry
from pacdp.store.ledger_totals import Spent, spent, tally
from pacdp.store.reservation import UNITS

ADJACENCIES: tuple[Adjacency, ...] = ("add-remove", "replace-one")
_MEANING = """\
Each entry was written down, for good, before its noise was drawn, and each run that was tuned is an entry like any \
other.
Paid again: noise that comes from the system is new each time it is drawn. Whoever goes on from a checkpoint after a \
kill, resumes a copy of it, repeats a run with --force or branches off draws new noise for steps that may have been \
released before, and nothing shows that they were not; so the stretch is counted once more.
Not paid again: a seeded run that repeats a stretch with the same seed and the same settings releases the same \
numbers, bit for bit. Other settings with the same random numbers are refused, since noise may cancel between the \
two. Who knows the seed of an entry can subtract its noise, and then no epsilon holds.
Not counted: what was released without a reservation, such as accuracies, plots or weights of runs without this \
ledger; what was looked at to choose settings or to stop; copies of these rows in data sets with another ledger; what \
was reserved in a copy of this one. Ledger.correct adds what was forgotten; nothing takes anything out.
Units: an event that hides a person counts for each of their examples too, as if the person were replaced; an event \
that hides an example says nothing about people, for whom the total is then unbounded.
Totals rest on each entry's event being what ran, and on its noise, rates and number of steps having been chosen \
without looking at what earlier entries released; networks, losses and learning rates may be.
Lines are chained: note their last hash elsewhere, and nobody can rewrite the ledger unseen."""


def shown(book: Ledger, delta: float | None, latest: int) -> tuple[Values, list[str | Table]]:
    """The latest runs, what each cost by itself, and what all cost together: as JSON values and in lines.

    In JSON null stands for an epsilon that is unbounded.
    """
    delta = delta_of(book, delta)
    totals, runs = totals_of(book, delta), runs_of(book.entries)
    rows: list[Values] = []
    cells: list[list[Any]] = []
    for entries in runs[max(0, len(runs) - latest) :]:
        last, one = entries[-1], entries[-1].stretch
        named = {name: getattr(one, name) for name in ("run", "algorithm", "unit", "kind", "label")}
        stretches = [[entry.stretch.first, entry.stretch.last] for entry in entries]
        steps = f"{min(map(min, stretches))}-{max(map(max, stretches))} in {len(stretches)}"
        counted, seeded = tally(entries), one.stream.seeded
        costs = [spent(counted, delta=delta, adjacency=each, unit=one.unit) for each in ADJACENCIES]
        epsilon = {total.adjacency: _number(total) for total in costs}
        rows.append({**named, "seeded": seeded, "stretches": stretches, "epsilon": epsilon})
        cells.append([one.run, one.algorithm or one.kind, one.unit, steps, *costs,
                      "seeded" if seeded else "system", last.time.partition("+")[0], one.label])  # fmt: skip
    values = {
        "format": FORMAT, "path": str(book.folder), "name": book.name, "created": book.created, "digest": book.digest,
        "entries": len(book.entries), "delta": delta, "runs": rows,
        "totals": [{**asdict(total), "epsilon": _number(total)} for total in totals],
        "limit": None if book.limit is None else asdict(book.limit), "limits": list(book.limits),
    }  # fmt: skip
    names = (
        "run",
        "algorithm",
        "unit",
        "steps, stretches",
        *ADJACENCIES,
        "noise",
        "last (UTC)",
        "label",
    )
    earlier = len(runs) - len(rows)
    return values, [
        f"{book.name}: {len(runs)} runs in {len(book.entries)} entries, started {book.created}",
        table(f"epsilon of each by itself, at delta {delta:g}", names, cells, numbers=ADJACENCIES),
        *[f"and {earlier} earlier runs, which the totals count"] * (earlier > 0),
        *map(total_line, totals),
        limit_line(book),
        f"digest {book.digest}",
    ]


def explained(book: Ledger, delta: float | None) -> list[str]:
    """Paragraphs: what the ledger counts, what it does not, and why."""
    totals = totals_of(book, delta_of(book, delta))
    counts = (
        f"{book.folder} counts {len(book.entries)} entries of {len(runs_of(book.entries))} runs."
    )
    return [counts, *map(total_line, totals), limit_line(book), *_MEANING.splitlines()]


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
    passed = total.epsilon > limit.epsilon
    left = "which is passed already: everything is refused" if passed else f"spent {total}"
    times = {1: "once", 2: "twice"}.get(raised, f"{raised} times")
    return f"limit {limit}, {left}" + (f"; it was raised {times}" if raised else "")


def _number(total: Spent) -> float | None:
    return total.epsilon if total.epsilon < math.inf else None
