"""Training with or without privacy, and predictions by the members of what was learnt."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import vector_to_parameters
from torch.utils.data import TensorDataset

from bounds.accounting import Event
from experiments.papers.runs.bayesian_config import BayesRun
from experiments.papers.runs.bayesian_plain import train_plain
from pacdp.cli.private.algorithms import Public, algorithm
from pacdp.cli.private.methods import DPSGLD
from pacdp import private
from pacdp.layers.bayes import BAYES_LAYERS
from pacdp.layers.dropout import ExampleDropout
from pacdp.step.independence import PerExampleLoss

_ROWS = 1000


class Fitted(NamedTuple):
    """A trained network and the weights it had on the way."""

    module: nn.Module
    """In evaluation mode; which weights it has depends on what was asked of it last."""
    kept: dict[int, Tensor]
    """Flat weights after the steps of the posterior and of the curve."""
    event: Event | None
    """What it cost; None without privacy."""
    noise_multiplier: float | None
    """σ of the first step; None without privacy."""
    steps: int
    seconds_per_pass: float
    """Median time of a step, times the steps that draw n examples on average."""


def fit(run: BayesRun, module: nn.Module, inputs: Tensor, targets: Tensor, *, loss: PerExampleLoss, public: Public
        ) -> Fitted:  # fmt: skip
    """Train ``module`` on all rows of inputs and targets.

    Raises:
        ValueError: numbers out of range, or a budget that not even the first step keeps to.
        Diverged: a weight is not finite.
    """
    kept = sorted({*run.posterior_steps(), *run.curve_steps()})
    settings = algorithm(run.config, public)
    assert isinstance(settings, private.Descent)
    if not run.private:
        plain = train_plain(settings, module, inputs, targets, loss=loss, seed=run.seed,
                            thermal=isinstance(run.config.method, DPSGLD), keeps=kept.__contains__,
                            clock=time.perf_counter)  # fmt: skip
        return Fitted(module.eval(), dict(zip(kept, plain.snapshots, strict=True)), None, None, len(plain.marks),
                      _seconds(plain.marks, run))  # fmt: skip
    marks: list[float] = []
    trained = private.train(settings, module, TensorDataset(inputs, targets), loss=loss,
                            randomness=private.SeededRandomness(run.seed), keeps=kept.__contains__,
                            progress=lambda seen: marks.append(time.perf_counter()))  # fmt: skip
    if trained.halted:
        raise ValueError(f"the budget of epsilon {run.config.budget.epsilon:g} halts the run after step "
                         f"{private.steps_of(trained.event)} of {run.config.sampling.steps}: raise it")  # fmt: skip
    return Fitted(private.with_weights(module, trained.weights), dict(zip(kept, trained.snapshots, strict=True)),
                  trained.event, settings.noise_at(0), private.steps_of(trained.event),
                  _seconds(marks, run))  # fmt: skip


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


def _seconds(marks: list[float], run: BayesRun) -> float:
    gaps = sorted(after - before for before, after in itertools.pairwise(marks))
    middle = gaps[len(gaps) // 2] if gaps else 0.0
    return middle / run.config.sampling.sample_rate
