"""Some runs as one batch of chains in this process, each with its own folder."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import bounds
from pacdp.algorithms import Sampler, build, chain_of, copied, selected
from pacdp.certify import NoPrivacy
from pacdp.certify.chain import (
    gibbs_certificates,
    released_weights_certificate,
    weights_certificates,
)
from pacdp.certify.chain_files import save_trained
from pacdp.certify.gibbs import GibbsEstimate, estimate_gibbs
from pacdp.certify.trained import privacy_of
from pacdp.chains import Keys, Replayed, SecretKeys, Trace, run_chains
from pacdp.cli.config import Run
from pacdp.cli.ensemble import Ensemble
from pacdp.cli.folder import PRIVATE, Folder
from pacdp.cli.runtime import Training
from pacdp.cli.serial import Values, to_dict
from pacdp.data import Dataset
from pacdp.errors import Diverged
from pacdp.objective import Objective, Risks
from pacdp.posterior import LocalGibbs, Point
from pacdp.step.paid import Paid
from pacdp.store.checkpoint import Checkpoint
from pacdp.store.reservation import NoLedger


class _NotGranted(Exception):
    """Chains of a batch whose steps the ledger did not count, with its refusals: nothing of the steps was drawn."""


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
    ensemble: Ensemble | None = None
    """Where it takes snapshots."""

    @property
    def step(self) -> int:
        """Where it stands when it begins or goes on."""
        return 0 if self.checkpoint is None else int(self.checkpoint.header["step"])


@dataclass(slots=True, kw_only=True)
class Batch:
    """Runs of one kind at one step."""

    members: list[Member]
    how: Training
    objective: Objective
    test: Objective
    sampler: Sampler
    state: Any
    keys: Keys
    trace: Trace
    replayed: Replayed | None = None
    """The sampler as a recorded step, on a GPU; recorded once for all records of the runs."""

    def prepare(self) -> None:
        """Write the first files of fresh runs; drop from the others what lies beyond their checkpoints."""
        n, step = self.objective.n, self.state.step
        snapshots = self.members[0].run.snapshot_steps(n)
        for i, one in enumerate(self.members):
            if one.checkpoint is None:
                size = 20 * self.objective.dim + 1_000_000
                one.folder.begin(one.run, self.how, bytes_needed=size)
            else:
                made = [mark for mark in one.run.marks(n) if mark <= step]
                one.folder.keep_rows(up_to_step=step, expected=made)
            if snapshots:
                test = self.test.select([i])
                one.ensemble = Ensemble(one.folder.snapshots, snapshots, test, step=step)
            if one.checkpoint is None:
                self.save(i)

    def save(self, chain: int) -> None:
        """Write one run's checkpoint."""
        one = self.members[chain]
        save_trained(
            one.folder.checkpoint, problem=one.run.problem, settings=one.run.sampler, objective=self.objective,
            hashes={"train": one.train.hash, "test": one.test.hash}, state=chain_of(self.state, chain),
            seed=one.run.seed, chain=one.run.chain, run=to_dict(one.run), trace=self.trace.tensors(chain),
            runtime=self.how.recorded(), plan=one.run.plan(self.objective.n), private=self._kept(chain),
        )  # fmt: skip

    def _kept(self, chain: int) -> Values:
        """What a private run keeps for itself: the key of its noise, and where its steps are counted."""
        paid, keys = self.members[chain].paid, self.keys.select([chain])
        key = {"noise_key": keys.secrets[0].hex()} if isinstance(keys, SecretKeys) else {}
        if paid is None or isinstance(paid.books, NoLedger):
            return key
        return {**key, "ledger": {"run": paid.run, "receipt": paid.receipt and dict(paid.receipt)}}

    def go(self) -> dict[Path, Values | Exception]:
        """Train to the end, recording on the way; by folder, the result or what ended the run."""
        first, n = self.members[0].run, self.objective.n
        steps, started = first.steps(n), time.monotonic()
        outcomes: dict[Path, Values | Exception] = {}
        for mark in first.marks(n):
            if mark <= self.state.step:
                continue
            rows: list[Values] = []
            while self.members and not rows:
                try:
                    self._advance(mark, steps)
                    rows = self._measure()
                except Diverged as error:
                    outcomes |= self._drop(dict.fromkeys(error.chains, error))
                except _NotGranted as error:
                    outcomes |= self._drop(error.args[0])
            for i, row in enumerate(rows):
                row["seconds"] = round(time.monotonic() - started, 3)
                # before the checkpoint: a crash between the two repeats the row
                self.members[i].folder.append_row(row)
                self.save(i)
            if rows:
                self.how.report(self.state.step, steps, rows[0])
        for one in self.members:
            final = one.folder.rows()[-1]
            result = {"format": "pacdp-result/1", "steps": steps, "n": n, "final": final}
            if not one.run.reproducible:
                result["private"] = PRIVATE
            if one.ensemble:
                result["ensemble"] = one.ensemble.summary()
            outcomes[one.folder.path] = one.folder.finish(result)
        return outcomes

    def _advance(self, mark: int, steps: int) -> None:
        # large batches make long steps: a checkpoint waits for the end of a chunk
        own = self.members[0].run.sampler
        chunk = max(1, 500 // (own.gradients_per_step * max(1, own.batch_size // 1000)))
        replay = self.objective.device.type == "cuda" and self.objective.has_fixed_shapes(self.keys)
        if replay and self.replayed is None:
            self.replayed = Replayed(self.sampler, self.keys)
        sampler = self.replayed or self.sampler
        saved = time.monotonic()
        while self.state.step < mark:
            step = self.state.step
            ensembles = [one.ensemble for one in self.members if one.ensemble]
            snapshots = (each.next_after(step) or mark for each in ensembles)
            stop = min(mark, (step // chunk + 1) * chunk, *snapshots)
            self._reserve(step + 1, stop)
            (part,) = run_chains(
                sampler, self.state, self.keys, until=stop, chunk=chunk, loss=self.objective.loss
            )
            # a replayed step overwrites its state, which must stand where this chunk ends
            self.state = copied(part.state) if replay else part.state
            self.trace = self.trace.extended(part)
            for ensemble, weights in zip(ensembles, self.state.weights, strict=False):
                ensemble.see(self.state.step, weights)
            self.how.report(self.state.step, steps, None)
            late = time.monotonic() - saved > self.how.checkpoint_seconds
            if late and self.state.step < mark:
                for i in range(len(self.members)):
                    self.save(i)
                saved = time.monotonic()

    def _reserve(self, first: int, last: int) -> None:
        """Ask for leave to draw the noise of these steps, run by run."""
        refused: dict[int, Exception] = {}
        for i, one in enumerate(self.members):
            try:
                for step in range(first, last + 1):
                    if one.paid is not None:
                        one.paid.before(step)
            except ValueError as error:
                refused[i] = error
        if refused:
            raise _NotGranted(refused)

    def _drop(self, errors: Mapping[int, Exception]) -> dict[Path, Exception]:
        """Go on without the chains that had these errors, from where all were well."""
        kept = [i for i in range(len(self.members)) if i not in errors]
        ended = {self.members[i].folder.path: error for i, error in errors.items()}
        self.members = [self.members[i] for i in kept]
        for one in self.members:
            if one.paid is not None:
                one.paid.again()
        if kept:
            self.objective, self.test = self.objective.select(kept), self.test.select(kept)
            self.state, self.keys = selected(self.state, kept), self.keys.select(kept)
            self.trace = self.trace.select(kept)
            self.sampler = build([one.run.sampler for one in self.members], self.objective)
            self.replayed = None
        return ended

    def _measure(self) -> list[Values]:
        """A row a run: risks of the weights, of the Gibbs classifier, and the bounds."""
        runs = [one.run for one in self.members]
        everyone = range(len(runs))
        risks = [(self._risks(self.objective, k), self._risks(self.test, k)) for k in everyone]
        gibbs: Sequence[GibbsEstimate | None] = [None] * len(runs)
        if all(isinstance(self._law(k), LocalGibbs) for k in everyone):
            try:
                gibbs = self._gibbs(everyone)
            except (ValueError, Diverged) as error:
                gibbs = [self._gibbs_of_one(k) for k in everyone]
                lost = tuple(k for k in everyone if gibbs[k] is None)
                # a private chain goes on: no record may end it
                if not all(run.promising for run in runs):
                    if isinstance(error, Diverged) or not lost:
                        raise
                    what = f"the Gibbs classifier ({error}); it"
                    raise Diverged(self.state.step, what, chains=lost) from error
        return [
            self._row(run, *pair, own) for run, pair, own in zip(runs, risks, gibbs, strict=True)
        ]

    def _gibbs(self, chains: Sequence[int]) -> list[GibbsEstimate]:
        """What is recorded of the Gibbs classifiers, whose randomness is their own, not the chains'."""
        runs = [self.members[k].run for k in chains]
        seeds = [derived_seed(run.seed, 1, self.state.step) for run in runs]
        keys = Keys.derive(seeds, [run.chain for run in runs])
        laws = [law for law in map(self._law, chains) if isinstance(law, LocalGibbs)]
        train, test = self.objective.select(chains).unclipped(), self.test.select(chains)
        return estimate_gibbs(laws, train, test, runs[0].track, keys)

    def _law(self, chain: int) -> LocalGibbs | Point:
        return self.members[chain].run.sampler.posterior(self.state.weights[chain])

    def _gibbs_of_one(self, chain: int) -> GibbsEstimate | None:
        """None where there is none, whatever the reason."""
        try:
            return self._gibbs([chain])[0]
        except (ValueError, Diverged):
            return None

    def _risks(self, objective: Objective, chain: int) -> Risks:
        try:
            return objective.select([chain]).risks(self.state.weights[chain : chain + 1])[0]
        except ValueError as error:
            raise Diverged(
                self.state.step, f"the training run ({error}); it", chains=(chain,)
            ) from error

    def _row(self, run: Run, train: Risks, test: Risks, gibbs: GibbsEstimate | None) -> Values:
        objective = self.objective
        gradients = self.state.step * run.sampler.gradients_per_step
        row: Values = {
            "step": self.state.step, "epochs": gradients * run.sampler.batch_size / objective.n,
            "train_loss": train.loss, "train_error": train.error, "test_error": test.error, "n_test": test.n,
        }  # fmt: skip
        plan = run.plan(objective.n)
        privacy = privacy_of(run.sampler, oscillation=objective.loss.oscillation, n=objective.n, step=self.state.step,
                             plan=plan)  # fmt: skip
        if gibbs:
            row |= {"gibbs_train_error": gibbs.error, "gibbs_test_error": gibbs.test_error,
                    "kl_nats": gibbs.kl_nats, "kl_raw_nats": gibbs.kl_raw_nats}  # fmt: skip
        how: Values = {"privacy": privacy, "failure_prob": run.failure_prob}
        if isinstance(privacy, bounds.PureDP):
            found = weights_certificates(train, **how)
            if gibbs:
                found += gibbs_certificates(gibbs, n=objective.n, loss=objective.loss, **how)
            row |= {"epsilon": privacy.epsilon, "bounds": {c.name: c.value for c in found}}
        elif not isinstance(privacy, NoPrivacy):
            share = run.failure_prob / plan.charged(self.state.step).stopping_times
            one = released_weights_certificate(train, privacy=privacy, failure_prob=share)
            row |= {"bounds": {one.name: one.value}}
        return row


def derived_seed(*numbers: int) -> int:
    """A 63-bit seed from some numbers, independent for different numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
