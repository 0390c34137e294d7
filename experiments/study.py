"""What a study is: runs as records, a table made of the folders that they leave, figures and verdicts of the table.

Jobs are carried out by :mod:`pacdp.cli.sweep.batches`, in any order, by any number of processes; everything after
that reads files alone. So a figure can be drawn again, or a verdict changed, without running anything.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from experiments.claims import Verdict
from pacdp.cli.folder import Folder, read_json
from pacdp.cli.recipes import Scale
from pacdp.cli.sweep.jobs import Job

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A table or figure of a paper."""

    name: str
    """As in ``pacdp experiment NAME``."""
    title: str
    paper: str
    """Authors, year, and which table or figure."""
    jobs: Callable[[Scale, int], list[Job]]
    """The runs at a scale, from a seed; keys all differ."""
    table: Callable[[Sequence[Job], Path], pl.DataFrame]
    """Of the jobs whose results lie in the folder, under their keys: rows of plain values. Jobs that have failed or
    have not run are left out. See :func:`tabled`."""
    draw: Callable[[pl.DataFrame, Path], list[Path]]
    """Figures into a folder (figure.png, figure.pdf), from the table alone. See :func:`drawing`."""
    judge: Callable[[pl.DataFrame, Scale], Verdict]
    """See :func:`experiments.claims.judging`."""
    scales: tuple[Scale, ...] = ("smoke", "cpu", "paper")
    """At which it has jobs."""
    summary: Callable[[Sequence[Job], pl.DataFrame], dict[str, Any]] | None = None
    """What else of the table is worth a file, summary.json."""

    def require(self, scale: Scale) -> None:
        """Refuse a scale at which there is no plan.

        Raises:
            ValueError: there is none.
        """
        if scale not in self.scales:
            raise ValueError(f"{self.name} has no plan at scale {scale}: choose one of {', '.join(self.scales)}")


class Done(NamedTuple):
    """A job that has finished, and what it left."""

    job: Job
    folder: Folder

    @property
    def tags(self) -> Mapping[str, Any]:
        """The job's."""
        return self.job.tags

    @property
    def result(self) -> dict[str, Any]:
        """The values of result.json."""
        return read_json(self.folder.result)

    @property
    def records(self) -> list[dict[str, Any]]:
        """What the run recorded on its way."""
        return self.folder.rows()


def finished(jobs: Iterable[Job], folder: Path) -> Iterator[Done]:
    """The jobs that left a result, in their order."""
    places = (Done(job, Folder(folder / job.key)) for job in jobs)
    return (done for done in places if done.folder.finished)


def tabled(
    rows: Callable[[Done], Iterable[Row]], columns: Mapping[str, Any] | None = None
) -> Callable[[Sequence[Job], Path], pl.DataFrame]:
    """The table of a study, from the rows that each finished job makes.

    Args:
        columns: names and types; what a row has besides is dropped, what it lacks is null. None takes the columns as
            they come.
    """

    def table(jobs: Sequence[Job], folder: Path) -> pl.DataFrame:
        made = [row for done in finished(jobs, folder) for row in rows(done)]
        if columns is None:
            return pl.DataFrame(made, infer_schema_length=None)
        return pl.DataFrame([{name: row.get(name) for name in columns} for row in made], schema=dict(columns))

    return table


def columns(*groups: tuple[Any, str]) -> dict[str, Any]:
    """Types by column, from types with the names that have them, separated by spaces."""
    return {name: kind for kind, names in groups for name in names.split()}


def drawing(**figures: Callable[[pl.DataFrame], Any]) -> Callable[[pl.DataFrame, Path], list[Path]]:
    """The figures of a study, by the names of their files: functions of the table that make a matplotlib figure."""

    def draw(table: pl.DataFrame, out: Path) -> list[Path]:
        from pacdp.cli.figures import style  # matplotlib, which those who only train need not load

        return [path for name, made in figures.items() for path in style.save(made(table), out / name)]

    return draw
