"""From a checkpoint to certificates on disk and a figure of them."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pacdp import Settings, load_trained
from pacdp.certify.gibbs import Progress
from pacdp.cli.chains import diagnose_checkpoints, siblings
from pacdp.cli.folder import provenance
from pacdp.cli.private import PRIVATE
from pacdp.cli.rederived import require_rederived
from pacdp.cli.runtime import Runtime


def certify(
    path: Path,
    runtime: Runtime,
    *,
    failure_prob: float | None = None,
    effort: Mapping[str, Any] = MappingProxyType({}),
    seed: int = 0,
    unlisted: Settings | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The report ``pacdp-certificates/2`` of a checkpoint or of the run folder that holds it.

    ``effort`` replaces fields of the run's own ``GibbsSettings``; what is not given comes from the run.
    ``unlisted`` says who fixed the settings, and how many were tried on the run's examples.
    """
    runtime.apply()
    trained = load_trained(path, data_root=runtime.data_root, device=runtime.device, in_bytes=True)
    if unlisted is not None:
        trained = replace(trained, fixed=unlisted)
    run = require_rederived(path, trained.checkpoint.header, n=trained.objective.n)
    settings = replace(run.certify, **effort)
    assessment = trained.assess(
        failure_prob=run.failure_prob if failure_prob is None else failure_prob,
        settings=settings,
        seed=seed,
        progress=progress,
    )
    checkpoint = trained.checkpoint
    del trained  # with the examples: what diagnoses loads libraries of their size
    assessment = assessment.diagnosed(diagnose_checkpoints(siblings(path)))
    if not run.reproducible:
        assessment = replace(assessment, details={**assessment.details, "private": PRIVATE})
    header = checkpoint.header
    subject = {
        "checkpoint": str(path),
        "content_hash": checkpoint.content_hash,
        "effort": asdict(settings),
        **{name: header[name] for name in ("step", "loss", "sampler", "data")},
    }
    return assessment.to_dict(
        subject=subject, provenance=provenance(device=runtime.device, seed=seed)
    )
