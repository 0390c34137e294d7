"""Some runs as one batch of chains in this process, each with its own folder.

A fresh run writes provenance.json, config.json and its first checkpoint. At each mark it adds a row to metrics.jsonl
and then replaces the checkpoint; between marks it replaces the checkpoint alone, and result.json comes last. A run that
was killed goes on from its checkpoint (:mod:`pacdp.cli.run`), and rows beyond that are dropped.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import bounds
from pacdp.algorithms import Sampler, chain_of, copied
from pacdp.certify import NoPrivacy
from pacdp.certify.chain import chain_certificates
from pacdp.certify.chain_files import save_trained
from pacdp.certify.gibbs import GibbsEstimate, estimate_gibbs
from pacdp.certify.trained import privacy_of
from pacdp.chains import Keys, Replayed, SecretKeys, Trace, run_chains
from pacdp.cli.config import Run
from pacdp.cli.folder import PRIVATE, Folder
from pacdp.cli.runtime import Training
from pacdp.cli.serial import Values, to_dict
from pacdp.data import Dataset
from pacdp.errors import Diverged
from pacdp.objective import Objective, Risks
from pacdp.posterior import LocalGibbs
from pacdp.step.paid import Paid
from pacdp.store.checkpoint import Checkpoint
from pacdp.store.reservation import NoLedger


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
        for one in self.members:
            if one.checkpoint is None:
                size = 20 * self.objective.dim + 1_000_000
                one.folder.begin(one.run, self.how, bytes_needed=size)
            else:
                made = [mark for mark in one.run.marks(n) if mark <= step]
                one.folder.keep_rows(up_to_step=step, expected=made)
        if step == 0:
            self.save()

    def save(self) -> None:
        """Write every run's checkpoint."""
        for i, one in enumerate(self.members):
            save_trained(
                one.folder.checkpoint, problem=one.run.problem, settings=one.run.sampler, objective=self.objective,
                hashes={"train": one.train.hash, "test": one.test.hash}, state=chain_of(self.state, i),
                seed=one.run.seed, chain=one.run.chain, run=to_dict(one.run), trace=self.trace.tensors(i),
                runtime=self.how.recorded(), plan=one.run.plan(self.objective.n),
                private=_kept(one.paid, self.keys.select([i])),
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
        """Ask for leave to draw the noise of these steps."""
        for paid in (one.paid for one in self.members if one.paid):
            for step in range(first, last + 1):
                paid.before(step)

    def _measure(self) -> list[Values]:
        """A row a run: risks of the weights, of the Gibbs classifier, and the bounds."""
        runs, weights = [one.run for one in self.members], self.state.weights
        try:
            risks = [
                [of.select([k]).risks(weights[k : k + 1])[0] for of in (self.objective, self.test)]
                for k in range(len(runs))
            ]
        except ValueError as error:
            raise self._ended("the training run", error) from error
        laws = [run.sampler.posterior(own) for run, own in zip(runs, weights, strict=True)]
        local = [law for law in laws if isinstance(law, LocalGibbs)]
        gibbs: Sequence[GibbsEstimate | None] = [None] * len(runs)
        if local:
            # its randomness is its own, not the chains'
            seeds = [derived_seed(run.seed, 1, self.state.step) for run in runs]
            keys, train = (
                Keys.derive(seeds, [run.chain for run in runs]),
                self.objective.unclipped(),
            )
            try:
                gibbs = estimate_gibbs(local, train, self.test, runs[0].track, keys)
            except (ValueError, Diverged) as error:
                if runs[1:] or not runs[0].promising:  # a private chain goes on: no record ends it
                    raise self._ended("the Gibbs classifier", error) from error
        found = zip(runs, risks, gibbs, strict=True)
        return [self._row(run, train, test, own) for run, (train, test), own in found]

    def _ended(self, what: str, error: Exception) -> Exception:
        """What ends a chain of which this is not finite."""
        return Diverged(self.state.step, f"{what} ({error}); it")

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
        share = run.failure_prob
        if isinstance(privacy, bounds.PureDP):
            row["epsilon"] = privacy.epsilon
        else:
            share /= plan.charged(self.state.step).stopping_times
        made = chain_certificates(objective, privacy, train, gibbs, share)
        if not isinstance(privacy, NoPrivacy):
            row["bounds"] = {c.name: c.value for c in made if isinstance(c, bounds.Certificate)}
        return row


def _kept(paid: Paid | None, keys: Keys) -> Values:
    """What a private run keeps for itself: the key of its noise, and where its steps are counted."""
    kept: Values = {"noise_key": keys.secrets[0].hex()} if isinstance(keys, SecretKeys) else {}
    if paid is not None and not isinstance(paid.books, NoLedger):
        kept["ledger"] = {"run": paid.run, "receipt": paid.receipt and dict(paid.receipt)}
    return kept


def derived_seed(*numbers: int) -> int:
    """A 63-bit seed from some numbers, independent for different numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
