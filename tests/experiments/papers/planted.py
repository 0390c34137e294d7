"""Runs of studies cut down to fractions of a second, and the table of some."""

from collections import defaultdict
from dataclasses import replace

from tiny_runs import EFFORT, RUNTIME

from pacdp.cli.config import Run
from pacdp.cli.folder import Folder


def shortened(job):
    """Two epochs of a sampler's run, under its own key."""
    if not isinstance(job.config, Run):
        return job
    return replace(job, config=replace(job.config, epochs=2.0, records=2, track=EFFORT, certify=EFFORT))


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
