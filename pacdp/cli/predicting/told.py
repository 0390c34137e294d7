"""A report on predictions on a terminal: the sentence, the rows, what they rest on."""

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from bounds.sentence import confidence, counted
from pacdp.cli.reading import notes
from pacdp.cli.terminal import output, word
from pacdp.predictions.report import COLUMNS, Report

_MOST = 60


def tell(found: Report, written: Path) -> None:
    """Print it."""
    out = output()

    def say(line: str) -> None:
        out.print(line)

    say(found.headline())
    whose = "" if found.unit == "example" else f" of {counted(found.n, found.unit)}"
    say(f"{counted(found.examples or found.n, 'example')}{whose}")
    title = f"all of this holds at once with {confidence(found.failure_prob)} confidence"
    out.print(
        _table(found.cells()[:_MOST], title, several=len({one.of for one in found.statements}) > 1)
    )
    if (left := len(found.statements) - _MOST) > 0:
        say(f"{left} more rows are in {written}")
    say("rests on:")
    for note in notes(found.certificates):
        say(f"  {note}")
    for remark in found.remarks:
        say(f"remark: {remark}")
    for one in found.refusals:
        say(f"not certified: {one.name}: {one.reason}")
    say(f"wrote {written}; check it with pacdp verify {word(written)}")


def _table(rows: Sequence[tuple[str, ...]], title: str, *, several: bool) -> Table:
    shown = [place for place in range(len(COLUMNS)) if place != 1 or several]
    table = Table(title=title)
    for place in shown:
        if place < 2:
            table.add_column(COLUMNS[place], overflow="fold")
        else:
            table.add_column(COLUMNS[place], justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(row[place]) for place in shown))
    return table
