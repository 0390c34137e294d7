"""Some runs as one batch of chains in this process, each with its own folder."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
from pacdp.cli.config import Run, Runtime
from pacdp.cli.ensemble import Ensemble
from pacdp.cli.folder import Folder, provenance, require_space, write_json
from pacdp.cli.private import PRIVATE
from pacdp.cli.serial import to_dict
from pacdp.errors import Diverged
from pacdp.objective import Objective, Risks
from pacdp.posterior import LocalGibbs, Point
from pacdp.step.paid import Paid
from pacdp.store.reservation import NoLedger

Report = Callable[[int, int, dict[str, Any] | None], None]
"""Called as report(step, steps, row): the row, of the batch's first run, is None between records."""


class _NotGranted(Exception):
    """Chains of a batch whose steps the ledger did not count, with its refusals: nothing of the steps was drawn."""

    def __init__(self, chains: Mapping[int, Exception]) -> None:
        self.chains = chains


@dataclass(slots=True, kw_only=True)
class Batch:
    """Runs of one kind at one step."""

    runs: list[Run]
    folders: list[Folder]
    hashes: list[dict[str, str]]
    """Of each run's training and test data."""
    paid: list[Paid | None]
    """For each run, leave to draw its steps' noise; None for one that promises nothing."""
    runtime: Runtime
    objective: Objective
    test: Objective
    sampler: Sampler
    state: Any
    keys: Keys
    trace: Trace
    replayed: Replayed | None = None
    """The sampler as a recorded step, on a GPU; recorded once for all records of the runs."""
    ensembles: list[Ensemble] = field(default_factory=list)
    """One a run, where the runs take snapshots."""

    def prepare(self, *, fresh: Sequence[bool]) -> None:
        """Write the first files of fresh runs; drop from the others what lies beyond their checkpoints."""
        for i, (run, folder) in enumerate(zip(self.runs, self.folders, strict=True)):
            if not fresh[i]:
                made = [mark for mark in run.marks(self.objective.n) if mark <= self.state.step]
                folder.keep_rows(up_to_step=self.state.step, expected=made)
                continue
            require_space(folder.path, bytes_needed=20 * self.objective.dim + 1_000_000)
            folder.clear()
            made_by = provenance(device=self.runtime.device, seed=run.seed)
            write_json(folder.provenance, made_by | {"runtime": self.runtime.recorded()})
            write_json(folder.config, to_dict(run))
            folder.keep_rows(up_to_step=-1)
        thinning = self.runs[0].thinning(self.runs[0].steps(self.objective.n))
        if thinning:
            self.ensembles = [
                Ensemble(folder.snapshots, thinning, self.objective.select([i]), self.test.select([i]),
                         step=self.state.step)
                for i, folder in enumerate(self.folders)
            ]  # fmt: skip
        for i in range(len(self.runs)):
            if fresh[i]:
                self.save(i)

    def save(self, chain: int) -> None:
        """Write one run's checkpoint."""
        run = self.runs[chain]
        save_trained(
            self.folders[chain].checkpoint, problem=run.problem, settings=run.sampler, objective=self.objective,
            hashes=self.hashes[chain], state=chain_of(self.state, chain), seed=run.seed, chain=run.chain,
            run=to_dict(run), trace=self.trace.tensors(chain), runtime=self.runtime.recorded(),
            plan=run.plan(self.objective.n), private=self._kept(chain),
        )  # fmt: skip

    def _kept(self, chain: int) -> dict[str, Any]:
        """What a private run keeps for itself: the key of its noise, and where its steps are counted."""
        paid, keys = self.paid[chain], self.keys.select([chain])
        key = {"noise_key": keys.secrets[0].hex()} if isinstance(keys, SecretKeys) else {}
        if paid is None or isinstance(paid.books, NoLedger):
            return key
        return {**key, "ledger": {"run": paid.run, "receipt": paid.receipt and dict(paid.receipt)}}

    def go(self, report: Report) -> dict[Path, dict[str, Any] | Exception]:
        """Train to the end, recording on the way; by folder, the result or what ended the run."""
        steps = self.runs[0].steps(self.objective.n)
        outcomes: dict[Path, dict[str, Any] | Exception] = {}
        started = time.monotonic()
        for mark in self.runs[0].marks(self.objective.n):
            if mark <= self.state.step:
                continue
            rows: list[dict[str, Any]] = []
            while self.runs and not rows:
                try:
                    self._advance(mark, steps, report)
                    rows = self._measure()
                except Diverged as error:
                    outcomes |= self._drop(dict.fromkeys(error.chains, error))
                except _NotGranted as error:
                    outcomes |= self._drop(error.chains)
            for i, row in enumerate(rows):
                row["seconds"] = round(time.monotonic() - started, 3)
                self.folders[i].append_row(
                    row
                )  # before the checkpoint: a crash between the two repeats the row
                self.save(i)
            if rows:
                report(self.state.step, steps, rows[0])
        for i, folder in enumerate(self.folders):
            result = {
                "format": "pacdp-result/1",
                "steps": steps,
                "n": self.objective.n,
                "final": folder.rows()[-1],
            }
            result["rests_on"] = folder.content_hashes()
            if not self.runs[i].reproducible:
                result["private"] = PRIVATE
            if self.ensembles:
                result["ensemble"] = self.ensembles[i].summary()
            write_json(folder.result, result)
            outcomes[folder.path] = result
        return outcomes

    def _advance(self, mark: int, steps: int, report: Report) -> None:
        own = self.runs[
            0
        ].sampler  # large batches make long steps: a checkpoint waits for the end of a chunk
        chunk = max(1, 500 // (own.gradients_per_step * max(1, own.batch_size // 1000)))
        replay = self.objective.device.type == "cuda" and self.objective.has_fixed_shapes(self.keys)
        if replay and self.replayed is None:
            self.replayed = Replayed(self.sampler, self.keys)
        sampler = self.replayed or self.sampler
        saved = time.monotonic()
        while self.state.step < mark:
            step = self.state.step
            stop = min(
                mark,
                (step // chunk + 1) * chunk,
                *(e.next_after(step) or mark for e in self.ensembles),
            )
            self._reserve(step + 1, stop)
            (part,) = run_chains(
                sampler, self.state, self.keys, until=stop, chunk=chunk, loss=self.objective.loss
            )
            # a replayed step overwrites its state, which must stand where this chunk ends
            self.state = copied(part.state) if replay else part.state
            self.trace = self.trace.extended(part)
            for ensemble, weights in zip(self.ensembles, self.state.weights, strict=False):
                ensemble.see(self.state.step, weights)
            report(self.state.step, steps, None)
            if (
                time.monotonic() - saved > self.runtime.checkpoint_seconds
                and self.state.step < mark
            ):
                for i in range(len(self.runs)):
                    self.save(i)
                saved = time.monotonic()

    def _reserve(self, first: int, last: int) -> None:
        """Ask for leave to draw the noise of these steps, run by run."""
        refused: dict[int, Exception] = {}
        for i, paid in enumerate(self.paid):
            try:
                for step in range(first, last + 1):
                    if paid is not None:
                        paid.before(step)
            except ValueError as error:
                refused[i] = error
        if refused:
            raise _NotGranted(refused)

    def _drop(self, errors: Mapping[int, Exception]) -> dict[Path, Exception]:
        """Go on without the chains that had these errors, from where all were well."""
        kept = [i for i in range(len(self.runs)) if i not in errors]
        ended: dict[Path, Exception] = {self.folders[i].path: error for i, error in errors.items()}
        self.runs = [self.runs[i] for i in kept]
        self.folders = [self.folders[i] for i in kept]
        self.hashes = [self.hashes[i] for i in kept]
        self.paid = [self.paid[i] for i in kept]
        for paid in self.paid:
            if paid is not None:
                paid.again()
        self.ensembles = [self.ensembles[i] for i in kept] if self.ensembles else []
        if kept:
            self.objective, self.test = self.objective.select(kept), self.test.select(kept)
            self.state, self.keys = selected(self.state, kept), self.keys.select(kept)
            self.trace = self.trace.select(kept)
            self.sampler = build([run.sampler for run in self.runs], self.objective)
            self.replayed = None
        return ended

    def _measure(self) -> list[dict[str, Any]]:
        """A row a run: risks of the weights, of the Gibbs classifier, and the bounds."""
        everyone = range(len(self.runs))
        risks = [(self._risks(self.objective, k), self._risks(self.test, k)) for k in everyone]
        gibbs: Sequence[GibbsEstimate | None] = [None] * len(self.runs)
        if all(isinstance(self._law(k), LocalGibbs) for k in everyone):
            try:
                gibbs = self._gibbs(everyone)
            except (ValueError, Diverged) as error:
                gibbs = [self._gibbs_of_one(k) for k in everyone]
                concerned = tuple(k for k in everyone if gibbs[k] is None)
                if not all(
                    run.promising for run in self.runs
                ):  # a private chain goes on: no record may end it
                    if isinstance(error, Diverged) or not concerned:
                        raise
                    raise Diverged(
                        self.state.step, f"the Gibbs classifier ({error}); it", chains=concerned
                    ) from error
        return [
            self._row(run, *pair, own)
            for run, pair, own in zip(self.runs, risks, gibbs, strict=True)
        ]

    def _gibbs(self, chains: Sequence[int]) -> list[GibbsEstimate]:
        """What is recorded of the Gibbs classifiers, whose randomness is their own, not the chains'."""
        runs = [self.runs[k] for k in chains]
        keys = Keys.derive(
            [derived_seed(run.seed, 1, self.state.step) for run in runs],
            [run.chain for run in runs],
        )
        posteriors = [law for law in map(self._law, chains) if isinstance(law, LocalGibbs)]
        return estimate_gibbs(
            posteriors,
            self.objective.select(chains).unclipped(),
            self.test.select(chains),
            runs[0].track,
            keys,
        )

    def _law(self, chain: int) -> LocalGibbs | Point:
        return self.runs[chain].sampler.posterior(self.state.weights[chain])

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

    def _row(
        self, run: Run, train: Risks, test: Risks, gibbs: GibbsEstimate | None
    ) -> dict[str, Any]:
        objective = self.objective
        gradients = self.state.step * run.sampler.gradients_per_step
        row: dict[str, Any] = {
            "step": self.state.step, "epochs": gradients * run.sampler.batch_size / objective.n,
            "train_loss": train.loss, "train_error": train.error, "test_error": test.error, "n_test": test.n,
        }  # fmt: skip
        plan = run.plan(objective.n)
        privacy = privacy_of(run.sampler, oscillation=objective.loss.oscillation, n=objective.n, step=self.state.step,
                             plan=plan)  # fmt: skip
        if gibbs:
            row |= {"gibbs_train_error": gibbs.error, "gibbs_test_error": gibbs.test_error,
                    "kl_nats": gibbs.kl_nats, "kl_raw_nats": gibbs.kl_raw_nats}  # fmt: skip
        if isinstance(privacy, bounds.PureDP):
            found = weights_certificates(train, privacy=privacy, failure_prob=run.failure_prob)
            if gibbs:
                found += gibbs_certificates(
                    gibbs,
                    n=objective.n,
                    loss=objective.loss,
                    privacy=privacy,
                    failure_prob=run.failure_prob,
                )
            row |= {"epsilon": privacy.epsilon, "bounds": {c.name: c.value for c in found}}
        elif not isinstance(privacy, NoPrivacy):
            share = run.failure_prob / plan.charged(self.state.step).stopping_times
            one = released_weights_certificate(train, privacy=privacy, failure_prob=share)
            row |= {"bounds": {one.name: one.value}}
        return row


def derived_seed(*numbers: int) -> int:
    """A 63-bit seed from some numbers, independent for different numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
