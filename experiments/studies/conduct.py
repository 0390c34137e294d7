"""Carrying out studies: all their jobs over one set of workers, each study's results as soon as its jobs have ended."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from experiments.config import Runtime
from experiments.studies.study import Job, Study
from experiments.studies.sweep import carry_out
from experiments.studies.watch import Watch
from experiments.studies.workers import Workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A study's jobs and where their folders go."""

    study: Study
    jobs: list[Job]
    folder: Path
    failed: dict[str, str] = field(default_factory=dict)
    """Errors by the keys of the jobs that failed, as they become known."""


def conduct(plans: Sequence[Plan], runtime: Runtime, *, workers: Workers) -> Iterator[Plan]:
    """Carry out the jobs that have not finished, yielding each plan when its last job has ended.

    Raises:
        ValueError: two jobs of a study have the same key.
    """
    for plan in plans:
        if len({job.key for job in plan.jobs}) != len(plan.jobs):
            raise ValueError(f"two jobs of {plan.study.name} have the same key: their folder would be the same")
    every = [(plan, job) for plan in plans for job in plan.jobs]
    outs = [plan.folder / job.key for plan, job in every]
    left = {plan.study.name: len(plan.jobs) for plan in plans}
    with Watch(jobs=[(plan.study.name, job) for plan, job in every]) as watch:
        sweep = carry_out([job for _, job in every], outs, runtime, workers=workers, started=watch.started)
        for i, error in sweep:
            watch.ended(i, error)
            plan, job = every[i]
            if error:
                plan.failed[job.key] = error
            left[plan.study.name] -= 1
            if not left[plan.study.name]:
                yield plan
