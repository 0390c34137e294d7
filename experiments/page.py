"""docs/results.md: what became of the papers' tables, figures and sentences, made from the committed tables.

No number on the page is typed: sentences, tables and errata stand in the modules of `experiments.papers` and
`experiments.ours`, the first page in :mod:`experiments.headlines`, and each number is a function of a table.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import polars as pl

from experiments.claims import Measured, Number, Printed, Sentence, Shown, judge, say
from experiments.headlines import HEADLINES, TEN, Headline
from experiments.registry import sections, studies
from experiments.runner import RESULTS, read_table, results_of
from experiments.study import Erratum, Section
from pacdp.cli.folder import read_json

_HEAD = """\
# Results

This page is for someone who read one of four papers on generalisation and privacy, or who asks which certificates can
be had today. Certificates are upper ends for the error on new data, at 95% confidence, rigorous unless called
optimistic. They suppose that records (images, or people where named) are independent and new ones from the same
population: nothing is said of another hospital. Epsilon is a proved upper end, for neighbours that differ by one unit
more or less unless said otherwise; both are rounded up. ECE is the mean gap between confidence and accuracy. A
difference counts beyond its 95% interval, paired by seeds that runs share; within it the answer is open. Ratios of
errors are averaged by seed; a cause is called measured where it was.
"""
_END = """\
## What can go wrong

Small networks and few seeds stand behind most lines, and settings were tuned on data that no epsilon counts: a claim
that does not hold here may hold at the papers' sizes. A certificate is about the network of its row and no other.
"""


class Tables:
    """The committed tables, each read once."""

    def __init__(self, root: Path = RESULTS) -> None:
        self.root = root
        self._read: dict[str, pl.DataFrame] = {}
        self._elsewhere: dict[str, list[tuple[pl.DataFrame, pl.DataFrame]]] = {}

    def of(self, name: str) -> pl.DataFrame:
        """A study's."""
        if name not in self._read:
            self._read[name] = read_table(results_of(name, root=self.root))
        return self._read[name]

    def elsewhere(self, name: str) -> list[tuple[pl.DataFrame, pl.DataFrame]]:
        """A study's tables of other instruction sets, each with the rows of the same runs here."""
        if name not in self._elsewhere:
            files = sorted(path.name for path in (self.root / name).glob("table-*.csv"))
            others = [read_table(self.root / name, file) for file in files]
            self._elsewhere[name] = [(other, _same_runs(self.of(name), other)) for other in others]
        return self._elsewhere[name]

    def moved(self, name: str, number: Number) -> float | None:
        """By what share of itself a number moves where the same runs are made with other instruction sets."""
        found = [(number(there), number(here)) for there, here in self.elsewhere(name)]
        return max((abs(one.mean / own.mean - 1.0) for one, own in found if one and own and own.mean), default=None)


def _same_runs(own: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    kinds = {column: kind for column, kind in other.schema.items() if own.schema.get(column) == kind}
    told = [column for column, kind in kinds.items() if not kind.is_float()]
    return own.join(other, on=told, how="semi", nulls_equal=True)


def render(root: Path, beside: Path) -> str:
    """The page about the results below ``root``, with links that hold in the folder ``beside``."""
    tables, link = Tables(root), os.path.relpath(root, beside)
    parts = [_HEAD, *_first_page(tables)]
    for name, section in sections().items():
        parts += _section(section, tables, link, paper=name.startswith("papers."))
    parts += _errata("Errata of the papers", (one for section in sections().values() for one in section.errata))
    parts += _made(tables, link)
    parts += _errata("What was not run", (one for section in sections().values() for one in section.not_run))
    return "\n".join([*parts, _END])


def _first_page(tables: Tables) -> Iterator[str]:
    yield "## In ten sentences\n"
    yield "".join(f"{i}. {_said(one, tables)}\n" for i, one in enumerate(TEN, 1))
    yield "## The papers' numbers and ours\n"
    yield from _table(
        ("question", "the paper", "ours", "why they differ"),
        [(f"[{one.what}](#{_anchor(one)})", one.printed, _said(one, tables), one.why) for one in HEADLINES],
    )


def _said(one: Headline, tables: Tables) -> str:
    found = {name: number(tables.of(study)) for name, (study, number) in one.evidence.items()}
    missing = [name for name, value in found.items() if value is None]
    if missing:
        raise ValueError(f"the first page needs {', '.join(missing)} of {one.said!r}, which no committed table has")
    return say(one.said, found)


def _anchor(one: Headline) -> str:
    names = {study for study, _ in one.evidence.values()}
    title = next(section.title for section in sections().values() if {s.name for s in section.studies} & names)
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c == "-")


