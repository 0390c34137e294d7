"""Carrying out runs: train, record, checkpoint, resume. Runs of one kind go together, as one batch of chains.

A fresh run writes provenance.json, config.json and its first checkpoint. At each mark it adds a row to metrics.jsonl
and then replaces the checkpoint; between marks it replaces the checkpoint alone, and result.json comes last. A run that
was killed goes on from its checkpoint, and rows beyond that are dropped.
"""

import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

import bounds
from pacdp import load_checkpoint
from pacdp.algorithms import build, chain_of, copied, stacked
from pacdp.certify import NoPrivacy
from pacdp.certify.chain import chain_certificates
from pacdp.certify.chain_files import (
    chain_state,
    first_model,
    objectives,
    require_data,
    save_trained,
)
from pacdp.certify.gibbs import GibbsEstimate, estimate_gibbs
from pacdp.certify.trained import privacy_of
from pacdp.chains import Keys, Replayed, SecretKeys, Trace, keys_of, require_memory, run_chains
from pacdp.cli.config import Run, require_own_run
from pacdp.cli.folder import PRIVATE, Folder
from pacdp.cli.private.books import books_of
from pacdp.cli.runtime import Training
from pacdp.cli.serial import Values, to_dict
from pacdp.data import Dataset, load
from pacdp.errors import CheckpointError, Diverged
from pacdp.objective import Risks
from pacdp.posterior import LocalGibbs
from pacdp.step.identity import arithmetic
from pacdp.step.paid import Paid
from pacdp.step.processes import Together
from pacdp.store.checkpoint import Checkpoint
from pacdp.store.files import let_go
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


@dataclass(slots=True, kw_only=True)
class Member:
    """One run of a batch, with what is its own."""

    run: Run
    folder: Folder
    train: Dataset
    test: Dataset
    checkpoint: Checkpoint | None = None
    """The one that it goes on from."""
    paid: Paid | None = None
    """Leave to draw its steps' noise; None where it promises nothing."""

    @property
    def step(self) -> int:
        """Where it stands when it begins or goes on."""
        return 0 if self.checkpoint is None else int(self.checkpoint.header["step"])

    def taken_up(self, how: Training) -> "Member":
        """The run where its checkpoint stands, which is compared with run, data and runtime.

        Raises:
            CheckpointError: it is of other ones.
        """
        checkpoint = load_checkpoint(self.folder.checkpoint)
        header = checkpoint.header
        require_own_run(self.folder.checkpoint, header, n=self.train.n)
        require_data(self.folder.checkpoint, checkpoint, self.train, self.test)
        trained_on = {"device": header["device"], "runtime": header["runtime"]}
        here = {"device": torch.device(how.device).type, "runtime": how.recorded()}
        if trained_on != here:
            raise CheckpointError(
                f"{self.folder.path} was trained with {trained_on}: resume there, {here} draws or rounds other numbers"
            )
        self.checkpoint = checkpoint
        return self


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
    folders, settings = [Folder(out) for out in outs], runs[0].sampler
    with ExitStack() as stack:
        going_on = [
            stack.enter_context(folder.at_work(run, how))
            for folder, run in zip(folders, runs, strict=True)
        ]
        how.require_float32(clipped=settings.clip_norm is not None, kept=settings.keep_norms)
        how.apply()
        loaded = load(runs[0].problem.dataset, root=how.data_root, progressbar=how.progressbar())
        data = {run.problem: run.problem.of(*loaded) for run in runs}
        members: list[Member] = []
        for run, folder, again in zip(runs, folders, going_on, strict=True):
            train, test = data[run.problem]
            one = Member(run=run, folder=folder, train=train, test=test)
            members.append(one.taken_up(how) if again else one)
        outcomes: dict[Path, Values | Exception] = {}
        for step in {one.step for one in members}:
            outcomes |= _carried([one for one in members if one.step == step], how)
    return [outcomes[folder.path] for folder in folders]


def _carried(members: list[Member], how: Training) -> dict[Path, Values | Exception]:
    """By folder, the result of each run that stands at this step, or what ended it.

    Where something ends a batch early, each of its runs goes on from its checkpoint by itself.
    """
    batch = Batch(members, how)
    try:
        return {**batch.go()}
    except (Diverged, ValueError) as error:
        if not members[1:]:
            return {members[0].folder.path: error}
    del batch
    ended: dict[Path, Values | Exception] = {}
    for one in members:
        ended |= _carried([one.taken_up(how)], how)
    return ended


