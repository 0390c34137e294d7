"""The kinds of runs that commands of their own carry out as well: samplers' chains, private training."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pacdp.cli.config import Run
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.run import kind, train_together
from pacdp.cli.runtime import Training
from pacdp.cli.sweep.jobs import Job, Kind, Outcome


def _samplers(runs: Sequence[Run], outs: Sequence[Path], how: Training) -> list[Outcome]:
    outcomes = train_together(runs, outs, replace(how, resume=True))
    return [outcome if isinstance(outcome, Exception) else None for outcome in outcomes]


def _private(
    configs: Sequence[PrivateConfig], outs: Sequence[Path], how: Training
) -> list[Outcome]:
    from pacdp.cli.private.run import train_private  # for which listing recipes does not wait

    found: list[Outcome] = []
    for config, out in zip(configs, outs, strict=True):
        try:
            train_private(config, out, replace(how, resume=True))
            found.append(None)
        except (ValueError, RuntimeError, OSError) as error:
            found.append(error)
    return found


SAMPLER = Kind(carry_out=_samplers, together=kind)
"""`pacdp.cli.config.Run`: SGD, SGLD, Entropy-SG(L)D and their relatives, runs of one kind as one batch of chains."""

PRIVATE = Kind(carry_out=_private)
"""`pacdp.cli.private.PrivateConfig`: training within a privacy budget."""


def private_job(key: str, config: PrivateConfig, **tags: str | int | float | bool | None) -> Job:
    """A private run whose noise can be drawn again from its seed, as published results on public data need."""
    return Job(key=key, kind=PRIVATE, config=replace(config, reproducible=True), tags=tags)


def sampler_job(run: Run, **tags: str | int | float | bool | None) -> Job:
    """A sampler's run under its own key; its noise can be drawn again from its seed, as for :func:`private_job`."""
    run = replace(run, reproducible=True)
    return Job(key=run.key, kind=SAMPLER, config=run, tags=tags)
