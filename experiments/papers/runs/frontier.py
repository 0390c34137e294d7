"""One run of the calibration frontier: a private network at a fixed epsilon, judged by its last weights and by the mean
prediction of several.

All methods move the weights as w ← w - lr_t (Σ_i clip_C(g_i + ρ_t) + N(0, (σ_t C)²)) / B. Epsilon fixes the size of σ_t
for a number of steps T and a sample rate, so that what is left to choose is the clip norm C, the step size, T,
whether step sizes fall, and the noise ρ on one unit's gradient before clipping. The step size is given by its
``reach`` s = lr C: the noise that a step adds to the weights has standard deviation s σ / B whatever C is, and with it
runs of one reach and T have one Langevin noise and differ by what clipping does to the gradients.

On the X-rays a unit of privacy is a patient: one record holds up to ``MOST`` images of a patient, and its loss is the
mean over them.
"""

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import avg_pool2d, cross_entropy
from torch.utils.data import TensorDataset

from experiments.costs import Pass, Work, forward, gradient, update
from experiments.papers.runs.bayesian import train_plain
from experiments.papers.runs.bbp_printed import train_printed
from pacdp.algorithms.algorithm import Descent
from pacdp.algorithms.dp_bbp import DPBBP, DPBBPMethod
from pacdp.algorithms.dp_mc_dropout import DPMCDropout, DPMCDropoutMethod
from pacdp.algorithms.dp_sgd import DPSGD
from pacdp.algorithms.dp_sgld import DPSGLD, Convention, GradientSlot, ParameterSlot
from pacdp.calibration import summary
from pacdp.cli.config import Runtime
from pacdp.cli.private.config import Budget
from pacdp.cli.private.data import examples
from pacdp.cli.sweep.jobs import single
from pacdp.layers.predict import average_over_draws, average_over_snapshots, with_weights
from pacdp.layers.priors import Normal
from pacdp.loop import train
from pacdp.models import Architecture, build
from pacdp.schedules import Schedule, Table
from pacdp.step.accountant import epsilon
from pacdp.step.budget import calibrated, planned
from pacdp.step.mechanism import Mechanism
from pacdp.step.noise import SeededRandomness

MOST = 4
"""Images of one patient that are used, the first of the data set's order."""
STAGES = 10
"""Falling step sizes keep one value for a tenth of the run."""
DECAY, OFFSET = 0.55, 0.05
"""They fall as (1 + t / (OFFSET T))^-DECAY, the exponent being Welling and Teh's: to a fifth of the first one."""
DRAWS = 20
_CLIPPED = 500
MethodName = Literal[
    "DP-SGD", "DP-SGLD", "DP-BBP", "DP-BBP, KL/n clipped", "DP-BBP, KL/batches clipped", "DP-MC-Dropout", "SGD"
]
KL_CLIPPED: tuple[MethodName, ...] = ("DP-BBP, KL/n clipped", "DP-BBP, KL/batches clipped")
"""DP-BBP as printed, with either share of the KL in every example's gradient; see :mod:`bbp_printed`."""
BBP: tuple[MethodName, ...] = ("DP-BBP", *KL_CLIPPED)
PRIOR_STD = 1.0
_SHAPES = {("mnist", True): (1, 14, 14), ("mnist", False): (1, 28, 28), ("digits", False): (1, 8, 8)}
"""Of images, by data set and whether they are averaged over squares."""
_TESTED = 1.0 / 6.0
"""Test images for each training image of MNIST; for costs alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierRun:
    """Everything that decides a run's numbers."""

    dataset: Literal["mnist", "digits", "xrays224"] = "digits"
    patients: bool = False
    """Whether a patient's images, as features of the frozen backbone, are one record."""
    pooled: bool = False
    """Whether images are averaged over squares of 2x2 pixels."""
    architecture: Literal["fc", "cnn5"] = "fc"
    hidden: tuple[int, ...] = (32,)
    method: MethodName = "DP-SGD"
    slot: Literal["gradient", "parameter"] = "gradient"
    """Where DP-SGLD's published forms have their noise; at constant steps both come out the same (:func:`langevin`)."""
    clip_norm: float = 1.0
    reach: float = 1.0
    """Step size times clip norm: of the mean step where steps fall. For SGD the step size itself."""
    decay: bool = False
    """Whether step sizes α_t fall. DP-SGLD's noise multiplier falls as √α_t in the gradient slot and grows as 1/√α_t in
    the parameter slot; every other one is constant."""
    pre_noise: float = 0.0
    """Length of the noise on one unit's gradient before clipping, as a share of the clip norm."""
    sample_rate: float = 0.01
    steps: int = 200
    budget: Budget = field(default_factory=Budget)
    kept: int = 10
    """Weights kept from the second half of the run, whose predictions are averaged."""
    seed: int = 0
    """Of first weights, batches and noise: runs of one seed share all three."""

    def work(self, size: int) -> Work:
        """What a run costs on so many images, without what random weights, masks and noise before clipping add: a
        gradient of every example that takes part, a second pass that clips it, and the predictions of all that is kept.
        """
        shape = (1280,) if self.patients else _SHAPES[self.dataset, self.pooled]
        batch = min(4096, max(1, round(self.sample_rate * size)))
        once, judged, weights = _passes(Architecture(name=self.architecture, hidden=self.hidden), shape, batch)
        passes = (1.0 if self.method == "SGD" else 2.0) * self.steps * self.sample_rate * size / batch
        predictions = 1.0 + (DRAWS if self.method in (*BBP, "DP-MC-Dropout") else self.kept)
        seen = (judged, predictions * _TESTED * size / batch, 1)
        return Work(((once, passes, 1), (update(weights, 8), float(self.steps), 1), seen))


