"""Private and other Bayesian networks: what a run is, its network, training with and without privacy, its members.

A private step is w ← w - lr (Σ clip(g_i)/B + (σC/B) ξ + data-free gradient), ξ standard normal. In the twin without
privacy Σ clip(g_i)/B is the mean gradient of a batch from a shuffled pass, and the noise is left out; but for SGLD,
whose thermal noise is that very term. Loss, prior, step sizes and random layers are the same.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.utils.data import TensorDataset

from experiments.runs.central_limit import accounted
from pacdp.algorithms.algorithm import Descent
from pacdp.cli.private.algorithms import Public, mechanism
from pacdp.cli.private.config import DPSGLD, PrivateConfig
from pacdp.errors import Diverged
from pacdp.layers.bayes import BAYES_LAYERS
from pacdp.layers.dropout import ExampleDropout
from pacdp.layers.predict import with_weights
from pacdp.layers.random import forget_draws
from pacdp.loop import train
from pacdp.losses import PerExampleLoss
from pacdp.models import Architecture, build
from pacdp.step.event import steps_of
from pacdp.step.mechanism import Mechanism
from pacdp.step.noise import SeededRandomness
from pacdp.store.canonical import JOINED_LATER

CNN = "mnist-cnn"
"""Architecture: Opacus's example network for MNIST, two convolutions and two fully connected layers with ReLU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BayesRun:
    """One training run and the members drawn from what it learnt."""

    config: PrivateConfig = field(default_factory=PrivateConfig)
    """Method, sampling, data, network, seed. Its architecture may also be ``mnist-cnn``."""
    private: bool = True
    """Without it nothing is clipped and no noise is added, but for the thermal noise of SGLD, whose step sizes are the
    same; batches are cut from shuffled passes and ``config.budget`` does not matter."""
    members: int = 20
    """Snapshots of SGLD, draws of BBP and MC Dropout; SGD is one network."""
    curve: int = 0
    """At how many evenly spaced steps the current weights are judged too (networks without random layers)."""
    image: int = 0
    """The test example whose predictions are kept member by member."""
    held_out: int = field(default=0, metadata=JOINED_LATER)
    """How many of the training images are judged in the place of the test images, and not learnt from."""

    @property
    def seed(self) -> int:
        """The seed of weights, batches and noise."""
        return self.config.seed

    def posterior_steps(self) -> tuple[int, ...]:
        """The steps after which SGLD's weights are members, evenly spaced from the burn-in's end to the last step."""
        method, steps = self.config.method, self.config.sampling.steps
        if not isinstance(method, DPSGLD):
            return ()
        burn_in = math.floor(method.burn_in * steps)
        return tuple(burn_in + (k * (steps - burn_in)) // self.members for k in range(1, self.members + 1))

    def curve_steps(self) -> tuple[int, ...]:
        """The steps after which the current weights are judged."""
        return tuple((k * self.config.sampling.steps) // self.curve for k in range(1, self.curve + 1))


def network(config: PrivateConfig, public: Public, *, device: str) -> nn.Module:
    """The network with first weights drawn from the seed on the CPU; random layers draw on the device."""
    generator = torch.Generator().manual_seed(config.seed)
    if config.architecture == CNN:
        module = _cnn(public, generator)
    else:
        module = build(Architecture(name=config.architecture, hidden=config.hidden), input_shape=public.input_shape,  # type: ignore[arg-type]
                       classes=max(2, public.classes), outputs=public.classes, generator=generator)  # fmt: skip
    own = torch.Generator(device).manual_seed(config.seed)
    return config.method.network(module.to(device), generator=own).to(device)


def _cnn(public: Public, generator: torch.Generator) -> nn.Module:
    """26,010 weights, for MNIST's 28 x 28 pixels."""
    module = nn.Sequential(
        nn.Conv2d(1, 16, 8, stride=2, padding=3), nn.ReLU(), nn.MaxPool2d(2, stride=1),
        nn.Conv2d(16, 32, 4, stride=2), nn.ReLU(), nn.MaxPool2d(2, stride=1),
        nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, public.classes),
    )  # fmt: skip
    weights, biases = list(module.parameters())[::2], list(module.parameters())[1::2]
    for weight, bias in zip(weights, biases, strict=True):
        for own in (weight, bias):
            nn.init.uniform_(own, -(weight[0].numel() ** -0.5), weight[0].numel() ** -0.5, generator=generator)
    return module


def train_plain(
    algorithm: Descent, mechanism: Mechanism, module: nn.Module, inputs: Tensor, targets: Tensor, *,
    loss: PerExampleLoss, thermal: bool, seed: int, keeps: Callable[[int], bool],
) -> list[Tensor]:  # fmt: skip
    """Train ``module`` in place by the algorithm's optimizer.

    Args:
        thermal: whether the noise is part of the algorithm itself, whatever it hides.
        keeps: whether the weights after so many steps become a snapshot.

    Returns:
        The snapshots, flat.
    """
    parameters = [p for p in module.train().parameters() if p.requires_grad]
    optimizer = algorithm.optimizer(parameters)
    assert optimizer is not None
    batches = _batches(len(inputs), mechanism.sample_rate, torch.Generator().manual_seed(seed))
    noise = torch.Generator(inputs.device).manual_seed(seed + 1)
    found = list[Tensor]()
    for step in range(mechanism.steps):
        for group in optimizer.param_groups:
            group["lr"] = algorithm.rate_at(step, mechanism)
        rows = next(batches).to(inputs.device)
        optimizer.zero_grad()
        loss(module(inputs[rows]), targets[rows]).mean().backward()
        forget_draws(module)
        if thermal:
            scale = algorithm.noise_at(step, mechanism) * mechanism.clip_norm / mechanism.expected_batch_size
            for p in parameters:
                assert p.grad is not None
                p.grad.add_(torch.empty_like(p.grad).normal_(generator=noise), alpha=scale)
        algorithm.add_data_free_gradient(module, mechanism)
        optimizer.step()
        if not all(bool(torch.isfinite(p).all()) for p in parameters):
            raise Diverged(step + 1, "a weight")
        if keeps(step + 1):
            found.append(parameters_to_vector(parameters).detach().clone())
    return found


def _batches(n: int, rate: float, generator: torch.Generator) -> Iterator[Tensor]:
    """Batches of round(rate · n) rows, in passes each shuffled anew; a pass drops what is left over."""
    size = max(1, round(rate * n))
    while True:
        yield from torch.randperm(n, generator=generator)[: n // size * size].split(size)


_ROWS = 1000


class Fitted(NamedTuple):
    """A trained network and the weights it had on the way."""

    module: nn.Module
    """In evaluation mode; which weights it has depends on what was asked of it last."""
    kept: dict[int, Tensor]
    """Flat weights after the steps of the posterior and of the curve."""
    spent: dict[str, float]
    """What it cost, nothing without privacy. ``epsilon_clt_optimistic`` is what the paper's accountant says, the
    central limit theorem of Bu, Dong, Long and Su (2020): no bound. ``noise_multiplier`` is that of the first step."""


def fit(run: BayesRun, module: nn.Module, inputs: Tensor, targets: Tensor, *, loss: PerExampleLoss, public: Public
        ) -> Fitted:  # fmt: skip
    """Train ``module`` on all rows of inputs and targets."""
    kept = sorted({*run.posterior_steps(), *run.curve_steps()})
    sampling, budget = run.config.sampling, run.config.budget
    settings, numbers = run.config.method, mechanism(run.config, public)
    assert isinstance(settings, Descent)
    if not run.private:
        plain = train_plain(settings, numbers, module, inputs, targets, loss=loss, seed=run.seed,
                            thermal=isinstance(run.config.method, DPSGLD), keeps=kept.__contains__)  # fmt: skip
        return Fitted(module.eval(), dict(zip(kept, plain, strict=True)), {})
    trained = train(settings, module, TensorDataset(inputs, targets), mechanism=numbers, loss=loss,
                    randomness=SeededRandomness(run.seed), keeps=kept.__contains__)  # fmt: skip
    if trained.halted or trained.event is None:
        raise ValueError(f"the budget of epsilon {budget.epsilon:g} halts the run after step "
                         f"{steps_of(trained.event)} of {sampling.steps}: raise it")  # fmt: skip
    found = accounted(trained.event, delta=budget.delta)
    spent = {"epsilon": found["upper"], "epsilon_clt_optimistic": found["central_limit"], "delta": budget.delta,
             "noise_multiplier": settings.noise_at(0, numbers), "clip_norm": sampling.clip_norm}  # fmt: skip
    return Fitted(with_weights(module, trained.weights), dict(zip(kept, trained.snapshots, strict=True)), spent)


@torch.no_grad()
def member_outputs(run: BayesRun, fitted: Fitted, inputs: Tensor) -> Iterator[Tensor]:
    """Outputs [n, outputs] of each member: SGLD's snapshots, draws of weights or masks, or the one network."""
    steps = run.posterior_steps()
    if steps:
        yield from (outputs_at(fitted, step, inputs) for step in steps)
        return
    layers = [layer for layer in fitted.module.modules() if isinstance(layer, (ExampleDropout, *BAYES_LAYERS))]
    for layer in layers:
        layer.train(isinstance(layer, ExampleDropout))
    for member in range(run.members if layers else 1):
        seeds = [(run.seed * 1_000_003 + member) * 101 + number for number in range(len(layers))]
        yield _forward(fitted.module, inputs, before=partial(_reseed, layers, seeds))


@torch.no_grad()
def outputs_at(fitted: Fitted, step: int, inputs: Tensor) -> Tensor:
    """Outputs [n, outputs] of the weights after ``step`` steps."""
    vector_to_parameters(fitted.kept[step].to(next(fitted.module.parameters())), fitted.module.parameters())
    return _forward(fitted.module, inputs)


def _forward(module: nn.Module, inputs: Tensor, *, before: Callable[[], None] = lambda: None) -> Tensor:
    """A thousand rows at a time; each part starts from the same draws, so that all see one draw of the weights."""
    parts = []
    for rows in inputs.split(_ROWS):
        before()
        parts.append(module(rows))
    return torch.cat(parts)


def _reseed(layers: Sequence[nn.Module], seeds: list[int]) -> None:
    for layer, seed in zip(layers, seeds, strict=True):
        layer.generator.manual_seed(seed)  # pyright: ignore
