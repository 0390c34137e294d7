"""Carrying out runs: train, record, checkpoint, resume. Runs of one kind go together, as one batch of chains."""

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from pacdp import load_checkpoint
from pacdp.algorithms import build, stacked
from pacdp.certify.chain_files import chain_state, first_model, objectives, require_data
from pacdp.chains import Keys, SecretKeys, Trace, keys_of, require_memory
from pacdp.cli.batch import Batch, Report
from pacdp.cli.config import Run, Runtime
from pacdp.cli.folder import Folder
from pacdp.cli.private.books import books_of
from pacdp.cli.rederived import require_own_run
from pacdp.cli.serial import to_dict
from pacdp.data import Dataset, Progress, load
from pacdp.errors import CheckpointError
from pacdp.step.identity import versions
from pacdp.step.paid import Paid
from pacdp.step.processes import Together
from pacdp.store.checkpoint import Checkpoint
from pacdp.store.reservation import NoLedger, new_run

Outcome = dict[str, Any] | Exception


def train(
    run: Run,
    out: Path,
    runtime: Runtime,
    *,
    resume: bool = False,
    force: bool = False,
    report: Report | None = None,
    progressbar: bool | Progress = False,
    ledger: Path | None = None,
) -> dict[str, Any]:
    """Carry out ``run`` in folder ``out`` and return its result, as written to ``result.json``.

    Killed at any moment, it leaves a folder that ``resume`` takes up where the last checkpoint stands, with weights
    identical to an uninterrupted run. ``progressbar`` is shown a download, should the data need one.
    ``ledger`` is the folder of the data set's ledger, where the steps of a run that promises privacy are counted before
    their noise is drawn; without one, nothing is.

    Raises:
        Overdrawn: the ledger's limit would be passed; for the steps concerned nothing was drawn.
        ValueError: the folder holds a finished run, or an unfinished one and neither ``resume`` nor ``force`` is set,
            or an unfinished one of another configuration; or another process is at work in it.
        Diverged: a loss or a weight is not finite; the last good checkpoint is kept.
    """
    (outcome,) = train_together(
        [run], [out], runtime, resume=resume, force=force, report=report, progressbar=progressbar, ledger=ledger,
    )  # fmt: skip
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def kind(run: Run) -> str:
    """What runs must share to go together: all but seeds, labels, temperatures and step sizes."""
    values = to_dict(run)
    values["sampler"] = {
        name: values["sampler"].get(name) for name in ("kind", *run.sampler.shared)
    }
    values["sampler"]["noise"] = run.algorithm
    for name in ("random_labels", "label_seed"):
        del values["problem"][name]
    del values["seed"], values["chain"], values["certify"]
    return json.dumps(values, sort_keys=True)


def train_together(
    runs: Sequence[Run],
    outs: Sequence[Path],
    runtime: Runtime,
    *,
    resume: bool = False,
    force: bool = False,
    report: Report | None = None,
    progressbar: bool | Progress = False,
    ledger: Path | None = None,
) -> list[Outcome]:
    """Carry out runs of one kind as one batch of chains, each in its own folder: its result or its error.

    Every run's numbers are those it would have alone. A run that diverges, or whose steps the ledger does not count,
    leaves the batch and the others go on.

    Raises:
        ValueError: runs of different kinds; a folder or ledger that cannot be used (see :func:`train`); chains that do
            not fit into memory.
    """
    if len({kind(run) for run in runs}) != 1:
        raise ValueError("expected runs of one kind: the same data, network, algorithm and length")
    folders = [Folder(out) for out in outs]
    with ExitStack() as stack:
        for folder, run in zip(folders, runs, strict=True):
            stack.enter_context(folder.lock())
            if not force:
                folder.require_free(run, resume=resume)
        runtime.require_float32(
            clipped=runs[0].sampler.clip_norm is not None, kept=runs[0].sampler.keep_norms
        )
        runtime.apply()
        batches = _batches(
            runs, folders, runtime, force=force, progressbar=progressbar, ledger=ledger
        )
        outcomes: dict[Path, Outcome] = {}
        for batch in batches:
            outcomes |= batch.go(report or (lambda step, steps, row: None))
    return [outcomes[folder.path] for folder in folders]


