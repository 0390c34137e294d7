"""A report on predictions on a terminal: the sentence, the rows, what they rest on."""

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from bounds.sentence import confidence, counted, down, up
from pacdp.cli.reading import notes
from pacdp.cli.terminal import output, word
from pacdp.predictions import Report, Statement

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
        _table(
            found.statements[:_MOST], title, several=len({one.of for one in found.statements}) > 1
        )
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


def _table(rows: Sequence[Statement], title: str, *, several: bool) -> Table:
    table = Table(title=title)
    table.add_column("quantity", overflow="fold")
    if several:
        table.add_column("model", overflow="fold")
    for name in ("measured", "at least", "at most", "records"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in rows:
        least, most = _end(one.lower, one.range[0], down), _end(one.upper, one.range[1], up)
        cells = (
            one.quantity,
            *([one.of] if several else []),
            f"{one.measured:.4f}",
            least,
            most,
            str(one.n),
        )
        table.add_row(*map(Text, cells))
    return table


def _end(value: float | None, nothing: float, rounded: object) -> str:
    """An end of an interval, rounded away from what was measured; a dash where it is not asked or says nothing."""
    assert callable(rounded)
    return "–" if value is None or value == nothing else str(rounded(value))
