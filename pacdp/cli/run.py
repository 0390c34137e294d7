"""Carrying out runs: train, record, checkpoint, resume. Runs of one kind go together, as one batch of chains."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import torch

from pacdp import load_checkpoint
from pacdp.algorithms import build, stacked
from pacdp.certify.chain_files import chain_state, first_model, objectives, require_data
from pacdp.chains import Keys, SecretKeys, Trace, keys_of, require_memory
from pacdp.cli.batch import Batch, Member
from pacdp.cli.config import Run, require_own_run
from pacdp.cli.folder import Folder
from pacdp.cli.private.books import books_of
from pacdp.cli.runtime import Training
from pacdp.cli.serial import Values, to_dict
from pacdp.data import Dataset, load
from pacdp.errors import CheckpointError, Diverged
from pacdp.step.identity import arithmetic
from pacdp.step.paid import Paid
from pacdp.step.processes import Together
from pacdp.store.reservation import NoLedger, new_run


def train(run: Run, out: Path, how: Training) -> Values:
    """Carry out ``run`` in folder ``out`` and return its result, as written to ``result.json``.

    Killed at any moment, it leaves a folder that ``how.resume`` takes up where the last checkpoint stands, with weights
    identical to an uninterrupted run.

    Raises:
        Overdrawn: the ledger's limit would be passed; for the steps concerned nothing was drawn.
        ValueError: the folder holds a finished run, or an unfinished one and neither ``resume`` nor ``force`` is set,
            or an unfinished one of another configuration; or another process is at work in it.
        Diverged: a loss or a weight is not finite; the last good checkpoint is kept.
    """
    (outcome,) = train_together([run], [out], how)
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
    runs: Sequence[Run], outs: Sequence[Path], how: Training
) -> list[Values | Exception]:
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
    settings = runs[0].sampler
    with ExitStack() as stack:
        going_on = [
            stack.enter_context(folder.at_work(run, how))
            for folder, run in zip(folders, runs, strict=True)
        ]
        how.require_float32(clipped=settings.clip_norm is not None, kept=settings.keep_norms)
        how.apply()
        loaded = load(runs[0].problem.dataset, root=how.data_root, progressbar=how.progressbar)
        data = {run.problem: run.problem.of(*loaded) for run in runs}
        members = [
            _member(run, folder, *data[run.problem], how, going_on=again)
            for run, folder, again in zip(runs, folders, going_on, strict=True)
        ]
        outcomes: dict[Path, Values | Exception] = {}
        for step in {one.step for one in members}:
            outcomes |= _carried([one for one in members if one.step == step], how)
    return [outcomes[folder.path] for folder in folders]


def _carried(members: list[Member], how: Training) -> dict[Path, Values | Exception]:
    """By folder, the result of each run that stands at this step, or what ended it.

    Where something ends a batch early, each of its runs goes on from its checkpoint by itself.
    """
    batch = _batch(members, how)
    try:
        return {**batch.go()}
    except (Diverged, ValueError) as error:
        if not members[1:]:
            return {members[0].folder.path: error}
    del batch
    ended: dict[Path, Values | Exception] = {}
    for one in members:
        again = _member(one.run, one.folder, one.train, one.test, how, going_on=True)
        ended |= _carried([again], how)
    return ended


def _member(
    run: Run, folder: Folder, train: Dataset, test: Dataset, how: Training, *, going_on: bool
) -> Member:
    """A run beside its data and the checkpoint that it goes on from, compared with each other."""
    if not going_on:
        return Member(run=run, folder=folder, train=train, test=test)
    checkpoint = load_checkpoint(folder.checkpoint)
    header = checkpoint.header
    require_own_run(folder.checkpoint, header, run, n=train.n)
    require_data(folder.checkpoint, checkpoint, train, test)
    trained_on = {"device": header["device"], "runtime": header["runtime"]}
    here = {"device": torch.device(how.device).type, "runtime": how.recorded()}
    if trained_on != here:
        raise CheckpointError(
            f"{folder.path} was trained with {trained_on}: resume there, {here} draws or rounds other numbers"
        )
    return Member(run=run, folder=folder, train=train, test=test, checkpoint=checkpoint)


def _batch(members: list[Member], how: Training) -> Batch:
    """One batch of chains that stand at one step."""
    first = members[0]
    problem, settings = first.run.problem, first.run.sampler
    objective, test = objectives(
        problem, settings, first.train, first.test, device=how.device, batching=how.batching,
        bfloat16=how.bfloat16, labels=([one.train.labels for one in members], [one.test.labels for one in members]),
    )  # fmt: skip
    require_memory(
        chains=len(members), dim=objective.dim, device=objective.device, vectors=settings.vectors,
        beside=objective.beside(len(members)),
    )  # fmt: skip
    sampler = build([one.run.sampler for one in members], objective)
    keys = _keys(members)
    states, traces = [], []
    for k, one in enumerate(members):
        if one.checkpoint is None:
            model = first_model(problem, one.train, seed=one.run.seed, chain=one.run.chain)
            states.append(sampler.init(objective.layout.of(model)[None].to(how.device)))
        else:
            states.append(
                chain_state(one.checkpoint, one.run.sampler, objective.layout, how.device)
            )
            traces.append(one.checkpoint.trace)
        one.paid = _paid(one, how, keys=keys.select([k]))
    trace = Trace.start(first.run.steps(objective.n))
    batch = Batch(
        members=members, how=how, keys=keys, objective=objective, test=test, sampler=sampler, state=stacked(states),
        trace=Trace.of(trace.every, traces) if traces and traces[0] else trace,
    )  # fmt: skip
    batch.prepare()
    return batch


def _keys(members: Sequence[Member]) -> Keys:
    """The keys that checkpoints hold; of runs without one those of their seeds, or new ones of the system."""
    runs = [one.run for one in members]
    if runs[0].reproducible:
        return Keys.derive([run.seed for run in runs], [run.chain for run in runs])
    made: list[SecretKeys] = []
    for run, checkpoint in ((one.run, one.checkpoint) for one in members):
        own = SecretKeys.drawn([run.chain]) if checkpoint is None else keys_of(checkpoint.header)
        if not isinstance(own, SecretKeys):
            raise CheckpointError(
                f"the checkpoint of chain {run.chain} lacks the key of its noise: start it again with --force"
            )
        made.append(own)
    return SecretKeys.joined(made)


def _paid(one: Member, how: Training, *, keys: Keys) -> Paid | None:
    """Leave to draw the run's noise, under these keys of its own; None for a run that promises nothing.

    Noise from a seed or a kept key is the same when it is drawn again, so that going on from a checkpoint costs nothing
    more.
    """
    run, n = one.run, one.train.n
    if not run.promising:
        return None
    header = {} if one.checkpoint is None else one.checkpoint.header
    known = header.get("ledger") or {"run": new_run(), "receipt": None}
    books = books_of(how.ledger, one.folder.path, before=header if one.step else None)
    if isinstance(books, NoLedger):
        books.require(known["receipt"])
    settings, steps, device = to_dict(run), run.steps(n), torch.device(how.device)
    secret = isinstance(keys, SecretKeys)
    numbers = ["ChaCha20", keys.secrets[0].hex()] if secret else ["Philox", run.seed]
    own = [settings[name] for name in ("problem", "sampler", "seed")]
    stream = books.stream(
        keyed_by=[*numbers, run.chain],
        settings=[*own, one.train.hash, how.recorded(), device.type, arithmetic(device)],
        secret=secret,
    )
    return Paid(
        books, run=known["run"], algorithm=run.algorithm, unit="example",
        cost=lambda first, last: run.sampler.promise(n, last - first + 1, start=first - 1),
        stream=stream, every=-(-steps // run.records), last=steps, together=Together(several=False), device=device,
        tells_size=True,
    )  # fmt: skip