@lru_cache(maxsize=16)
def _passes(architecture: Architecture, shape: tuple[int, ...], batch: int) -> tuple[Pass, Pass, int]:
    module: nn.Module = build(architecture, input_shape=shape, classes=10, generator=torch.Generator())
    return gradient(module, shape, batch), forward(module, shape, batch), sum(p.numel() for p in module.parameters())


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
        inputs, targets = _records(inputs, targets, data.people)
    return Problem(inputs, targets, test, data.test.labels, data.train.classes)


def _records(inputs: Tensor, labels: Tensor, people: Tensor) -> tuple[Tensor, Tensor]:
    """One record a person: inputs [people, MOST, features] and labels [people, MOST], padded by zeros and -1."""
    _, number = torch.unique(people, return_inverse=True)
    units = int(number.max()) + 1
    rows, targets = torch.zeros(units, MOST, inputs.shape[1]), torch.full((units, MOST), -1)
    found = [0] * units
    for i, unit in enumerate(number.tolist()):
        if found[unit] < MOST:
            rows[unit, found[unit]], targets[unit, found[unit]] = inputs[i], labels[i]
            found[unit] += 1
    return rows, targets


def loss_of(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of each record: the mean over a patient's images where records have several."""
    if targets.dim() == 1:
        return cross_entropy(outputs, targets, reduction="none")
    losses = cross_entropy(outputs.transpose(1, 2), targets, ignore_index=-1, reduction="none")
    return losses.sum(1) / (targets >= 0).sum(1).clamp(min=1)


def network(run: FrontierRun, data: Problem) -> nn.Module:
    """The network with first weights of the run's seed; random layers draw from the seed too."""
    generator = torch.Generator().manual_seed(run.seed)
    shape = (data.inputs.shape[-1],) if run.patients else tuple(data.inputs.shape[1:])
    module = build(Architecture(name=run.architecture, hidden=run.hidden), input_shape=shape, classes=data.classes,
                   outputs=data.classes, generator=generator)  # fmt: skip
    if run.patients:  # records keep their images apart
        module = nn.Sequential(*(layer for layer in module.children() if not isinstance(layer, nn.Flatten)))
    if run.method in BBP:
        return DPBBPMethod(initial_std=0.02).network(module, generator=generator)
    if run.method == "DP-MC-Dropout":
        return DPMCDropoutMethod(rate=0.2).network(module, generator=generator)
    return module


def shape_of(run: FrontierRun) -> tuple[float, ...]:
    """Step sizes over their mean, one a step."""
    if not run.decay:
        return (1.0,) * run.steps
    stage = [(1.0 + k / (STAGES * OFFSET)) ** -DECAY for k in range(STAGES)]
    values = [stage[t * STAGES // run.steps] for t in range(run.steps)]
    mean = math.fsum(values) / run.steps
    return tuple(value / mean for value in values)


@lru_cache(maxsize=64)
def noise_of(shape: tuple[float, ...], sample_rate: float, budget: Budget) -> tuple[float, ...]:
    """The smallest noise multipliers proportional to ``shape`` with which all steps cost the budget."""
    found = calibrated(Table(values=shape), sample_rate=sample_rate, steps=len(shape), target_epsilon=budget.epsilon,
                       delta=budget.delta, adjacency=budget.adjacency)  # fmt: skip
    return tuple(float(found(t)) for t in range(len(shape)))


@lru_cache(maxsize=64)
def spent(noise: tuple[float, ...], sample_rate: float, budget: Budget) -> float:
    """The epsilon of all steps, an upper end."""
    event = planned(Table(values=noise), sample_rate=sample_rate, steps=len(noise))
    return epsilon(event, delta=budget.delta, adjacency=budget.adjacency)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped:
    """Langevin dynamics whose step sizes and noise multipliers are both given, step by step."""

    rate: Schedule
    noise: Schedule
    pre_noise: float = 0.0

    def learning_rate(self, step: int, mechanism: Mechanism) -> float:
        """As given."""
        del mechanism
        return self.rate(step)

    def noise_multiplier(self, step: int, mechanism: Mechanism) -> float:
        """As given."""
        del mechanism
        return self.noise(step)


def langevin(run: FrontierRun, rate: float, sigma: float, mechanism: Mechanism) -> Convention:
    """DP-SGLD with constant steps in either published form, at the temperature that makes its noise ``sigma``.

    In the gradient slot σ = √(2 α τ), so τ = σ²/(2α). In the parameter slot σ = √κ B/(c n C √η) with lr = c n η: the
    constants are c = ½ and the κ that solves this, that is temperature κ/(2c) of the posterior.
    """
    if run.slot == "gradient":
        return GradientSlot(step_size=rate, temperature=sigma**2 / (2.0 * rate))
    drift, size = 0.5, mechanism.public_size
    step = rate / (drift * size)
    root = sigma * drift * size * mechanism.clip_norm * math.sqrt(step) / mechanism.expected_batch_size
    return ParameterSlot(step_size=step, drift=drift, noise=root**2)


def algorithm(run: FrontierRun, data: Problem, parameters: int) -> Descent:
    """The run's algorithm, with the noise that its budget asks for."""
    size = float(len(data.inputs))
    mechanism = Mechanism(
        clip_norm=run.clip_norm, sample_rate=run.sample_rate, expected_batch_size=run.sample_rate * size,
        steps=run.steps, grad_sample_mode="hooks" if run.pre_noise else "ghost", max_physical_batch=4096, budget=None,
    )  # fmt: skip
    if run.method == "SGD":
        return DPSGD(mechanism=mechanism, noise_multiplier=1.0, learning_rate=run.reach, momentum=0.9)
    shape, rate = shape_of(run), run.reach / run.clip_norm
    power = {"gradient": 0.5, "parameter": -0.5}[run.slot] if run.method == "DP-SGLD" else 0.0
    sigma = noise_of(tuple(value**power for value in shape), run.sample_rate, run.budget)
    sizes, noise = Table(values=tuple(rate * value for value in shape)), Table(values=sigma)
    if run.method in BBP:
        return DPBBP(mechanism=mechanism, noise_multiplier=noise, learning_rate=sizes, prior=Normal(std=PRIOR_STD))
    if run.method == "DP-MC-Dropout":
        return DPMCDropout(mechanism=mechanism, noise_multiplier=noise, learning_rate=sizes)
    rho = run.pre_noise * run.clip_norm / math.sqrt(parameters)
    if run.method == "DP-SGLD" and not run.decay and not run.pre_noise:
        return DPSGLD(mechanism=mechanism, convention=langevin(run, rate, sigma[0], mechanism))
    return DPSGLD(mechanism=mechanism, convention=Stepped(rate=sizes, noise=noise, pre_noise=rho))


def carry_out(run: FrontierRun, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """Train and judge; nothing is kept in ``folder``, for it is done in seconds.

    Raises:
        ValueError: the numbers do not fit together.
        Diverged: a weight is not finite.
    """
    del folder
    data = problem(run.dataset, run.patients, run.pooled, runtime.data_root)
    module = network(run, data)
    parameters = sum(p.numel() for p in module.parameters())
    settings = algorithm(run, data, parameters)
    half = run.steps // 2
    keeps = {half + (k * (run.steps - half)) // run.kept for k in range(1, run.kept + 1)}.__contains__
    noise = tuple(settings.noise_at(t) for t in range(run.steps))
    own: dict[str, Any] = {}
    if run.method == "SGD":
        plain = train_plain(settings, module, data.inputs, data.targets, loss=loss_of, thermal=False, seed=run.seed,
                            keeps=keeps, clock=lambda: 0.0)  # fmt: skip
        trained, snapshots = module.eval(), torch.stack(plain.snapshots)
    elif run.method in KL_CLIPPED:
        trained, snapshots, own = _as_printed(run, data, module, settings), torch.empty(0), _priced(run, noise)
    else:
        made = train(settings, module, TensorDataset(data.inputs, data.targets), loss=loss_of,
                     randomness=SeededRandomness(run.seed), keeps=keeps)  # fmt: skip
        if made.event != planned(Table(values=noise), sample_rate=run.sample_rate, steps=run.steps):
            raise ValueError("the run released something else than was planned: its epsilon is not known")
        trained, snapshots = with_weights(module, made.weights), made.snapshots
        own = _priced(run, noise)
    if run.method in (*BBP, "DP-MC-Dropout"):
        one, many = (partial(average_over_draws, trained, draws=draws, seed=run.seed) for draws in (1, DRAWS))
    else:
        one, many = partial(_alone, trained), partial(_averaged, module, snapshots)
        own |= {"clipped_share": clipped_share(trained, data, run.clip_norm)}
    with torch.no_grad():
        scores = {name: summary(predict(data.test_inputs).double().cpu().numpy(), data.test_labels)
                  for name, predict in (("last", one), ("averaged", many))}  # fmt: skip
    return {"n": len(data.inputs), "parameters": parameters, "scores": scores, **own}


def _priced(run: FrontierRun, noise: tuple[float, ...]) -> dict[str, Any]:
    return {"epsilon": spent(noise, run.sample_rate, run.budget), "sigma": sum(noise) / run.steps}


def _as_printed(run: FrontierRun, data: Problem, posterior: nn.Module, settings: Descent) -> nn.Module:
    """The same settings with the KL inside the clip."""
    plain = network(replace(run, method="DP-SGD"), data)
    share = run.sample_rate if run.method == "DP-BBP, KL/batches clipped" else 1.0 / len(data.inputs)
    train_printed(plain, posterior, data.inputs, data.targets, loss=loss_of, share=share, prior_std=PRIOR_STD,
                  clip_norm=run.clip_norm, sample_rate=run.sample_rate, steps=run.steps, seed=run.seed,
                  learning_rate=settings.rate_at, noise_multiplier=settings.noise_at)  # fmt: skip
    return posterior.eval()


FRONTIER = single(carry_out)
"""Jobs of :class:`FrontierRun`."""


def _alone(module: nn.Module, inputs: Tensor) -> Tensor:
    return module(inputs).softmax(-1)


def _averaged(module: nn.Module, snapshots: Tensor, inputs: Tensor) -> Tensor:
    return average_over_snapshots(module, snapshots, inputs)


def clipped_share(module: nn.Module, data: Problem, clip_norm: float) -> float:
    """The share of the first 500 training records whose gradient at the end is longer than the clip norm."""
    weights = {name: p.detach() for name, p in module.named_parameters()}

    def of_one(weights: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return loss_of(functional_call(module, weights, (x[None],)), y[None]).sum()

    found = vmap(grad(of_one), in_dims=(None, 0, 0))(weights, data.inputs[:_CLIPPED], data.targets[:_CLIPPED])
    square = torch.stack([part.flatten(1).square().sum(1) for part in found.values()]).sum(0)
    return float((square.sqrt() > clip_norm).double().mean())
