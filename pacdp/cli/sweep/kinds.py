"""The kinds of runs that commands of their own carry out as well: samplers' chains, private training."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pacdp.cli.config import Run
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.run import kind, train_together
from pacdp.cli.runtime import Training
from pacdp.cli.sweep.jobs import Job, Kind, Outcome, each


def _samplers(runs: Sequence[Run], outs: Sequence[Path], how: Training) -> list[Outcome]:
    outcomes = train_together(runs, outs, replace(how, resume=True))
    return [outcome if isinstance(outcome, Exception) else None for outcome in outcomes]


def _private(config: PrivateConfig, out: Path, how: Training) -> None:
    from pacdp.cli.private.run import train_private  # for which listing recipes does not wait

    train_private(config, out, replace(how, resume=True))


SAMPLER = Kind(carry_out=_samplers, together=kind)
"""`pacdp.cli.config.Run`: SGD, SGLD, Entropy-SG(L)D and their relatives, runs of one kind as one batch of chains."""

PRIVATE = Kind(carry_out=partial(each, carry_out=_private))
"""`pacdp.cli.private.PrivateConfig`: training within a privacy budget."""


def sampler_job(run: Run, **tags: str | int | float | bool | None) -> Job:
    """A sampler's run under its own key; its noise can be drawn again from its seed, as published results need."""
    run = replace(run, reproducible=True)
    return Job(key=run.key, kind=SAMPLER, config=run, tags=tags)
