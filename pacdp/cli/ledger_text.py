"""A ledger in words: its runs, what each cost by itself, its totals and its limit."""

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
from pacdp.store.ledger_totals import Spent, Tally, spent
from pacdp.store.reservation import UNITS

ADJACENCIES: tuple[Adjacency, ...] = ("add-remove", "replace-one")
_SIZE = "if no release tells how many records there are, as loops whose rate or divisor is made of it do"
"""What a number for add-remove neighbours, who are told apart by that, says nothing without."""
_NAMED = ("run", "algorithm", "unit", "kind", "label")
_COLUMNS = ("run", "algorithm", "unit", "steps, stretches", *ADJACENCIES, "noise", "last (UTC)", "label")  # fmt: skip


def shown(book: Ledger, delta: float | None) -> tuple[Values, list[str | Table]]:
    """The runs, what each cost by itself, and what all cost together: as JSON values and in lines.

    In JSON null stands for an epsilon that is unbounded.

    Raises:
        ValueError: no delta is given, and the ledger has no limit that names one.
    """
    if delta is None:
        if book.limit is None:
            raise ValueError(f"{book.folder} has no limit that names a delta: give --delta")
        delta = book.limit.delta
    totals = [
        book.total(delta=delta, adjacency=adjacency, unit=unit)
        for unit in UNITS
        for adjacency in ADJACENCIES
    ]
    rows: list[Values] = []
    cells: list[list[Any]] = []
    for entries in _runs(book.entries):
        last, one = entries[-1], entries[-1].stretch
        stretches = [[entry.stretch.first, entry.stretch.last] for entry in entries]
        steps = f"{min(map(min, stretches))}-{max(map(max, stretches))} in {len(stretches)}"
        counted, seeded = Tally().with_more(entries), one.stream.seeded
        costs = [spent(counted, delta=delta, adjacency=each, unit=one.unit) for each in ADJACENCIES]
        rows.append({
            **{name: getattr(one, name) for name in _NAMED}, "seeded": seeded, "stretches": stretches,
            "epsilon": {total.adjacency: _number(total) for total in costs},
        })  # fmt: skip
        cells.append([one.run, one.algorithm or one.kind, one.unit, steps, *costs,
                      "seeded" if seeded else "system", last.time.partition("+")[0], one.label])  # fmt: skip
    values = {
        "format": FORMAT, "path": str(book.folder), "name": book.name, "created": book.created, "digest": book.digest,
        "entries": len(book.entries), "delta": delta, "runs": rows,
        "totals": [{**asdict(total), "epsilon": _number(total)} for total in totals],
        "limit": None if book.limit is None else asdict(book.limit), "limits": list(book.limits),
    }  # fmt: skip
    return values, [
        f"{book.name}: {len(rows)} runs in {len(book.entries)} entries, started {book.created}",
        table(f"epsilon of each by itself, at delta {delta:g}", _COLUMNS, cells, numbers=ADJACENCIES),
        *map(_total_line, totals),
        limit_line(book),
        f"digest {book.digest}",
    ]  # fmt: skip


def _runs(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Entries by run, unit and kind, in the order of their last ones."""
    found: dict[tuple[str, ...], list[Entry]] = {}
    for entry in entries:
        of = entry.stretch
        key = (of.run, of.algorithm, of.unit, of.kind)
        found[key] = [*found.pop(key, []), entry]
    return list(found.values())


def _total_line(total: Spent) -> str:
    """A total in words."""
    most = f"<= {total} at delta {total.delta:g}"
    if total.because:
        most = f"is unbounded: {total.because}"
    elif total.adjacency == "add-remove" and total.epsilon:
        most += f", {_SIZE}"
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
    size = f"; it is kept {_SIZE}" * (limit.adjacency == "add-remove")
    return f"limit {limit}, {left}" + size + (f"; it was raised {times}" if raised else "")


def _number(total: Spent) -> float | None:
    return total.epsilon if total.epsilon < math.inf else None
