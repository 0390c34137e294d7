"""Carrying out studies: all their jobs over one set of workers, each study's results as soon as its jobs have ended."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from experiments.study import Study
from experiments.watch import Watch
from pacdp.cli.config import Runtime
from pacdp.cli.sweep.batches import carry_out
from pacdp.cli.sweep.jobs import Job
from pacdp.cli.sweep.workers import Workers


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

    A job that several studies need, with one key and one folder, is carried out once.

    Raises:
        ValueError: two jobs of a study have the same key, or jobs of two studies one folder and other configurations.
    """
    for plan in plans:
        if len({job.key for job in plan.jobs}) != len(plan.jobs):
            raise ValueError(f"two jobs of {plan.study.name} have the same key: their folder would be the same")
    wanted = _wanted(plans)
    left = {plan.study.name: len(plan.jobs) for plan in plans}
    first = [users[0] for users in wanted.values()]
    with Watch(jobs=[(plan.study.name, job) for plan, job in first]) as watch:
        jobs, outs = [job for _, job in first], list(wanted)
        for i, error in carry_out(jobs, outs, runtime, workers=workers, started=watch.started):
            watch.ended(i, error)
            for plan, job in wanted[outs[i]]:
                if error:
                    plan.failed[job.key] = error
                left[plan.study.name] -= 1
                if not left[plan.study.name]:
                    yield plan


def _wanted(plans: Sequence[Plan]) -> dict[Path, list[tuple[Plan, Job]]]:
    """By folder, the studies that need a job and what each calls it."""
    found: dict[Path, list[tuple[Plan, Job]]] = {}
    for plan in plans:
        for job in plan.jobs:
            users = found.setdefault(plan.folder / job.key, [])
            if users and users[0][1].config != job.config:
                raise ValueError(f"{users[0][0].study.name} and {plan.study.name} have jobs of one key, {job.key}, and "
                                 "other configurations: their folder would be the same")  # fmt: skip
            users.append((plan, job))
    return found
