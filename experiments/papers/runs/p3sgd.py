"""Carrying out a run of the P3SGD studies: train by its strategy, recording loss and error on the way, then attack; or
account for its settings alone."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from pacdp.cli.config import Runtime
from pacdp.cli.folder import Folder
from experiments.papers.runs.p3sgd_config import Plain, Private, Training
from experiments.papers.runs.p3sgd_inversion import attacked
from experiments.papers.runs.p3sgd_material import Material, material
from experiments.papers.runs.p3sgd_networks import network, regularised
from experiments.papers.runs.p3sgd_patients import train_privately
from pacdp.cli.sweep.jobs import single
from pacdp import private
from pacdp.errors import Diverged
from pacdp.models import parameter_count

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
            sgd(plain, module, found, record, records=config.records, generator=generator)
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
    settings: Plain, module: nn.Sequential, found: Material, record: Recorder, *, records: int,
    generator: torch.Generator,
) -> None:  # fmt: skip
    """Train ``module`` in place with momentum and weight decay on shuffled minibatches.

    Raises:
        Diverged: a loss is not finite.
    """
    n = len(found.inputs)
    own = torch.Generator(found.inputs.device).manual_seed(int(torch.randint(2**62, (), generator=generator)))
    noisy = regularised(module, settings.regulariser, generator=own)
    optimizer = torch.optim.SGD(module.parameters(), lr=settings.learning_rate, momentum=settings.momentum,
                                weight_decay=settings.weight_decay)  # fmt: skip
    record(0, 0.0, module)
    step, every = 0, max(1, settings.epochs // records)
    for epoch in range(1, settings.epochs + 1):
        noisy.train()
        for batch in torch.randperm(n, generator=generator).to(found.inputs.device).split(settings.batch_size):
            loss = cross_entropy(noisy(found.inputs[batch]), found.labels[batch])
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
    """Of the network as deployed, without regularisers."""
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
    """Of nothing: an accountant draws no numbers."""


def account(config: Accounting, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """Both numbers; the sound one with its bracket."""
    del runtime, folder
    # clip norm, divisor and learning rate cost nothing: any will do
    mechanism = private.Mechanism(clip_norm=1.0, sample_rate=config.sample_rate, expected_batch_size=1.0,
                                         steps=config.steps)  # fmt: skip
    candidates = private.NestedNoise() if config.nested else private.IndependentNoise()
    settings = private.P3SGD(mechanism=mechanism, noise_scales=config.noise_scales, learning_rate=1.0,
                             selection_epsilon=config.selection_epsilon, candidates=candidates)  # fmt: skip
    spent = private.privacy_spent(settings.promise(0, config.steps), delta=config.delta, adjacency="add-remove")
    published = private.published_epsilon(
        noise_scales=config.noise_scales, sample_rate=config.sample_rate, steps=config.steps,
        selection_epsilon=config.selection_epsilon, delta=config.delta,
    )  # fmt: skip
    return {
        "privacy": {"epsilon": spent.upper, "epsilon_lower": spent.lower, "published_epsilon": published.epsilon,
                    "delta": config.delta, "adjacency": spent.adjacency, "steps": config.steps},
    }  # fmt: skip


ACCOUNTING = single(account)