def _section(section: Section, tables: Tables, link: str, *, paper: bool) -> Iterator[str]:
    yield f"## {section.title}\n\n{section.about}\n"
    if section.figure:
        study, figure, caption = section.figure
        yield f"![{study}]({link}/{study}/{figure}.png)\n\n*{caption}*\n"
    for study in section.studies:
        for place, lines in groupby(study.numbers, key=lambda one: one.place):
            yield from _numbers(place, list(lines), tables, study.name)
    said = [line for name, own in section.asked() for line in _sentences(own, tables.of(name), paper=paper)]
    yield "".join(said)


def _sentences(found: Sequence[Sentence], table: pl.DataFrame, *, paper: bool) -> Iterator[str]:
    for one in found:
        seen = judge(one, table)
        printed = one.printed.rstrip(".")
        place = f" ({one.place})" if paper and one.place else ""
        yield f"- *{printed}*{place}: **{seen.word}**. {seen.said} {one.why}".rstrip() + "\n"


def _numbers(place: str, lines: Sequence[Printed], tables: Tables, name: str) -> Iterator[str]:
    """A table of a paper: what is printed, then ours, in each cell."""
    headings = list(dict.fromkeys(heading for one in lines for heading in one.numbers))
    printed = any(value[0] is not None for one in lines for value in one.numbers.values())
    reasons = list(dict.fromkeys(one.why for one in lines if one.why))
    moves = {one.what: _moves(one, tables, name) for one in lines}
    rows = [
        (
            one.what,
            *(_cell(*one.numbers[h], table=tables.of(name)) if h in one.numbers else "–" for h in headings),
            *([moves[one.what]] if any(moves.values()) else []),
            *([one.why] if len(reasons) > 1 else []),
        )
        for one in lines
    ]
    more = ["moves by"] if any(moves.values()) else []
    more += ["done otherwise"] if len(reasons) > 1 else []
    yield f"{place}{', the paper/ours' if printed else ''}:\n"
    yield from _table(("", *headings, *more), rows)
    if len(reasons) == 1:
        yield f"{reasons[0]}\n"


def _moves(one: Printed, tables: Tables, name: str) -> str:
    found = [share for _, number in one.numbers.values() if (share := tables.moved(name, number)) is not None]
    return f"{max(found):.1%}" if found and max(found) >= 0.0005 else "under 0.1%" if found else ""


def _cell(printed: float | str | None, number: Number, *, table: pl.DataFrame) -> str:
    ours = shown(number(table))
    return ours if printed is None else f"{printed}/{ours}"


def shown(found: Measured | None) -> str:
    """A number in a table: certificates and epsilons, which have no noise, are rounded up; counts are whole."""
    if found is None:
        return "–"
    if found.mean == int(found.mean) and abs(found.mean) > 1.0:
        return str(int(found.mean))
    return f"{Shown(found.mean):{'up4' if found.error == 0.0 else '#.4g'}}".rstrip(".")


def _errata(title: str, found: Iterable[Erratum]) -> Iterator[str]:
    yield f"## {title}\n"
    yield "".join(f"- {one.place}: {one.said}\n" for one in found)


def _made(tables: Tables, link: str) -> Iterator[str]:
    yield "## What made the numbers\n"
    yield (
        "Tables, with the number of runs behind each; versions, seeds, devices and commits stand beside them. What "
        '"moves by" is the first seeds\' numbers, where the same runs use SSE instructions alone.\n'
    )
    said = list[str]()
    for name in studies():
        made = read_json(results_of(name, root=tables.root) / "provenance.json")
        runs = made.get("jobs", {}).get("finished") or sum(one["runs"] for one in made["runs"])
        said.append(f"[{name}]({link}/{name}/table.csv) [{runs}]({link}/{name}/provenance.json)")
        if made.get("jobs", {}).get("failed"):
            said[-1] += f" and {len(made['jobs']['failed'])} that failed"
    yield ", ".join(said) + ".\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    lines = [head, ["---"] * len(head), *rows]
    yield "".join(f"|{'|'.join(' '.join(cell.split()).replace('|', '&#124;') for cell in line)}|\n" for line in lines)
