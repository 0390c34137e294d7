"""Carrying out a run of the P3SGD studies: train by its strategy, recording loss and error on the way, then attack; or
account for its settings alone.

Losses are computed on the data without noise. Publishing them, as figures do here for public benchmark data, is covered
by no epsilon. Two attacks invert a trained network, as in the paper's Figure 3. *Features*: the attacker holds the
outputs of the last convolution's activation for an image (the paper: of the third residual block) and searches for an
image with the same ones; images of the training set and of the test set are attacked alike. *Class*: the attacker holds
the network alone and climbs to a class; the result is compared with the mean of the training images of that class, and
with the one that comes closest. Both start from the mean of test images that are not attacked, and its own ratio is
recorded: what the attacker had before asking the network.
"""

import base64
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from experiments.papers.runs.p3sgd import (
    Attack,
    Material,
    Plain,
    Private,
    Training,
    maps,
    material,
    network,
    regularised,
)
from pacdp import load_checkpoint
from pacdp.algorithms.p3sgd import P3SGD as P3SGDSettings
from pacdp.algorithms.p3sgd import IndependentNoise, NestedNoise, published_epsilon
from pacdp.audit.inversion import class_attack, closest_psnr, psnr, search_attack
from pacdp.cli.config import Runtime
from pacdp.cli.folder import Folder
from pacdp.cli.private.algorithms import Public, algorithm
from pacdp.cli.private.data import Examples
from pacdp.cli.private.methods import P3SGD
from pacdp.cli.sweep.jobs import single
from pacdp.errors import Diverged
from pacdp.layers.predict import with_weights
from pacdp.loop import Progress, train
from pacdp.models import parameter_count
from pacdp.step.accountant import privacy_spent
from pacdp.step.event import steps_of
from pacdp.step.mechanism import Mechanism
from pacdp.step.noise import SeededRandomness

_BATCH = 1000


class Recorder(NamedTuple):
    """Loss and error of weights along the run, a row each."""

    folder: Folder
    material: Material

    def __call__(self, step: int, epochs: float, module: nn.Module) -> None:
        """Record ``module`` after ``step`` steps, which made ``epochs`` passes over the training set."""
        found = self.material
        train = score(module, found.inputs, found.labels)
        test = score(module, found.test_inputs, found.test_labels)
        self.folder.append_row({
            "step": step, "epochs": epochs, "train_loss": train.loss, "train_error": train.error,
            "test_loss": test.loss, "test_error": test.error,
        })  # fmt: skip


class Score(NamedTuple):
    """Mean cross-entropy in nats, and share of errors."""

    loss: float
    error: float


