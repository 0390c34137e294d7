"""Carrying out a run: train, record, checkpoint, resume."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import bounds
from experiments.config import Run, Runtime
from experiments.folder import Folder, provenance, read_json, require_space, write_json
from pacdp import CheckpointError, chain, load_trained
from pacdp.certify import gibbs_certificates, weights_certificates
from pacdp.data import Progress
from pacdp.gibbs import GibbsEstimate, estimate_gibbs
from pacdp.objective import Objective
from pacdp.samplers import EntropySGD, build
from pacdp.trained import local_gibbs, objectives, privacy_of, save_trained

Report = Callable[[int, int, dict[str, Any] | None], None]
"""Called as report(step, steps, row): the row is None between records."""


def train(
    run: Run,
    out: Path,
    runtime: Runtime,
    *,
    resume: bool = False,
    force: bool = False,
    report: Report | None = None,
    progressbar: bool | Progress = False,
) -> dict[str, Any]:
    """Carry out ``run`` in folder ``out`` and return its result, as written to ``result.json``.

    Killed at any moment, it leaves a folder that ``resume`` takes up where the last checkpoint stands, with weights
    identical to an uninterrupted run. ``progressbar`` is shown a download, should the data need one.

    Raises:
        ValueError: the folder holds a finished run, or an unfinished one and neither ``resume`` nor ``force`` is set,
            or an unfinished one of another configuration; or another process is at work in it.
        Diverged: a loss or a weight is not finite; the last good checkpoint is kept.
    """
    folder = Folder(out)
    with folder.lock():
        if not force:
            _require_free(folder, run, resume=resume)
        if runtime.threads:
            torch.set_num_threads(runtime.threads)
        trainer = _Trainer(run, folder, runtime)
        if folder.checkpoint.is_file() and not force:
            trainer.resume()
        else:
            trainer.start(progressbar)
        return trainer.go(report or (lambda step, steps, row: None))


def _require_free(folder: Folder, run: Run, *, resume: bool) -> None:
    if folder.finished:
        raise ValueError(f"{folder.path} holds a finished run: choose another --out, or overwrite it with --force")
    if folder.started and not resume:
        raise ValueError(
            f"{folder.path} holds an unfinished run: continue it with --resume, or overwrite it with --force"
        )
    if folder.started and Run.from_dict(read_json(folder.config)) != run:
        raise ValueError(f"{folder.path} holds a run of another configuration: choose another --out, or --force")


class _Trainer:
    """The state of a run in this process."""

    def __init__(self, run: Run, folder: Folder, runtime: Runtime) -> None:
        self.run, self.folder, self.runtime = run, folder, runtime

    def resume(self) -> None:
        """Stand at the folder's checkpoint."""
        trained = load_trained(self.folder.checkpoint, data_root=self.runtime.data_root, device=self.runtime.device)
        if trained.checkpoint.header["device"] != torch.device(self.runtime.device).type:
            raise CheckpointError(
                f"{self.folder.path} was trained on {trained.checkpoint.header['device']}: resume there, "
                "another kind of device draws other numbers"
            )
        self.objective, self.test = trained.objective, trained.test
        self.state, self.generator = trained.state, trained.generator
        self.hashes = trained.checkpoint.header["data"]
        self.sampler = build(self.run.sampler, self.objective)
        self.folder.keep_rows(up_to_step=self.state.step)

    def start(self, progressbar: bool | Progress) -> None:
        """Load data, build the network, and stand at step 0; only then does an earlier run in the folder go."""
        run, runtime, folder = self.run, self.runtime, self.folder
        train_data, test_data = run.problem.data(root=runtime.data_root, progressbar=progressbar)
        self.hashes = {"train": train_data.hash, "test": test_data.hash}
        self.objective, self.test = objectives(
            run.problem, run.sampler, train_data, test_data, seed=run.seed, device=runtime.device
        )
        self.sampler = build(run.sampler, self.objective)
        self.state = self.sampler.init(self.objective.weights())
        self.generator = torch.Generator(runtime.device).manual_seed(derived_seed(run.seed, 0))
        require_space(folder.path, bytes_needed=20 * self.objective.dim + 1_000_000)
        folder.clear()
        write_json(folder.provenance, provenance(device=runtime.device, seed=run.seed))
        write_json(folder.config, run.to_dict())
        folder.keep_rows(up_to_step=-1)
        self.save()

    def save(self) -> None:
        """Write the checkpoint."""
        save_trained(self.folder.checkpoint, problem=self.run.problem, settings=self.run.sampler,
                     objective=self.objective, hashes=self.hashes, state=self.state, generator=self.generator,
                     run=self.run.to_dict())  # fmt: skip

    def go(self, report: Report) -> dict[str, Any]:
        """Train to the end, recording on the way."""
        run, folder = self.run, self.folder
        steps = run.steps(self.objective.n)
        marks = sorted({round(k * steps / run.records) for k in range(1, run.records + 1)} - {0})
        chunk = max(1, 500 // run.sampler.gradients_per_step)
        started = saved = time.monotonic()
        for mark in marks:
            if mark <= self.state.step:
                continue
            for part in chain.run(
                self.sampler, self.state, self.generator, until=mark, chunk=chunk, loss=self.objective.loss
            ):
                self.state = part.state
                report(self.state.step, steps, None)
                if time.monotonic() - saved > self.runtime.checkpoint_seconds and self.state.step < mark:
                    self.save()
                    saved = time.monotonic()
            try:
                measured = self.measure()
            except ValueError as error:
                raise ValueError(
                    f"step {self.state.step}: {error}; the checkpoint before that step is intact"
                ) from error
            row = {**measured, "seconds": round(time.monotonic() - started, 3)}
            folder.append_row(row)  # before the checkpoint: a crash between the two repeats the row, never loses it
            self.save()
            saved = time.monotonic()
            report(self.state.step, steps, row)
        result = {"format": "pacdp-result/1", "steps": steps, "n": self.objective.n, "final": folder.rows()[-1]}
        write_json(folder.result, result)
        return result

    def measure(self) -> dict[str, Any]:
        """One row: risks of the weights, of the Gibbs classifier, and the bounds."""
        run, objective = self.run, self.objective
        train, test = objective.risks(self.state.weights), self.test.risks(self.state.weights)
        gradients = self.state.step * run.sampler.gradients_per_step
        row: dict[str, Any] = {
            "step": self.state.step, "epochs": gradients * run.sampler.batch_size / objective.n,
            "train_loss": train.loss, "train_error": train.error, "test_error": test.error, "n_test": test.n,
        }  # fmt: skip
        privacy = privacy_of(run.sampler, oscillation=objective.loss.oscillation, n=objective.n)
        gibbs = None
        if isinstance(run.sampler, EntropySGD):
            gibbs = self.gibbs(run.sampler, objective)
            row |= {"gibbs_train_error": gibbs.error, "gibbs_test_error": gibbs.test_error,
                    "kl_nats": gibbs.kl_nats, "kl_raw_nats": gibbs.kl_raw_nats}  # fmt: skip
        if isinstance(privacy, bounds.PureDP):
            found = weights_certificates(train, privacy=privacy, failure_prob=run.failure_prob)
            if gibbs:
                found += gibbs_certificates(
                    gibbs, n=objective.n, loss=objective.loss, privacy=privacy, failure_prob=run.failure_prob
                )
            row |= {"epsilon": privacy.epsilon, "bounds": {c.name: c.value for c in found}}
        return row

    def gibbs(self, settings: EntropySGD, objective: Objective) -> GibbsEstimate:
        """The Gibbs classifier at the present weights; its randomness is its own, not the chain's."""
        posterior = local_gibbs(settings, self.state.weights)
        generator = torch.Generator(self.runtime.device)
        generator.manual_seed(derived_seed(self.run.seed, 1, self.state.step))
        return estimate_gibbs(posterior, objective, self.test, self.run.track, generator)


def derived_seed(*numbers: int) -> int:
    """A 63-bit seed from some numbers, independent for different numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> np.uint64(1))
