"""What a study is: runs as records, a table made of the folders that they leave, figures and verdicts of the table.

Jobs are carried out by :mod:`experiments.studies.sweep`, in any order, by any number of processes; everything after
that reads files alone. So a figure can be drawn again, or a verdict changed, without running anything.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from experiments.config import Runtime
from experiments.recipes import Scale

Outcome = Exception | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How configurations of one type are carried out. Its functions reach other processes by name or as partials."""

    carry_out: Callable[[Sequence[Any], Sequence[Path], Runtime], list[Outcome]]
    """Each in its own folder, taking up what an interrupted run left there: config.json and provenance.json first,
    result.json last, by rename. An error of one is returned, not raised, and the others go on."""
    together: Callable[[Any], str] | None = None
    """Configurations with equal strings may go as one batch; None carries out each by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run of a study."""

    key: str
    """Its folder's name: readable, and another for another configuration."""
    kind: Kind
    config: Any
    """A frozen record as in :mod:`experiments.serial`, which alone decides the run's numbers."""
    tags: Mapping[str, Any] = field(default_factory=dict)
    """Where the run belongs in table and figure: plain values by column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A number of a paper and ours."""

    what: str
    """Such as "MNIST, five-layer CNN, DP-SGLD: accuracy"."""
    paper: float | str | None
    """As printed there; None where it prints none."""
    ours: float | str | None
    """As our table has it."""
    why: str = ""
    """What differs in the making: scale, data, settings, accountant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A sentence of a paper that can fail, and whether it holds in our table."""

    sentence: str
    holds: bool | None
    """None where the table cannot tell."""
    evidence: str
    """The numbers that decide it, made from the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a study's table says of the paper."""

    comparisons: tuple[Comparison, ...] = ()
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader of the page must know: data that stand in for others, cuts of scale, what was tuned on what."""

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


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
    have not run are left out."""
    draw: Callable[[pl.DataFrame, Path], list[Path]]
    """Figures into a folder (figure.png, figure.pdf), from the table alone."""
    judge: Callable[[pl.DataFrame, Scale], Verdict]
    summary: Callable[[Sequence[Job], pl.DataFrame], dict[str, Any]] | None = None
    """What else of the table is worth a file, summary.json."""
