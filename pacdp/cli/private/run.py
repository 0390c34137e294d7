"""Carrying out a private run: train within the budget, judge on test data, leave a folder like any other run's."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from bounds.accounting import event_to_dict
from pacdp import load_checkpoint, loop
from pacdp.calibration import reliability_curve, summary
from pacdp.cli.config import Runtime
from pacdp.cli.folder import Folder, provenance, require_space, write_json
from pacdp.cli.private import PRIVATE
from pacdp.cli.private.algorithms import Predict, Public, mechanism, network, predictor
from pacdp.cli.private.books import books_of
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.private.data import Examples, examples
from pacdp.cli.serial import to_dict
from pacdp.data import Dataset, Progress
from pacdp.losses import cross_entropies
from pacdp.step import accountant
from pacdp.step import event as events
from pacdp.step.noise import SeededRandomness, SystemRandomness
from pacdp.store.ledger import Ledger
from pacdp.store.reservation import Books

FORMAT = "pacdp-private-result/1"
Report = Callable[[int, int, dict[str, Any] | None], None]
_BATCH = 1000


def train_private(
    config: PrivateConfig,
    out: Path,
    runtime: Runtime,
    *,
    resume: bool = False,
    force: bool = False,
    report: Report | None = None,
    progressbar: bool | Progress = False,
    ledger: Path | None = None,
) -> dict[str, Any]:
    """Carry out ``config`` in folder ``out`` and return its result, as written to ``result.json``.

    ``ledger`` is the folder of the data set's ledger, where steps are counted before their noise is drawn; without
    one, nothing is.

    Raises:
        Overdrawn: the ledger's limit would be passed; for the steps concerned nothing was drawn.
        ValueError: the ledger is not the one that the run was started with; the folder cannot be used, or the data,
            network or budget do not fit together.
        Diverged: a weight is not finite.
    """
    folder = Folder(out)
    with folder.lock():
        if not force:
            folder.require_free(config, resume=resume)
        runtime.require_float32(clipped=True, kept=False)
        runtime.apply()
        data = examples(config.dataset, features=config.features, by_person=config.method.by_person,
                        root=runtime.data_root, progressbar=progressbar)  # fmt: skip
        public = Public(
            input_shape=data.train.inputs.shape[1:],
            classes=data.train.classes,
            size=float(data.units),
        )
        module = network(config, public, device=runtime.device)
        going_on = resume and folder.checkpoint.is_file() and not force
        header = load_checkpoint(folder.checkpoint).header if going_on else None
        books = books_of(ledger, out, before=header)
        if header is not None:
            every, done = max(1, config.sampling.steps // config.records), int(header["step"])
            folder.keep_rows(up_to_step=done, expected=range(every, done + 1, every))
        else:
            size = sum(p.numel() for p in module.parameters())
            require_space(folder.path, bytes_needed=20 * size + 1_000_000)
            folder.clear()
            write_json(folder.provenance, provenance(device=runtime.device, seed=config.seed))
            write_json(folder.config, to_dict(config))
            folder.keep_rows(up_to_step=-1)
        training = _Training(
            config, folder, data, public, module, report or (lambda step, steps, row: None), books
        )
        result = training.go()
        result["rests_on"] = folder.content_hashes()
        write_json(folder.result, result)
    return result


class _Training:
    def __init__(
        self,
        config: PrivateConfig,
        folder: Folder,
        data: Examples,
        public: Public,
        module: nn.Module,
        report: Report,
        books: Books,
    ) -> None:
        self.config, self.folder, self.data, self.public, self.module = (
            config,
            folder,
            data,
            public,
            module,
        )
        self.report = report
        self.common: dict[str, Any] = {
            "loss": cross_entropies,
            "randomness": SeededRandomness(config.seed)
            if config.reproducible
            else SystemRandomness(),
            "checkpoint": folder.checkpoint,
            "ledger": books,
            "checkpoint_every": max(1, config.sampling.steps // config.records),
            "about": {
                "run": to_dict(config),
                "data": {"train": data.train.hash, "test": data.test.hash},
            },
        }

    def go(self) -> dict[str, Any]:
        started = time.monotonic()
        config, budget = self.config, self.config.budget
        numbers = mechanism(config, self.public)
        relation: dict[str, Any] = {"delta": budget.delta, "adjacency": config.neighbours}
        plan = config.method.promise(numbers, numbers.steps)

        def progress(seen: loop.Progress) -> None:
            self._record(
                seen.step, lambda: accountant.epsilon(events.first(plan, seen.step), **relation)
            )

        people = self.data.people if config.method.by_person else None
        trained = loop.train(
            config.method,
            self.module,
            self.data.tensors(),
            mechanism=numbers,
            people=people,
            progress=progress,
            **self.common,
        )
        predict = predictor(config, self.module, trained)
        last: dict[str, Any] = {}
        if len(trained.snapshots):
            alone = replace(trained, snapshots=trained.snapshots[:0])
            last["test_of_last_weights"] = judged(
                predictor(config, self.module, alone), self.data.test, curve=True
            )
        steps = events.steps_of(trained.event)
        planned = accountant.privacy_spent(
            trained.event, delta=budget.delta, adjacency=budget.adjacency
        )
        paper = config.method.published(numbers, steps=steps, delta=budget.delta)
        published = (
            {"published_accounting": {"epsilon": paper.epsilon, "status": "optimistic"}}
            if paper
            else {}
        )
        return {
            "format": FORMAT, "private": PRIVATE, "algorithm": config.algorithm, "steps": steps,
            "halted": steps < config.sampling.steps, "n": self.data.train.n, "n_test": self.data.test.n,
            "parameters": sum(p.numel() for p in self.module.parameters()),
            "privacy": {**accountant.privacy_spent(trained.event, **relation).to_dict(), **published,
                        "event": None if trained.event is None else event_to_dict(trained.event),
                        "unit": self.data.unit, "units": self.data.units,
                        "units_are": "private" if config.sampling.public_size else "public",
                        "of_budget": {"epsilon": planned.upper, "adjacency": budget.adjacency},
                        "noise": "seeded: can be repeated and subtracted" if config.reproducible else "secret",
                        "counted": isinstance(self.common["ledger"], Ledger)},
            "test": judged(predict, self.data.test, curve=True), **last,
            "private_train": judged(predict, self.data.train),
            "seconds": round(time.monotonic() - started, 2),
        }  # fmt: skip

    def _record(self, step: int, epsilon: Callable[[], float]) -> None:
        row = None
        if step % self.common["checkpoint_every"] == 0:
            row = {"step": step, "epsilon": epsilon(), "delta": self.config.budget.delta}
            self.folder.append_row(row)
        self.report(step, self.config.sampling.steps, row)


@torch.no_grad()
def judged(predict: Predict, data: Dataset, *, curve: bool = False) -> dict[str, Any]:
    """Accuracy, AUC and calibration of the predictions, a thousand at a time; with ``curve`` the reliability curve,
    whose bands hold for examples that training has not seen.

    An example whose probabilities are not finite counts as one that is certain of a wrong class; how many there are
    stands in ``not_finite``.
    """
    parts = [
        predict(torch.tensor(data.inputs[i : i + _BATCH])).cpu() for i in range(0, data.n, _BATCH)
    ]
    probabilities = torch.cat(parts).double().numpy()
    lost = np.flatnonzero(~np.isfinite(probabilities).all(axis=1))
    probabilities[lost] = np.eye(probabilities.shape[1])[
        (data.labels[lost] + 1) % probabilities.shape[1]
    ]
    scores: dict[str, Any] = {
        **summary(probabilities, data.labels),
        **({"not_finite": len(lost)} if len(lost) else {}),
    }
    if curve:
        found = reliability_curve(probabilities, data.labels)
        scores["reliability"] = {"failure_prob": found.failure_prob, "simultaneous": found.simultaneous,
                                 **found.columns()}  # fmt: skip
    return scores
