"""Tables as studies make them, with numbers of a test's own; and runs of studies cut down to fractions of a second."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from experiments.claims import Claim, Verdict
from experiments.study import Study
from pacdp import GibbsSettings
from pacdp.cli.config import Run, Runtime
from pacdp.cli.folder import Folder
from pacdp.cli.sweep.jobs import Job

RUNTIME = Runtime(threads=1)
_EFFORT = GibbsSettings(epochs=1.0, prior_draws=2, test_draws=2)


def planted(schema: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """One finished run a row, unless ``run`` says otherwise."""
    made = [{"run": str(k), "n": 60_000, "n_test": 10_000, "step": 10, **row} for k, row in enumerate(rows)]
    unknown = {name for row in made for name in row} - set(schema)
    assert not unknown, unknown
    return pl.DataFrame(made, schema=dict(schema), orient="row")


def changed(rows: Sequence[dict[str, Any]], where: Mapping[str, Any], **values: Any) -> list[dict[str, Any]]:
    """The rows with columns replaced where all of ``where`` agrees, which it must somewhere."""
    hit = [all(row.get(name) == value for name, value in where.items()) for row in rows]
    assert any(hit), where
    return [{**row, **values} if chosen else row for row, chosen in zip(rows, hit, strict=True)]


def claims(verdict: Verdict) -> dict[str, Claim]:
    """By their sentences, all of which differ."""
    found = {claim.sentence: claim for claim in verdict.claims}
    assert len(found) == len(verdict.claims)
    assert all(claim.evidence for claim in verdict.claims)
    return found


def failing(verdict: Verdict) -> list[str]:
    """Sentences that do not hold."""
    return [sentence for sentence, claim in claims(verdict).items() if claim.holds is False]


def shortened(job: Job) -> Job:
    """Two epochs of a sampler's run, under its own key."""
    if not isinstance(job.config, Run):
        return job
    return replace(job, config=replace(job.config, epochs=2.0, records=2, track=_EFFORT, certify=_EFFORT))


def carried_out(study: Study, jobs: Sequence[Job], folder: Path) -> pl.DataFrame:
    """The table of jobs carried out batch by batch, as a sweep does."""
    groups: dict[Any, list[Job]] = defaultdict(list)
    for job in jobs:
        groups[job.kind.together(job.config) if job.kind.together else job.key].append(job)
    for members in groups.values():
        outs = [folder / job.key for job in members]
        assert members[0].kind.carry_out([job.config for job in members], outs, RUNTIME) == [None] * len(members)
        assert all(Folder(out).finished for out in outs)
    return study.table(jobs, folder)
