"""The kinds of runs that commands of their own carry out as well: samplers' chains, private training."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pacdp.cli.batch import Report
from pacdp.cli.config import Run, Runtime
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.run import kind, train_together
from pacdp.cli.sweep.jobs import Job, Kind, Outcome


def _samplers(
    runs: Sequence[Run], outs: Sequence[Path], runtime: Runtime, *, force: bool = False, report: Report | None = None,
    ledger: Path | None = None,
) -> list[Outcome]:  # fmt: skip
    outcomes = train_together(
        runs, outs, runtime, resume=True, force=force, report=report, ledger=ledger
    )
    return [outcome if isinstance(outcome, Exception) else None for outcome in outcomes]


def _private(
    configs: Sequence[PrivateConfig], outs: Sequence[Path], runtime: Runtime
) -> list[Outcome]:
    from pacdp.cli.private.run import (
        train_private,
    )  # brings Opacus, for which listing recipes does not wait

    found: list[Outcome] = []
    for config, out in zip(configs, outs, strict=True):
        try:
            train_private(config, out, runtime, resume=True)
            found.append(None)
        except (ValueError, RuntimeError, OSError) as error:
            found.append(error)
    return found


SAMPLER = Kind(carry_out=_samplers, together=kind)
"""`pacdp.cli.config.Run`: SGD, SGLD, Entropy-SG(L)D and their relatives, runs of one kind as one batch of chains."""

PRIVATE = Kind(carry_out=_private)
"""`pacdp.cli.private.PrivateConfig`: training within a privacy budget."""


def chains_kind(*, force: bool, report: Report | None = None, ledger: Path | None = None) -> Kind:
    """:data:`SAMPLER` that overwrites what its folders hold, reports, or counts its steps in the ledger of that folder.

    No report can be made from other processes.
    """
    here = None if ledger is None else ledger.absolute()
    return Kind(
        carry_out=functools.partial(_samplers, force=force, report=report, ledger=here),
        together=kind,
    )


def private_job(key: str, config: PrivateConfig, **tags: str | int | float | bool | None) -> Job:
    """A private run whose noise can be drawn again from its seed, as published results on public data need."""
    return Job(key=key, kind=PRIVATE, config=replace(config, reproducible=True), tags=tags)


def sampler_job(run: Run, **tags: str | int | float | bool | None) -> Job:
    """A sampler's run under its own key; its noise can be drawn again from its seed, as for :func:`private_job`."""
    run = replace(run, reproducible=True)
    return Job(key=run.key, kind=SAMPLER, config=run, tags=tags)
