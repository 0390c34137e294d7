"""One run of the calibration frontier: a private network at a fixed epsilon, judged by its last weights and by the mean
prediction of several; and the benches with their jobs.

All methods move the weights as w ← w - lr_t (Σ_i clip_C(g_i + ρ_t) + N(0, (σ_t C)²)) / B. Epsilon fixes the size of σ_t
for a number of steps T and a sample rate, so that what is left to choose is the clip norm C, the step size, T,
whether step sizes fall, and the noise ρ on one unit's gradient before clipping. The step size is given by its
``reach`` s = lr C: the noise that a step adds to the weights has standard deviation s σ / B whatever C is, and with it
runs of one reach and T have one Langevin noise and differ by what clipping does to the gradients.

On the X-rays a unit of privacy is a patient: one record holds up to ``MOST`` images of a patient, and its loss is the
mean over them.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, cross_entropy
from torch.utils.data import TensorDataset

from pacdp.algorithms.algorithm import Descent
from pacdp.algorithms.dp_sgld import DPSGLD
from pacdp.calibration import fit_temperature, summary
from pacdp.cli.private.config import Budget
from pacdp.cli.private.data import examples
from pacdp.cli.runtime import Runtime
from pacdp.cli.serial import digest
from pacdp.cli.sweep.jobs import Job, Kind, single
from pacdp.layers.predict import average_over_snapshots, with_weights
from pacdp.loop import train
from pacdp.losses import cross_entropies
from pacdp.models import Architecture, build
from pacdp.schedules import Schedule, Table
from pacdp.step.accountant import epsilon
from pacdp.step.budget import calibrated
from pacdp.step.mechanism import Mechanism
from pacdp.step.noise import SeededRandomness

MOST = 4
"""Images of one patient that are used, the first of the data set's order."""
STAGES = 10
"""Falling step sizes keep one value for a tenth of the run."""
DECAY, OFFSET = 0.55, 0.05
"""They fall as (1 + t / (OFFSET T))^-DECAY, the exponent being Welling and Teh's: to a fifth of the first one."""
HELD_OUT = 500
"""Images that a temperature is fitted to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierRun:
    """Everything that decides a run's numbers."""

    dataset: str = "digits"
    patients: bool = False
    """Whether a patient's images, as features of the frozen backbone, are one record."""
    pooled: bool = False
    """Whether images are averaged over squares of 2x2 pixels."""
    architecture: Literal["fc", "cnn5"] = "fc"
    hidden: tuple[int, ...] = (32,)
    method: str = "DP-SGD"
    """DP-SGD or DP-SGLD."""
    slot: str = "gradient"
    """Where DP-SGLD has its noise, as in Knolle et al.'s Algorithm 1."""
    clip_norm: float = 1.0
    reach: float = 1.0
    """Step size times clip norm: of the mean step where steps fall."""
    decay: bool = False
    """Whether step sizes α_t fall, and the noise multiplier with them as √α_t."""
    pre_noise: float = 0.0
    """Length of the noise on one unit's gradient before clipping, as a share of the clip norm."""
    sample_rate: float = 0.01
    steps: int = 200
    budget: Budget = field(default_factory=Budget)
    kept: int = 10
    """Weights kept from the second half of the run, whose predictions are averaged."""
    seed: int = 0
    """Of first weights, batches and noise: runs of one seed share all three."""


class Problem(NamedTuple):
    """Data and network of a run."""

    inputs: Tensor
    targets: Tensor
    """[n], or [n, images] with -1 where a patient has no more."""
    test_inputs: Tensor
    test_labels: np.ndarray
    classes: int


@lru_cache(maxsize=3)
def problem(dataset: str, patients: bool, pooled: bool, root: str | None) -> Problem:
    """The data as tensors; a patient's images as one record where asked for."""
    data = examples(dataset, features="backbone" if patients else "pixels", by_person=patients, root=root)
    inputs, test = torch.tensor(data.train.inputs), torch.tensor(data.test.inputs)
    targets = torch.tensor(data.train.labels)
    if pooled:
        inputs, test = avg_pool2d(inputs, 2), avg_pool2d(test, 2)
    if patients:
        assert data.people is not None
        inputs, targets = records(inputs, targets, data.people)
    return Problem(inputs, targets, test, data.test.labels, data.train.classes)


