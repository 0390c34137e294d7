"""What a study is: runs as records, rows that their folders leave, figures of the rows, and sentences about them.

Jobs are carried out by :mod:`pacdp.cli.sweep.batches`, in any order, by any number of processes; everything after that
reads the committed table alone. A module of `experiments.papers` or `experiments.ours` holds the studies of one
subject and ends with the :class:`Section` that the page of results makes of them; its docstring is how they were made.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from matplotlib.figure import Figure

from experiments.claims import Judged, Printed, Sentence, judge
from pacdp.cli.figures import style
from pacdp.cli.folder import Folder, read_json
from pacdp.cli.sweep.jobs import Job

Row = dict[str, Any]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A table or figure of a paper, or one of ours."""

    name: str
    """As in ``pacdp experiment NAME``: a literal, so that a search for it finds the file."""
    title: str
    paper: str
    """Authors, year, and which table or figure."""
    jobs: Callable[[bool, int], list[Job]]
    """The runs, from ``smoke`` (seconds, on embedded data) and a seed; keys all differ."""
    rows: Callable[[Done], Iterable[Row]]
    """What a finished job adds to the table."""
    columns: str = ""
    """Names separated by spaces; what a row has besides is dropped, what it lacks is null. Without any they are taken
    as they come."""
    figures: Mapping[str, Callable[[pl.DataFrame], Figure]] = field(default_factory=dict)
    """By the names of their files, functions of the table."""
    sentences: Sequence[Sentence] = ()
    numbers: Sequence[Printed] = ()

    def table(self, jobs: Iterable[Job], folder: Path) -> pl.DataFrame:
        """Of the jobs whose results lie in the folder, under their keys, in their order."""
        places = (Done(job, Folder(folder / job.key)) for job in jobs)
        made = [row for done in places if done.folder.finished for row in self.rows(done)]
        if names := self.columns.split():
            made = [{name: row.get(name) for name in names} for row in made]
        return pl.DataFrame(made, schema=names or None, infer_schema_length=None)

    def draw(self, table: pl.DataFrame, out: Path) -> list[Path]:
        """Write the figures into a folder, as PNG and PDF; returns where."""
        return [
            path for name, figure in self.figures.items() for path in style.save(figure(table), out / name, keep=False)
        ]

    def judged(self, table: pl.DataFrame) -> list[Judged]:
        """What is said of each of its sentences."""
        return [judge(sentence, table) for sentence in self.sentences]


@dataclass(frozen=True, slots=True, kw_only=True)
class Erratum:
    """What is wrong in a paper's text, and what is right."""

    answers: tuple[str, ...]
    place: str
    said: str
    """One or two whole sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What the page of results says of one paper or one subject."""

    title: str
    about: str
    """A paragraph: what was asked, and of which data, units and seeds."""
    studies: Sequence[Study]
    beside: Mapping[str, Sequence[Sentence]] = field(default_factory=dict)
    """Sentences of this paper that another section's table answers, by the study's name."""
    figure: tuple[str, str, str] | None = None
    """Study, figure and a sentence below it."""
    errata: Sequence[Erratum] = ()
    not_run: Sequence[Erratum] = ()
    """Printed numbers and sentences that no run of ours answers, and why."""

    def asked(self) -> list[tuple[str, Sequence[Sentence]]]:
        """Its sentences, with the study whose table answers them."""
        return [*((study.name, study.sentences) for study in self.studies), *self.beside.items()]
