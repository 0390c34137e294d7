"""Tables as studies make them, with numbers of a test's own; and runs of studies cut down to fractions of a second."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import polars as pl

from experiments.claims import Claim
from experiments.study import Study
from pacdp import GibbsSettings
from pacdp.cli.config import Run, Runtime
from pacdp.cli.folder import Folder

RUNTIME = Runtime(threads=1)
_EFFORT = GibbsSettings(epochs=1.0, prior_draws=2, test_draws=2)


def planted(schema, rows):
    """One finished run a row, unless ``run`` says otherwise."""
    usual = {"n": 60_000, "n_test": 10_000, "step": 10, "epochs": 1.0}
    made = [{"run": str(k), **usual, **row} for k, row in enumerate(rows)]
    assert not {name for row in rows for name in row} - set(schema)
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in made], schema=dict(schema))


class Turn(NamedTuple):
    """What is so of all sentences with some words, or one of several, once columns are replaced in the rows that agree
    with ``where``."""

    words: str | tuple[str, ...]
    where: Mapping[str, Any]
    values: Mapping[str, Any]
    """Numbers, or expressions of polars."""
    holds: bool | None


class World(NamedTuple):
    """A planted table of a study, and what turns the sentences about it."""

    study: Study
    table: pl.DataFrame
    turns: Sequence[Turn | tuple[Any, ...]]
    few: pl.Expr | None = None
    """Rows, say of one seed, that decide nothing."""
    about: str = ""
    """How the sentences begin that are judged: those of one data set, where the table has no other."""
    scale: str = "paper"
    claims: Callable[..., Iterable[Claim]] | None = None
    """The rules alone, where what would settle an open sentence takes long to tell."""


def changed(table, where, values):
    """The table with columns replaced where all of ``where`` agrees, which it must somewhere."""
    hit = pl.all_horizontal(pl.lit(True), *(pl.col(name).eq_missing(pl.lit(value)) for name, value in where.items()))
    assert table.filter(hit).height, where
    return table.with_columns(
        pl.when(hit).then(value if isinstance(value, pl.Expr) else pl.lit(value)).otherwise(name).alias(name)
        for name, value in values.items()
    )


def claims(world, table):
    """What is so of each sentence that is judged."""
    judge = world.study.judge
    found = list(world.claims(table, world.scale) if world.claims else judge(table, world.scale).claims)
    assert table.is_empty() or all(claim.evidence for claim in found)
    return {claim.sentence: claim.holds for claim in found if claim.sentence.startswith(world.about)}


def shortened(job):
    """Two epochs of a sampler's run, under its own key."""
    if not isinstance(job.config, Run):
        return job
    return replace(job, config=replace(job.config, epochs=2.0, records=2, track=_EFFORT, certify=_EFFORT))


def carried_out(study, jobs, folder):
    """The table of jobs carried out batch by batch, as a sweep does."""
    groups = defaultdict(list)
    for job in jobs:
        groups[job.kind.together(job.config) if job.kind.together else job.key].append(job)
    for members in groups.values():
        outs = [folder / job.key for job in members]
        assert members[0].kind.carry_out([job.config for job in members], outs, RUNTIME) == [None] * len(members)
        assert all(Folder(out).finished for out in outs)
    return study.table(jobs, folder)