def records(inputs: Tensor, labels: Tensor, people: Tensor) -> tuple[Tensor, Tensor]:
    """One record a person: inputs [people, MOST, features] and labels [people, MOST], padded by zeros and -1."""
    _, unit = torch.unique(people, return_inverse=True)
    place, units = (unit[:, None] == unit).tril(-1).sum(1), int(unit.max()) + 1
    used = place < MOST
    rows, targets = torch.zeros(units, MOST, inputs.shape[1]), torch.full((units, MOST), -1)
    rows[unit[used], place[used]], targets[unit[used], place[used]] = inputs[used], labels[used]
    return rows, targets


def loss_of(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of each record: the mean over a patient's images where records have several."""
    if targets.dim() == 1:
        return cross_entropies(outputs, targets)
    losses = cross_entropy(outputs.transpose(1, 2), targets, ignore_index=-1, reduction="none")
    return losses.sum(1) / (targets >= 0).sum(1).clamp(min=1)


def network(run: FrontierRun, data: Problem) -> nn.Module:
    """The network with first weights of the run's seed."""
    generator = torch.Generator().manual_seed(run.seed)
    shape = tuple(data.inputs.shape[2 if run.patients else 1 :])
    module = build(Architecture(name=run.architecture, hidden=run.hidden), input_shape=shape, classes=data.classes,
                   outputs=data.classes, generator=generator)  # fmt: skip
    if run.patients:  # records keep their images apart
        module = nn.Sequential(*(layer for layer in module.children() if not isinstance(layer, nn.Flatten)))
    return module


def shape_of(run: FrontierRun) -> tuple[float, ...]:
    """Step sizes over their mean, one a step."""
    power = DECAY if run.decay else 0.0
    values = [(1.0 + t * STAGES // run.steps / (STAGES * OFFSET)) ** -power for t in range(run.steps)]
    mean = math.fsum(values) / run.steps
    return tuple(value / mean for value in values)


@lru_cache(maxsize=64)
def noise_of(shape: tuple[float, ...], sample_rate: float, budget: Budget) -> Schedule:
    """The smallest noise multipliers proportional to ``shape`` with which all steps cost the budget."""
    return calibrated(Table(values=shape), sample_rate=sample_rate, steps=len(shape), target_epsilon=budget.epsilon,
                      delta=budget.delta, adjacency=budget.adjacency)  # fmt: skip


spent = lru_cache(maxsize=64)(epsilon)
"""The epsilon of all steps, an upper end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped(Descent):
    """Descent whose step sizes and noise multipliers are both given, with noise before clipping."""

    NAME = "DP-SGLD"
    learning_rate: float | Schedule
    pre_noise: float = 0.0


def algorithm(run: FrontierRun, data: Problem, parameters: int) -> tuple[Descent, Mechanism]:
    """The run's algorithm, and its mechanism with the noise that its budget asks for."""
    shape, rate = shape_of(run), run.reach / run.clip_norm
    noise = noise_of(tuple(value**0.5 for value in shape), run.sample_rate, run.budget)
    mechanism = Mechanism(
        clip_norm=run.clip_norm, noise_multiplier=noise, sample_rate=run.sample_rate,
        expected_batch_size=run.sample_rate * len(data.inputs), steps=run.steps, max_physical_batch=4096, budget=None,
    )  # fmt: skip
    if run.method == "DP-SGLD" and not run.decay and not run.pre_noise:
        temperature = noise(0) ** 2 / (2.0 * rate)  # σ = √(2 α τ)
        settings = DPSGLD(convention="gradient-slot", step_size=rate, temperature=temperature)
        return settings, replace(mechanism, noise_multiplier=None)
    sizes = Table(values=tuple(rate * value for value in shape))
    return Stepped(learning_rate=sizes, pre_noise=run.pre_noise * run.clip_norm / math.sqrt(parameters)), mechanism


class Learnt(NamedTuple):
    """A trained network, weights kept on the way, and what they cost."""

    module: nn.Module
    snapshots: Tensor
    epsilon: float


def learn(run: FrontierRun, data: Problem) -> Learnt:
    """Train by the run's method."""
    module, half = network(run, data), run.steps // 2
    settings, mechanism = algorithm(run, data, sum(p.numel() for p in module.parameters()))
    keeps = {half + (k * (run.steps - half)) // run.kept for k in range(1, run.kept + 1)}.__contains__
    made = train(settings, module, TensorDataset(data.inputs, data.targets), mechanism=mechanism, loss=loss_of,
                 randomness=SeededRandomness(run.seed), keeps=keeps)  # fmt: skip
    cost = spent(made.event, delta=run.budget.delta, adjacency=run.budget.adjacency)
    return Learnt(with_weights(module, made.weights).requires_grad_(False), made.snapshots, cost)


def carry_out(run: FrontierRun, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """Train and judge; nothing is kept in ``folder``, for it is done in seconds."""
    data = problem(run.dataset, run.patients, run.pooled, runtime.data_root)
    made = learn(run, data)
    many = average_over_snapshots(made.module, made.snapshots, data.test_inputs)
    return _judged(data, made, last=made.module(data.test_inputs).softmax(-1), averaged=many)


def temper(run: FrontierRun, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """Train without ``HELD_OUT`` images of the seed's choice, fit one temperature to these, and judge before and after.

    Epsilon is of the images that were trained on: the temperature is an exact function of the others.
    """
    whole = problem(run.dataset, run.patients, run.pooled, runtime.data_root)
    order = torch.randperm(len(whole.inputs), generator=torch.Generator().manual_seed(run.seed))
    held, kept = order[:HELD_OUT], order[HELD_OUT:]
    data = whole._replace(inputs=whole.inputs[kept], targets=whole.targets[kept])
    made = learn(run, data)
    logits, fitted = (made.module(inputs).double() for inputs in (whole.test_inputs, whole.inputs[held]))
    found = fit_temperature(fitted.numpy(), whole.targets[held].numpy(), private_data=True).temperature
    return {"temperature": found, **_judged(data, made, before=logits.softmax(-1), after=(logits / found).softmax(-1))}


def _judged(data: Problem, made: Learnt, **predicted: Tensor) -> dict[str, Any]:
    scores = {name: summary(one.double().numpy(), data.test_labels) for name, one in predicted.items()}
    return {"epsilon": made.epsilon, "scores": scores}


FRONTIER, TEMPERED = single(carry_out), single(temper)
CLIPS = (0.1, 1.0, 10.0)
"""At which falling steps and noise before clipping are compared."""
LATER = 1000
"""The first of the seeds that judge what all others have chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One data set and network with everything that its runs share."""

    name: str
    size: int
    """Units of privacy in the training set."""
    run: FrontierRun
    """Data, network, sampling and budget; its ``reach`` and ``steps`` are those of all comparisons at one of each."""
    clips: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 10.0)
    reaches: tuple[float, ...]
    steps: tuple[int, ...] = ()
    """Other numbers of steps, at the bench's own reach: epsilon stays, and with it falls or rises the noise."""
    seeds: int
    """Half as many with noise before clipping: it costs as many normal numbers as there are units times weights."""
    whole: bool = True
    """Whether all is compared that stands beside DP-SGD, or one cell of DP-SGLD alone."""
    judged: tuple[float, ...]
    """DP-SGD's clip norms that new seeds judge."""
    judges: int


_MNIST = FrontierRun(dataset="mnist", pooled=True, hidden=(32,), sample_rate=0.01, steps=200, reach=2.0,
                     budget=Budget(epsilon=0.5, delta=1e-5))  # fmt: skip
_LUNGS = FrontierRun(dataset="xrays224", patients=True, hidden=(16,), sample_rate=0.1, steps=100, reach=0.6,
                     budget=Budget(epsilon=6.0, delta=1e-4))  # fmt: skip
_CNN = replace(_MNIST, pooled=False, architecture="cnn5", hidden=(), kept=4)
_DIGITS = FrontierRun(sample_rate=0.1, steps=6, kept=2, budget=Budget(epsilon=8.0, delta=1e-3))
MNIST = Bench(name="MNIST", size=60_000, run=_MNIST, reaches=(1.0, 2.0, 4.0, 8.0), steps=(50, 800), seeds=6,
              judged=(3.0,), judges=40)  # fmt: skip
XRAYS = Bench(name="X-rays by patient", size=3_654, run=_LUNGS, reaches=(0.15, 0.3, 0.6, 1.2), steps=(25, 400),
              seeds=8, judged=(0.1, 10.0), judges=16)  # fmt: skip
CNN = Bench(name="MNIST, five-layer CNN", size=60_000, run=_CNN, clips=CLIPS, reaches=(2.0,), seeds=4, whole=False,
            judged=(10.0, 1.0), judges=6)  # fmt: skip
DIGITS = replace(CNN, name="digits", size=1_437, run=_DIGITS, clips=CLIPS[:1], reaches=(1.0,), seeds=1,
                 judged=CLIPS[:1], judges=1)  # fmt: skip
BENCHES = (DIGITS, MNIST, XRAYS, CNN)


def _benches(smoke: bool) -> Sequence[Bench]:
    return BENCHES[:1] if smoke else BENCHES[1:]


def frontier_jobs(smoke: bool, seed: int) -> list[Job]:
    """The grids of all benches, and what is compared beside DP-SGD; for ``smoke`` two runs on scikit-learn's digits."""
    plan = [(bench, run) for bench in _benches(smoke) for run in _runs(bench)]
    return [job for bench, run in plan for job in _jobs(bench, run, seed, bench.seeds // (2 if run.pre_noise else 1))]


def pair_jobs(smoke: bool, seed: int) -> list[Job]:
    """The settings that all seeds of :func:`frontier_jobs` choose, on other seeds, which judge them."""
    plan = [(bench, run) for bench in _benches(smoke)
            for run in _grid(bench, clip_norm=bench.judged)]  # fmt: skip
    return [job for bench, run in plan for job in _jobs(bench, run, seed + LATER, bench.judges)]


def tempered_jobs(smoke: bool, seed: int) -> list[Job]:
    """DP-SGD on MNIST at each clip norm, without the images that a temperature is fitted to."""
    bench = DIGITS if smoke else MNIST
    return [
        job for run in _grid(bench, clip_norm=bench.clips) for job in _jobs(bench, run, seed, 2 * bench.seeds, TEMPERED)
    ]


def _grid(bench: Bench, **values: Sequence[Any]) -> list[FrontierRun]:
    return [replace(bench.run, **dict(zip(values, one, strict=True))) for one in product(*values.values())]


def _runs(bench: Bench) -> list[FrontierRun]:
    found = _grid(bench, clip_norm=bench.clips, reach=bench.reaches)
    if not bench.whole:
        return found + _grid(bench, method=["DP-SGLD"], decay=[True])
    found += _grid(bench, clip_norm=CLIPS, steps=bench.steps)
    return found + _grid(bench, method=["DP-SGLD"], clip_norm=CLIPS, decay=(False, True), pre_noise=(0.0, 0.5))


def _jobs(bench: Bench, run: FrontierRun, first: int, count: int, kind: Kind = FRONTIER) -> Iterator[Job]:
    """A run with so many seeds."""
    for seed in range(first, first + count):
        one = replace(run, seed=seed)
        own: dict[str, Any] = {"bench": bench.name, "slot": run.slot if run.method == "DP-SGLD" else None}
        own |= {name: getattr(one, name) for name in "method clip_norm reach decay pre_noise steps seed".split()}
        key = f"frontier {run.dataset} {run.method} seed {seed} {digest(one)}{' tempered' * (kind is TEMPERED)}"
        yield Job(key=key.lower().replace(" ", "-"), kind=kind, config=one, tags=own)
