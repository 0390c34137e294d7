"""From a checkpoint to certificates on disk and a figure of them."""

from dataclasses import asdict, replace
from pathlib import Path

from pacdp import Settings, load_trained
from pacdp.cli.chains import diagnose_checkpoints, siblings
from pacdp.cli.folder import PRIVATE, reported
from pacdp.cli.rederived import require_rederived
from pacdp.cli.runtime import Certifying, Runtime
from pacdp.cli.serial import Values


def certify(path: Path, runtime: Runtime, how: Certifying) -> Values:
    """The report ``pacdp-certificates/2`` of a checkpoint or of the run folder that holds it.

    What is not asked for comes from the run.
    """
    how.require_no_spread("a chain")
    runtime.apply()
    trained = load_trained(path, data_root=runtime.data_root, device=runtime.device, in_bytes=True)
    trained = replace(trained, fixed=Settings.tried(how.tried, how.by))
    run = require_rederived(path, trained.checkpoint.header, n=trained.objective.n)
    failure_prob = run.failure_prob if how.failure_prob is None else how.failure_prob
    assessment = trained.assess(
        failure_prob=failure_prob, settings=run.certify, seed=how.seed, progress=how.progress
    )
    checkpoint = trained.checkpoint
    del trained  # with the examples: what diagnoses loads libraries of their size
    assessment = assessment.diagnosed(diagnose_checkpoints(siblings(path)))
    if not run.reproducible:
        assessment = replace(assessment, details={**assessment.details, "private": PRIVATE})
    shown = {name: checkpoint.header[name] for name in ("step", "loss", "sampler", "data")}
    return reported(
        assessment, device=runtime.device, seed=how.seed, checkpoint=str(path),
        content_hash=checkpoint.content_hash, effort=asdict(run.certify), **shown,
    )  # fmt: skip