def compute(config: Training, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """Values of result.json, the curve among them; metrics.jsonl has it while the run goes on."""
    found = material(config, runtime)
    generator = torch.Generator().manual_seed(config.seed)
    module = network(config.network, tuple(found.inputs.shape[1:]), found.data.train.classes, generator=generator)
    module = module.to(runtime.device)
    record = Recorder(Folder(folder), found)
    privacy = None
    match config.strategy:
        case Plain() as plain:
            record.folder.keep_rows(up_to_step=-1)
            sgd(plain, module, found.inputs, found.labels, record, records=config.records, generator=generator)
        case Private() as strategy:
            privacy = train_privately(config, strategy, module, found.data, record.folder, record)
    rows = record.folder.rows()
    return {
        "parameters": parameter_count(module), "n": found.data.train.n, "n_test": found.data.test.n,
        "people": found.data.units, "unit": found.data.unit, "majority": found.majority,
        "privacy": privacy, "curve": rows, "final": rows[-1],
        "inversion": attacked(config.attack, module, found, seed=config.seed) if config.attack else [],
    }  # fmt: skip


def sgd(
    settings: Plain, module: nn.Sequential, inputs: Tensor, labels: Tensor, record: "Record", *, records: int,
    generator: torch.Generator,
) -> None:  # fmt: skip
    """Train ``module`` in place with momentum and weight decay on shuffled minibatches.

    Raises:
        Diverged: a loss is not finite.
    """
    n = len(inputs)
    own = torch.Generator(inputs.device).manual_seed(int(torch.randint(2**62, (), generator=generator)))
    noisy = regularised(module, settings.regulariser, generator=own)
    optimizer = torch.optim.SGD(module.parameters(), lr=settings.learning_rate, momentum=settings.momentum,
                                weight_decay=settings.weight_decay)  # fmt: skip
    record(0, 0.0, module)
    step, every = 0, max(1, settings.epochs // records)
    for epoch in range(1, settings.epochs + 1):
        noisy.train()
        for batch in torch.randperm(n, generator=generator).to(inputs.device).split(settings.batch_size):
            loss = cross_entropy(noisy(inputs[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if not bool(torch.isfinite(loss)):
                raise Diverged(step)
        if epoch % every == 0 or epoch == settings.epochs:
            record(step, float(epoch), module)


@torch.no_grad()
def score(module: nn.Module, inputs: Tensor, labels: Tensor) -> Score:
    """The errors of the network as deployed, without regularisers."""
    module.eval()
    total = torch.zeros(2, dtype=torch.float64)
    for x, y in zip(inputs.split(_BATCH), labels.split(_BATCH), strict=True):
        outputs = module(x)
        wrong = (outputs.argmax(1) != y).sum()
        total += torch.stack([cross_entropy(outputs.double(), y, reduction="sum"), wrong.double()]).cpu()
    loss, error = (total / len(labels)).tolist()
    return Score(loss, error)


TRAINING = single(compute)


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting:
    """Settings of P3SGD that cost privacy; the paper's by default (Sections 4.2 and 4.3)."""

    noise_scales: tuple[float, ...]
    sample_rate: float = 0.1
    steps: int = 100
    selection_epsilon: float = 0.1**0.5
    delta: float = 1000**-1.1
    nested: bool = False
    """Candidates share their noise."""
    seed: int = 0
    """The seed of nothing: an accountant draws no numbers."""


def account(config: Accounting, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """Both numbers; the sound one with its bracket."""
    del runtime, folder
    # clip norm, divisor and learning rate cost nothing: any will do
    mechanism = Mechanism(clip_norm=1.0, sample_rate=config.sample_rate, expected_batch_size=1.0,
                                         steps=config.steps)  # fmt: skip
    candidates = NestedNoise() if config.nested else IndependentNoise()
    settings = P3SGDSettings(mechanism=mechanism, noise_scales=config.noise_scales, learning_rate=1.0,
                             selection_epsilon=config.selection_epsilon, candidates=candidates)  # fmt: skip
    spent = privacy_spent(settings.promise(0, config.steps), delta=config.delta, adjacency="add-remove")
    published = published_epsilon(
        noise_scales=config.noise_scales, sample_rate=config.sample_rate, steps=config.steps,
        selection_epsilon=config.selection_epsilon, delta=config.delta,
    )  # fmt: skip
    return {
        "privacy": {"epsilon": spent.upper, "epsilon_lower": spent.lower, "published_epsilon": published.epsilon,
                    "delta": config.delta, "adjacency": spent.adjacency, "steps": config.steps},
    }  # fmt: skip


ACCOUNTING = single(account)


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
            record(step, step * sampling.sample_rate, with_weights(module, saved.model))

    def progress(seen: Progress) -> None:
        if seen.step > 1 and (seen.step - 1) % every == 0:  # of the step before, which is written by now
            record_checkpoint()

    if folder.checkpoint.is_file():
        record_checkpoint()
    else:
        folder.keep_rows(up_to_step=-1)
        record(0, 0.0, module)

    assert data.people is not None
    run = train(
        settings, module, data.tensors(), people=data.people, loss=_loss, progress=progress,
        randomness=SeededRandomness(config.seed),
        checkpoint=folder.checkpoint, checkpoint_every=every,
    )  # fmt: skip
    record_checkpoint()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(run.weights[name])
    spent = privacy_spent(run.event, delta=budget.delta, adjacency="add-remove")
    steps = steps_of(run.event)
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
    return published_epsilon(
        noise_scales=method.noise_scales, sample_rate=strategy.sampling.sample_rate, steps=steps,
        selection_epsilon=method.selection_epsilon, delta=strategy.budget.delta,
    ).epsilon  # fmt: skip


def _choices(method: P3SGD, chosen: Tensor) -> dict[str, Any]:
    quietest = min(range(len(method.noise_scales)), key=method.noise_scales.__getitem__)
    return {"quietest_chosen": float((chosen == quietest).double().mean())}


def _loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(outputs, targets, reduction="none")


Row = dict[str, Any]


def attacked(attack: Attack, module: nn.Sequential, found: Material, *, seed: int) -> list[Row]:
    """A row for each attacked image and, twice, each class: its ratio in decibels, and that of the start.

    Which images are attacked depends on data and ``seed`` alone, so that all networks are asked about the same ones.
    """
    module.eval()
    generator = torch.Generator().manual_seed(seed)
    train = _drawn(len(found.inputs), attack.images, generator)
    test = _drawn(len(found.test_inputs), attack.images, generator)
    others = torch.ones(len(found.test_inputs), dtype=torch.bool, device=found.inputs.device)
    others[test] = False
    start = found.test_inputs[others].mean(0)
    return [
        *_features(attack, module, "train", found.inputs[train], found.labels[train], start),
        *_features(attack, module, "test", found.test_inputs[test], found.test_labels[test], start),
        *_classes(attack, module, found, start),
    ]


def _drawn(n: int, count: int, generator: torch.Generator) -> Tensor:
    return torch.randperm(n, generator=generator)[:count]


def _features(
    attack: Attack, module: nn.Sequential, part: str, inputs: Tensor, labels: Tensor, start: Tensor
) -> list[Row]:
    begin = start.expand_as(inputs)
    made = search_attack(maps(module), inputs, begin, steps=attack.feature_steps,
                                 smoothness=attack.smoothness)  # fmt: skip
    before = psnr(begin, inputs)
    return [
        _row(attack, k, attack="features", part=part, reference="the image", label=int(labels[k]),
             psnr=made.psnr[k], start=before[k], original=inputs[k], made=made.reconstructed[k])
        for k in range(len(inputs))
    ]  # fmt: skip


def _classes(attack: Attack, module: nn.Sequential, found: Material, start: Tensor) -> list[Row]:
    present = found.labels.unique()
    begin = start.expand(len(present), *start.shape)
    made = class_attack(
        module,
        present,
        begin,
        steps=attack.class_steps,
        step_size=attack.class_step_size,
        smoothness=attack.class_smoothness,
    )
    rows = []
    for k, label in enumerate(present.tolist()):
        images = found.inputs[found.labels == label]
        mean, one, first = images.mean(0, keepdim=True), made[k : k + 1], begin[k : k + 1]
        ratios = {
            "class mean": (psnr(one, mean), psnr(first, mean)),
            "closest image": (closest_psnr(one, images), closest_psnr(first, images)),
        }
        rows += [
            _row(attack, k, attack="class", part="train", reference=reference, label=label, psnr=after[0],
                 start=before[0], original=mean[0], made=one[0])
            for reference, (after, before) in ratios.items()
        ]  # fmt: skip
    return rows


def _row(settings: Attack, example: int, *, psnr: Tensor, start: Tensor, original: Tensor, made: Tensor,
         **columns: Any) -> Row:  # fmt: skip
    shown = example < settings.pictures
    return columns | {
        "example": example, "psnr": min(float(psnr), 200.0), "start_psnr": min(float(start), 200.0),
        "height": made.shape[-2], "width": made.shape[-1],
        "original": _text(original) if shown else None, "made": _text(made) if shown else None,
    }  # fmt: skip


def _text(image: Tensor) -> str:
    """The first channel as bytes, in base64: a plain value that a table can hold."""
    grey = (image[0].clamp(0.0, 1.0) * 255.0).round().to(torch.uint8).cpu().numpy()
    return base64.b64encode(np.ascontiguousarray(grey).tobytes()).decode()