def _batches(
    runs: Sequence[Run],
    folders: Sequence[Folder],
    runtime: Runtime,
    *,
    force: bool,
    progressbar: bool | Progress,
    ledger: Path | None,
) -> list[Batch]:
    """One batch of chains for each step at which some of them stand."""
    problem = runs[0].problem
    loaded = load(problem.dataset, root=runtime.data_root, progressbar=progressbar)
    own = {run.problem: run.problem.of(*loaded) for run in runs}
    resumed = [folder.checkpoint.is_file() and not force for folder in folders]
    checkpoints = [
        load_checkpoint(f.checkpoint) if again else None
        for f, again in zip(folders, resumed, strict=True)
    ]
    found: dict[int, list[int]] = {}
    for i, checkpoint in enumerate(checkpoints):
        if checkpoint is not None:
            require_own_run(
                folders[i].checkpoint, checkpoint.header, runs[i], n=own[runs[i].problem][0].n
            )
            require_data(folders[i].checkpoint, checkpoint, *own[runs[i].problem])
            _require_same_device(folders[i], checkpoint.header, runtime)
        found.setdefault(checkpoint.header["step"] if checkpoint else 0, []).append(i)
    batches = []
    for _, members in sorted(found.items()):
        chosen, data = [runs[i] for i in members], [own[runs[i].problem] for i in members]
        objective, test = objectives(
            problem, chosen[0].sampler, *data[0], device=runtime.device, batching=runtime.batching,
            bfloat16=runtime.bfloat16, labels=([train.labels for train, _ in data], [test.labels for _, test in data]),
        )  # fmt: skip
        require_memory(
            chains=len(members), dim=objective.dim, device=objective.device, vectors=chosen[0].sampler.vectors,
            beside=objective.beside(len(members)),
        )  # fmt: skip
        states, traces, paid = [], [], list[Paid | None]()
        sampler = build([run.sampler for run in chosen], objective)
        keys = _keys(chosen, [checkpoints[i] for i in members])
        for k, i in enumerate(members):
            checkpoint = checkpoints[i]
            if checkpoint is None:
                model = first_model(
                    problem, own[runs[i].problem][0], seed=runs[i].seed, chain=runs[i].chain
                )
                states.append(sampler.init(objective.layout.of(model)[None].to(runtime.device)))
            else:
                states.append(
                    chain_state(checkpoint, runs[i].sampler, objective.layout, runtime.device)
                )
                traces.append(checkpoint.trace)
            header = None if checkpoint is None else checkpoint.header
            paid.append(_paid(runs[i], folders[i], ledger, header, data=own[runs[i].problem][0], runtime=runtime,
                              keys=keys.select([k])))  # fmt: skip
        steps = chosen[0].steps(objective.n)
        trace = (
            Trace.of(Trace.start(steps).every, traces)
            if traces and traces[0]
            else Trace.start(steps)
        )
        batch = Batch(
            runs=chosen, folders=[folders[i] for i in members], runtime=runtime,
            hashes=[{"train": train.hash, "test": test.hash} for train, test in data],
            paid=paid, keys=keys,
            objective=objective, test=test, sampler=sampler, state=stacked(states), trace=trace,
        )  # fmt: skip
        batch.prepare(fresh=[not resumed[i] for i in members])
        batches.append(batch)
    return batches


def _keys(runs: Sequence[Run], checkpoints: Sequence[Checkpoint | None]) -> Keys:
    """The keys that checkpoints hold; of runs without one those of their seeds, or new ones of the system."""
    if runs[0].reproducible:
        return Keys.derive([run.seed for run in runs], [run.chain for run in runs])
    made: list[SecretKeys] = []
    for run, checkpoint in zip(runs, checkpoints, strict=True):
        own = SecretKeys.drawn([run.chain]) if checkpoint is None else keys_of(checkpoint.header)
        if not isinstance(own, SecretKeys):
            raise CheckpointError(
                f"the checkpoint of chain {run.chain} lacks the key of its noise: start it again with --force"
            )
        made.append(own)
    return SecretKeys.joined(made)


def _paid(
    run: Run, folder: Folder, ledger: Path | None, header: Mapping[str, Any] | None, *, data: Dataset, runtime: Runtime,
    keys: Keys,
) -> Paid | None:  # fmt: skip
    """Leave to draw the run's noise, under these keys of its own; None for a run that promises nothing.

    Noise from a seed or a kept key is the same when it is drawn again, so that going on from a checkpoint costs nothing
    more.
    """
    if not run.promising:
        return None
    known = None if header is None else header.get("ledger")
    books = books_of(
        ledger, folder.path, before=header if header is not None and header["step"] else None
    )
    if isinstance(books, NoLedger):
        books.require(known and known["receipt"])
    settings, steps = to_dict(run), run.steps(data.n)
    numbers = (
        ["ChaCha20", keys.secrets[0].hex()]
        if isinstance(keys, SecretKeys)
        else ["Philox", run.seed]
    )
    stream = books.stream(
        keyed_by=[*numbers, run.chain],
        settings=[*(settings[name] for name in ("problem", "sampler", "seed")), data.hash, runtime.recorded(),
                  torch.device(runtime.device).type, versions()],
        secret=isinstance(keys, SecretKeys),
    )  # fmt: skip
    return Paid(
        books, run=known["run"] if known else new_run(), algorithm=run.algorithm, unit="example",
        cost=lambda first, last: run.sampler.promise(data.n, last - first + 1, start=first - 1),
        stream=stream, every=-(-steps // run.records), last=steps, together=Together(several=False),
        device=torch.device(runtime.device),
    )  # fmt: skip


def _require_same_device(folder: Folder, header: Mapping[str, Any], runtime: Runtime) -> None:
    trained_on = {"device": header["device"], "runtime": header["runtime"]}
    here = {"device": torch.device(runtime.device).type, "runtime": runtime.recorded()}
    if trained_on != here:
        raise CheckpointError(
            f"{folder.path} was trained with {trained_on}: resume there, {here} draws or rounds other numbers"
        )
