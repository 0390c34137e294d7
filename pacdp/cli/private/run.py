"""Carrying out a private run: train within the budget, judge on test data, leave a folder like any other run's."""

import time
from functools import partial
from pathlib import Path

import numpy as np
import torch

from bounds.accounting import event_to_dict
from pacdp import load_checkpoint, loop
from pacdp.calibration import reliability_curve, summary
from pacdp.cli.folder import PRIVATE, Folder
from pacdp.cli.private.algorithms import Predict, Public, mechanism, network, predictor
from pacdp.cli.private.books import books_of
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.private.data import examples, require_trained_on
from pacdp.cli.runtime import Training, require_unset
from pacdp.cli.serial import Values, to_dict
from pacdp.data import Dataset
from pacdp.losses import cross_entropies
from pacdp.step import accountant
from pacdp.step import event as events
from pacdp.step.noise import SeededRandomness, SystemRandomness
from pacdp.store.files import let_go
from pacdp.store.ledger import Ledger

FORMAT = "pacdp-private-result/1"
_BATCH = 1000


def train_private(config: PrivateConfig, out: Path, how: Training) -> Values:
    """Carry out ``config`` in folder ``out`` and return its result, as written to ``result.json``.

    Raises:
        Overdrawn: the ledger's limit would be passed; for the steps concerned nothing was drawn.
        ValueError: the ledger is not the one that the run was started with; the folder cannot be used, or the data,
            network or budget do not fit together.
        Diverged: a weight is not finite.
    """
    require_unset(how, "batching", "bfloat16", "checkpoint_seconds", by="by private recipes, which add gradients up by "
                      "--sampling.grad-sample-mode and write a checkpoint at each of --records")  # fmt: skip
    folder = Folder(out)
    with folder.at_work(config, how) as going_on:
        how.require_float32(clipped=True, kept=False)
        how.apply()
        data = examples(config.dataset, features=config.features, by_person=config.method.by_person,
                        root=how.data_root, progressbar=how.progressbar())  # fmt: skip
        public, every = Public.of(data), max(1, config.sampling.steps // config.records)
        module = network(config, public, device=how.device)
        size, numbers = sum(p.numel() for p in module.parameters()), mechanism(config, public)
        plan = config.method.promise(numbers, numbers.steps)
        header = load_checkpoint(folder.checkpoint).header if going_on else None
        books = books_of(how.ledger, out, before=header)
        if header is not None:
            require_trained_on(data.train, folder.checkpoint, header)
            done = int(header["step"])
            folder.keep_rows(up_to_step=done, expected=range(every, done + 1, every))
        else:
            folder.begin(config, how, bytes_needed=20 * size + 1_000_000)
        started = time.monotonic()

        def progress(seen: loop.Progress) -> None:
            let_go(folder.path)
            row = None
            if seen.step % every == 0:
                spent = accountant.epsilon(events.first(plan, seen.step), **config.relation)
                row = {"step": seen.step, "epsilon": spent, "delta": config.budget.delta}
                folder.append_row(row)
            how.report(seen.step, config.sampling.steps, row)

        trained = loop.train(
            config.method, module, data.tensors(), mechanism=numbers, loss=cross_entropies, progress=progress,
            people=data.people if config.method.by_person else None,
            randomness=SeededRandomness(config.seed) if config.reproducible else SystemRandomness(),
            checkpoint=folder.checkpoint, checkpoint_every=every, ledger=books,
            tells_size=not config.sampling.public_size,
            about={"run": to_dict(config), "data": {"train": data.train.hash, "test": data.test.hash}},
        )  # fmt: skip
        predict = partial(predictor, config, module, trained.weights)
        scores = {"test": judged(predict(trained.snapshots), data.test)}
        if len(trained.snapshots):
            scores["test_of_last_weights"] = judged(predict(trained.snapshots[:0]), data.test)
        steps, budget = events.steps_of(trained.event), config.budget
        of_budget = accountant.epsilon(
            trained.event, delta=budget.delta, adjacency=budget.adjacency
        )
        spent = {
            **accountant.privacy_spent(trained.event, **config.relation).to_dict(),
            "event": None if trained.event is None else event_to_dict(trained.event),
            "unit": data.unit, "units": data.units,
            "units_are": "private" if config.sampling.public_size else "public",
            "of_budget": {"epsilon": of_budget, "adjacency": budget.adjacency},
            "noise": "seeded: can be repeated and subtracted" if config.reproducible else "secret",
        }  # fmt: skip
        if paper := config.method.published(numbers, steps=steps, delta=budget.delta):
            spent["published_accounting"] = {"epsilon": paper.epsilon, "status": "optimistic"}
        return folder.finish({
            "format": FORMAT, "private": PRIVATE, "algorithm": config.algorithm, "steps": steps,
            "halted": steps < config.sampling.steps, "n": data.train.n, "n_test": data.test.n, "parameters": size,
            "privacy": {**spent, "counted": isinstance(books, Ledger)}, **scores,
            "seconds": round(time.monotonic() - started, 2),
        })  # fmt: skip


@torch.no_grad()
def judged(predict: Predict, data: Dataset) -> Values:
    """Accuracy, AUC and calibration of the predictions, a thousand at a time, and the reliability curve.

    Its bands hold for examples that training has not seen.

    An example whose probabilities are not finite counts as one that is certain of a wrong class; how many there are
    stands in ``not_finite``.
    """
    parts = [predict(part).cpu() for part in torch.tensor(data.inputs).split(_BATCH)]
    probabilities, classes = torch.cat(parts).double().numpy(), parts[0].shape[1]
    lost = np.flatnonzero(~np.isfinite(probabilities).all(axis=1))
    probabilities[lost] = np.eye(classes)[(data.labels[lost] + 1) % classes]
    scores: Values = summary(probabilities, data.labels)
    if len(lost):
        scores["not_finite"] = len(lost)
    found = reliability_curve(probabilities, data.labels)
    bands = {"failure_prob": found.failure_prob, "simultaneous": found.simultaneous}
    return {**scores, "reliability": {**bands, **found.columns()}}
