"""From the checkpoints of a chain, or of several chains of one run, to their diagnosis and to certificates.

Several chains have folders of their own and are trained over workers; what their traces say can refute stationarity,
never prove it.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pacdp import Settings, load_checkpoint, load_trained
from pacdp.certify.evidence import WHOEVER
from pacdp.chains import Diagnosis, Trace
from pacdp.chains.diagnostics import diagnose
from pacdp.cli.config import Run, require_own_run
from pacdp.cli.console import showing
from pacdp.cli.folder import PRIVATE, Folder, read_json, reported, require_replaceable, write_json
from pacdp.cli.private.books import books_of
from pacdp.cli.runtime import Certifying, Runtime, Training, require_unset
from pacdp.cli.serial import Values
from pacdp.cli.sweep.batches import carry_out
from pacdp.cli.sweep.jobs import Job
from pacdp.cli.sweep.kinds import SAMPLER
from pacdp.cli.sweep.workers import Workers
from pacdp.store.checkpoint import Checkpoint


def certify(path: Path, runtime: Runtime, how: Certifying, by: str = WHOEVER) -> Values:
    """The report ``pacdp-certificates/2`` of a checkpoint or of the run folder that holds it.

    What is not asked for comes from the run; ``by`` says how many settings were tried.
    """
    require_unset(how, "std", by="for a chain, around which no Gaussian is put")
    runtime.apply()
    trained = load_trained(path, data_root=runtime.data_root, device=runtime.device, in_bytes=True)
    trained = replace(trained, fixed=Settings.tried(how.tried, by))
    run = require_own_run(path, trained.checkpoint.header, n=trained.objective.n)
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


def chain_folder(out: Path, chain: int) -> Path:
    """Where chain number ``chain`` of several has its folder."""
    return out / f"chain-{chain:02d}"


def train_chains(run: Run, out: Path, how: Training, chains: int, workers: Workers) -> Values:
    """Carry out chains 0, 1, ... of a run, each in its own folder, over the workers, and diagnose them.

    Raises:
        ValueError: the folder holds chains and neither ``resume`` nor ``force`` is set, or finished ones that another
            ledger counts; the run names a chain.
        RuntimeError: some chains failed; it says which and why.
    """
    if chains < 1:
        raise ValueError(f"expected chains >= 1, got {chains}")
    if run.chain:
        raise ValueError(
            "--chain goes with one run: leave it out, or --chains, which numbers them from 0"
        )
    runs = [replace(run, chain=chain) for chain in range(chains)]
    outs = [chain_folder(out, chain) for chain in range(chains)]
    if not (how.resume or how.force) and any(Folder(one).started for one in outs):
        raise ValueError(
            f"{out} holds chains: continue them with --resume, or overwrite them with --force"
        )
    require_replaceable(out / "diagnosis.json", "diagnosis")
    for one in outs:
        if run.promising and Folder(one).finished and not how.force:
            books_of(how.ledger, one, before=load_checkpoint(one).header)
    how = replace(how, threads=how.threads or 1)  # the same numbers with any workers
    jobs = [
        Job(key=one.name, kind=SAMPLER, config=run) for one, run in zip(outs, runs, strict=True)
    ]
    failed: dict[str, list[int]] = {}
    with showing(f"{chains} chains of {run.title}") as report:
        for chain, error in carry_out(jobs, outs, replace(how, report=report), workers=workers):
            if error:
                failed.setdefault(error, []).append(chain)
    if failed:
        raise RuntimeError("; ".join(
            error if len(which) == chains else f"chain {', '.join(map(str, sorted(which)))}: {error}"
            for error, which in failed.items()
        ))  # fmt: skip
    diagnosis = diagnose_checkpoints([load_checkpoint(one) for one in outs])
    found = diagnosis.to_dict() if diagnosis else None
    write_json(
        out / "diagnosis.json",
        {"format": "pacdp-diagnosis/1", "chains": chains, "diagnosis": found},
    )
    results = [read_json(Folder(one).result) for one in outs]
    return {"format": "pacdp-results/1", "chains": results, "diagnosis": found}


def diagnose_checkpoints(checkpoints: Sequence[Checkpoint]) -> Diagnosis | None:
    """The diagnosis of chains of one run at one step; None where nothing was recorded."""
    traces = [checkpoint.trace for checkpoint in checkpoints]
    if not traces or not all(traces):
        return None
    # the width of a window does not enter the diagnostics
    return diagnose(Trace.of(1, traces).arrays())


def siblings(path: Path) -> list[Checkpoint]:
    """The checkpoint at ``path`` and those of the other chains of its run that stand at the same step, each once."""
    folder, own = (path if path.is_dir() else path.parent).resolve(), load_checkpoint(path)
    chain = folder.name.startswith("chain-")
    others = sorted(folder.parent.glob("chain-*/checkpoint.safetensors")) if chain else []
    found = {own.header["chain"]: own}
    for one in map(load_checkpoint, others):
        if _run_of(one) == _run_of(own):
            found.setdefault(one.header["chain"], one)  # a copy of a folder is no other chain
    return [*found.values()]


def _run_of(checkpoint: Checkpoint) -> list[Any]:
    """What the checkpoints of one run's chains at one step share."""
    shared = ("problem", "sampler", "step", "data", "seed")
    shapes = {name: one.shape for name, one in checkpoint.trace.items()}
    return [*map(checkpoint.header.get, shared), shapes]
