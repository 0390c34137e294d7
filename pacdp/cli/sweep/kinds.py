"""The kinds of runs that commands of their own carry out as well: samplers' chains, private training."""

from dataclasses import replace

from pacdp.cli.config import Run
from pacdp.cli.private.run import train_private
from pacdp.cli.run import kind, train, train_together
from pacdp.cli.sweep.jobs import Job, Kind

SAMPLER = Kind(carry_out=train, together=kind, batch=train_together)
"""`pacdp.cli.config.Run`: SGD, SGLD, Entropy-SG(L)D and their relatives, runs of one kind as one batch of chains."""

PRIVATE = Kind(carry_out=train_private)
"""`pacdp.cli.private.PrivateConfig`: training within a privacy budget."""


def sampler_job(run: Run, **tags: str | int | float | bool | None) -> Job:
    """A sampler's run under its own key; its noise can be drawn again from its seed, as published results need."""
    run = replace(run, reproducible=True)
    return Job(key=run.key, kind=SAMPLER, config=run, tags=tags)
