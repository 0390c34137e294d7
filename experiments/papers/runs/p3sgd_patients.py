"""Patient-level private training of one of the studies' networks, with its loss along the way.

Losses are computed on the data without noise. Publishing them, as figures do here for public benchmark data, is
covered by no epsilon.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from pacdp.cli.folder import Folder
from experiments.papers.runs.p3sgd_config import Private, Training
from pacdp.cli.private.algorithms import Public, algorithm
from pacdp.cli.private.data import Examples
from pacdp.cli.private.methods import P3SGD
from pacdp import load_checkpoint, private

Record = Callable[[int, float, nn.Module], None]


def train_privately(
    config: Training, strategy: Private, module: nn.Module, data: Examples, folder: Folder, record: Record
) -> dict[str, Any]:
    """Train ``module`` in place; return what it cost.

    Raises:
        ValueError: a budget that pays for no step.
        Diverged: a weight is not finite.
    """
    sampling, budget = strategy.sampling, strategy.budget
    public = Public(input_shape=data.train.inputs.shape[1:], classes=data.train.classes, size=float(data.units))
    settings = algorithm(config.private(strategy), public)
    every = max(1, sampling.steps // config.records)

    def record_checkpoint() -> None:
        saved = load_checkpoint(folder.checkpoint)
        step = int(saved.header["step"])
        folder.keep_rows(up_to_step=step)
        if folder.rows()[-1]["step"] < step:
            record(step, step * sampling.sample_rate, private.with_weights(module, saved.model))

    def progress(seen: private.Progress) -> None:
        if seen.step > 1 and (seen.step - 1) % every == 0:  # of the step before, which is written by now
            record_checkpoint()

    if folder.checkpoint.is_file():
        record_checkpoint()
    else:
        folder.keep_rows(up_to_step=-1)
        record(0, 0.0, module)

    assert data.people is not None
    run = private.train(
        settings, module, data.tensors(), people=data.people, loss=_loss, progress=progress,
        randomness=private.SeededRandomness(config.seed),
        checkpoint=folder.checkpoint, checkpoint_every=every,
    )  # fmt: skip
    record_checkpoint()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(run.weights[name])
    spent = private.privacy_spent(run.event, delta=budget.delta, adjacency="add-remove")
    steps = private.steps_of(run.event)
    size = sum(parameter.numel() for parameter in module.parameters())
    found = {
        "epsilon": spent.upper, "epsilon_lower": spent.lower, "delta": budget.delta, "adjacency": budget.adjacency,
        "steps": steps, "halted": steps < sampling.steps, "published_epsilon": None,
    }  # fmt: skip
    match strategy.method:
        case P3SGD() as method:
            people = sampling.sample_rate * data.units
            return found | _choices(method, run.chosen) | {
                "published_epsilon": published(method, strategy, steps),
                "noise_to_signal": min(method.noise_scales) * math.sqrt(size) / people,
            }  # fmt: skip
        case _:
            return found


def published(method: P3SGD, strategy: Private, steps: int) -> float:
    """Epsilon as the paper accounts for it; optimistic."""
    return private.published_epsilon(
        noise_scales=method.noise_scales, sample_rate=strategy.sampling.sample_rate, steps=steps,
        selection_epsilon=method.selection_epsilon, delta=strategy.budget.delta,
    ).epsilon  # fmt: skip


def _choices(method: P3SGD, chosen: Tensor) -> dict[str, Any]:
    quietest = min(range(len(method.noise_scales)), key=method.noise_scales.__getitem__)
    return {"quietest_chosen": float((chosen == quietest).double().mean())}


def _loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(outputs, targets, reduction="none")