class Batch:
    """Runs of one kind at one step, as chains of one sampler; their folders stand where the batch does."""

    def __init__(self, members: list[Member], how: Training) -> None:
        self.members, self.how, first = members, how, members[0].run
        problem, settings = first.problem, first.sampler
        labels = [one.train.labels for one in members], [one.test.labels for one in members]
        self.objective, self.test = objectives(
            problem, settings, members[0].train, members[0].test, device=how.device, batching=how.batching,
            bfloat16=how.bfloat16, labels=labels,
        )  # fmt: skip
        objective = self.objective
        require_memory(
            chains=len(members), dim=objective.dim, device=objective.device, vectors=settings.vectors,
            beside=objective.beside(len(members)),
        )  # fmt: skip
        self.sampler = build([one.run.sampler for one in members], objective)
        self.keys = _keys(members)
        self.replayed: Replayed | None = None  # the sampler as a recorded step, on a GPU
        states, traces = [], []
        for k, one in enumerate(members):
            if one.checkpoint is None:
                model = first_model(problem, one.train, seed=one.run.seed, chain=one.run.chain)
                weights = objective.layout.of(model)[None].to(how.device)
                states.append(self.sampler.init(weights))
            else:
                settings = one.run.sampler
                states.append(chain_state(one.checkpoint, settings, objective.layout, how.device))
                traces.append(one.checkpoint.trace)
            one.paid = _paid(one, how, keys=self.keys.select([k]))
        self.state = stacked(states)
        trace = Trace.start(first.steps(objective.n))
        self.trace = Trace.of(trace.every, traces) if traces and traces[0] else trace
        for one in members:
            if one.checkpoint is None:
                one.folder.begin(one.run, how, bytes_needed=20 * objective.dim + 1_000_000)
            else:
                made = [mark for mark in one.run.marks(objective.n) if mark <= one.step]
                one.folder.keep_rows(up_to_step=one.step, expected=made)
        if self.state.step == 0:
            self.save()

    def save(self) -> None:
        """Write every run's checkpoint."""
        for i, one in enumerate(self.members):
            run, keys, private = one.run, self.keys.select([i]), Values()
            if isinstance(keys, SecretKeys):
                private["noise_key"] = keys.secrets[0].hex()
            if one.paid and not isinstance(one.paid.books, NoLedger):
                receipt = one.paid.receipt and dict(one.paid.receipt)
                private["ledger"] = {"run": one.paid.run, "receipt": receipt}
            save_trained(
                one.folder.checkpoint, problem=run.problem, settings=run.sampler, objective=self.objective,
                hashes={"train": one.train.hash, "test": one.test.hash}, state=chain_of(self.state, i),
                seed=run.seed, chain=run.chain, run=to_dict(run), trace=self.trace.tensors(i),
                runtime=self.how.recorded(), plan=run.plan(self.objective.n), private=private,
            )  # fmt: skip

    def go(self) -> dict[Path, Values]:
        """Train to the end, recording on the way; by folder, the result.

        Raises:
            Diverged: a chain met a loss or a weight that is not finite.
            ValueError: the ledger does not count the steps of a chain.
        """
        first, n = self.members[0].run, self.objective.n
        steps, started = first.steps(n), time.monotonic()
        for mark in first.marks(n):
            if mark <= self.state.step:
                continue
            self._advance(mark, steps)
            rows = self._measure()
            for one, row in zip(self.members, rows, strict=True):
                row["seconds"] = round(time.monotonic() - started, 3)
                one.folder.append_row(row)
            self.save()  # after the rows: a crash between the two repeats them
            self.how.report(self.state.step, steps, rows[0])
        results: dict[Path, Values] = {}
        for one in self.members:
            final = one.folder.rows()[-1]
            result = {"format": "pacdp-result/1", "steps": steps, "n": n, "final": final}
            if not one.run.reproducible:
                result["private"] = PRIVATE
            results[one.folder.path] = one.folder.finish(result)
        return results

    def _advance(self, mark: int, steps: int) -> None:
        # large batches make long steps: a checkpoint waits for the end of a chunk
        own = self.members[0].run.sampler
        chunk = max(1, 500 // (own.gradients_per_step * max(1, own.batch_size // 1000)))
        replay = self.objective.device.type == "cuda" and self.objective.has_fixed_shapes(self.keys)
        if replay and self.replayed is None:
            self.replayed = Replayed(self.sampler, self.keys)
        saved = time.monotonic()
        while (step := self.state.step) < mark:
            stop = min(mark, (step // chunk + 1) * chunk)
            self._reserve(step + 1, stop)
            (part,) = run_chains(
                self.replayed or self.sampler, self.state, self.keys, until=stop, chunk=chunk, loss=self.objective.loss
            )  # fmt: skip
            # a replayed step overwrites its state, which must stand where this chunk ends
            self.state = copied(part.state) if replay else part.state
            self.trace = self.trace.extended(part)
            self.how.report(stop, steps, None)
            if stop < mark and time.monotonic() - saved > self.how.checkpoint_seconds:
                self.save()
                saved = time.monotonic()

    def _reserve(self, first: int, last: int) -> None:
        """Ask for leave to draw the noise of these steps; with it, what the runs take the place of is gone for good."""
        for paid in (one.paid for one in self.members if one.paid):
            for step in range(first, last + 1):
                paid.before(step)
        for one in self.members:
            let_go(one.folder.path)

    def _measure(self) -> list[Values]:
        """A row a run: risks of the weights, of the Gibbs classifier, and the bounds."""
        runs, weights, step = [one.run for one in self.members], self.state.weights, self.state.step
        try:
            risks = [
                [of.select([k]).risks(weights[k : k + 1])[0] for of in (self.objective, self.test)]
                for k in range(len(runs))
            ]
        except ValueError as error:
            raise Diverged(step, f"the training run ({error}); it") from error
        laws = [run.sampler.posterior(own) for run, own in zip(runs, weights, strict=True)]
        local = [law for law in laws if isinstance(law, LocalGibbs)]
        gibbs: Sequence[GibbsEstimate | None] = [None] * len(runs)
        if local:
            # its randomness is its own, not the chains'
            seeds = [derived_seed(run.seed, 1, step) for run in runs]
            keys, train = Keys.derive(seeds, [r.chain for r in runs]), self.objective.unclipped()
            try:
                gibbs = estimate_gibbs(local, train, self.test, runs[0].track, keys)
            except (ValueError, Diverged) as error:
                if runs[1:] or not runs[0].promising:  # a private chain goes on: no record ends it
                    raise Diverged(step, f"the Gibbs classifier ({error}); it") from error
        found = zip(runs, risks, gibbs, strict=True)
        return [self._row(run, train, test, own) for run, (train, test), own in found]

    def _row(self, run: Run, train: Risks, test: Risks, gibbs: GibbsEstimate | None) -> Values:
        objective, step = self.objective, self.state.step
        gradients = step * run.sampler.gradients_per_step
        row: Values = {
            "step": step, "epochs": gradients * run.sampler.batch_size / objective.n,
            "train_loss": train.loss, "train_error": train.error, "test_error": test.error, "n_test": test.n,
        }  # fmt: skip
        plan = run.plan(objective.n)
        privacy = privacy_of(run.sampler, oscillation=objective.loss.oscillation, n=objective.n, step=step,
                             plan=plan)  # fmt: skip
        if gibbs:
            row |= {"gibbs_train_error": gibbs.error, "gibbs_test_error": gibbs.test_error,
                    "kl_nats": gibbs.kl_nats, "kl_raw_nats": gibbs.kl_raw_nats}  # fmt: skip
        share = run.failure_prob
        if isinstance(privacy, bounds.PureDP):
            row["epsilon"] = privacy.epsilon
        else:
            share /= plan.charged(step).stopping_times
        # certificates count examples, whoever gave them
        if not isinstance(privacy, NoPrivacy) and objective.people is None:
            made = chain_certificates(objective, privacy, train, gibbs, share)
            row["bounds"] = {c.name: c.value for c in made if isinstance(c, bounds.Certificate)}
        return row


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


def derived_seed(*numbers: int) -> int:
    """A 63-bit seed from some numbers, independent for different numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
