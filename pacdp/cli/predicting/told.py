"""A report on predictions on a terminal: the sentence, the rows, what they rest on."""

from collections.abc import Iterator
from pathlib import Path

from rich.table import Table

from bounds.sentence import confidence, counted
from pacdp.cli.reading import notes
from pacdp.cli.terminal import table, word
from pacdp.predictions.report import COLUMNS, Report

_MOST = 60


def told(found: Report, written: Path) -> Iterator[str | Table]:
    """Its lines and its table."""
    yield found.headline()
    whose = "" if found.unit == "example" else f" of {counted(found.n, found.unit)}"
    yield f"{counted(found.examples or found.n, 'example')}{whose}"
    several = len({one.of for one in found.statements}) > 1
    shown = [place for place in range(len(COLUMNS)) if place != 1 or several]
    rows = [[row[place] for place in shown] for row in found.cells()[:_MOST]]
    title = f"all of this holds at once with {confidence(found.failure_prob)} confidence"
    yield table(title, [COLUMNS[place] for place in shown], rows, numbers=COLUMNS[2:])
    if (left := len(found.statements) - _MOST) > 0:
        yield f"{left} more rows are in {written}"
    yield "rests on:"
    for note in notes(found.certificates):
        yield f"  {note}"
    for remark in found.remarks:
        yield f"remark: {remark}"
    for one in found.refusals:
        yield f"not certified: {one.name}: {one.reason}"
    yield f"wrote {written}; check it with pacdp verify {word(written)}"
