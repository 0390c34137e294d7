"""The twins without privacy: the same loss, prior, step sizes and random layers; no clipping, no noise of a mechanism.

A private step is w ← w - lr (Σ clip(g_i)/B + (σC/B) ξ + data-free gradient), ξ standard normal. Here Σ clip(g_i)/B is
the mean gradient of a batch from a shuffled pass, and the noise is left out; but for SGLD, whose thermal noise is that
very term.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from pacdp.algorithms.algorithm import Descent
from pacdp.errors import Diverged
from pacdp.layers.random import forget_draws
from pacdp.step.independence import PerExampleLoss


class Plain(NamedTuple):
    """What was trained."""

    snapshots: list[Tensor]
    """Flat weights after each step that is kept."""
    marks: list[float]
    """What ``clock`` said after each step."""


def train_plain(
    algorithm: Descent, module: nn.Module, inputs: Tensor, targets: Tensor, *, loss: PerExampleLoss, thermal: bool,
    seed: int, keeps: Callable[[int], bool], clock: Callable[[], float],
) -> Plain:  # fmt: skip
    """Train ``module`` in place by the algorithm's optimizer.

    Args:
        thermal: whether the noise is part of the algorithm itself, whatever it hides.
        keeps: whether the weights after so many steps become a snapshot.

    Raises:
        Diverged: a weight is not finite.
    """
    device, mechanism = inputs.device, algorithm.mechanism
    parameters = [p for p in module.train().parameters() if p.requires_grad]
    optimizer = algorithm.optimizer(parameters)
    assert optimizer is not None
    batches = _Batches(len(inputs), mechanism.sample_rate, torch.Generator().manual_seed(seed))
    noise = torch.Generator(device).manual_seed(seed + 1)
    found = Plain([], [])
    for step in range(mechanism.steps):
        for group in optimizer.param_groups:
            group["lr"] = algorithm.rate_at(step)
        rows = batches.next().to(device)
        optimizer.zero_grad()
        torch.stack(
            [loss(module(inputs[rows]), targets[rows]).mean() for _ in range(algorithm.draws)]
        ).mean().backward()
        forget_draws(module)
        if thermal:
            scale = algorithm.noise_at(step) * mechanism.clip_norm / mechanism.expected_batch_size
            _add_noise(parameters, scale, noise)
        if algorithm.data_free_gradient is not None:
            algorithm.data_free_gradient(module)
        optimizer.step()
        if not all(bool(torch.isfinite(p).all()) for p in parameters):
            raise Diverged(step + 1, "a weight")
        if keeps(step + 1):
            found.snapshots.append(parameters_to_vector(parameters).detach().clone())
        found.marks.append(clock())
    return found


class _Batches:
    """Batches of round(rate · n) rows, in passes each shuffled anew; a pass drops what is left over."""

    def __init__(self, n: int, rate: float, generator: torch.Generator) -> None:
        self.n, self.size, self.generator = n, max(1, round(rate * n)), generator
        self.left = torch.empty(0, dtype=torch.int64)

    def next(self) -> Tensor:
        if len(self.left) < self.size:
            self.left = torch.randperm(self.n, generator=self.generator)
        rows, self.left = self.left[: self.size], self.left[self.size :]
        return rows


@torch.no_grad()
def _add_noise(parameters: list[nn.Parameter], scale: float, generator: torch.Generator) -> None:
    for parameter in parameters:
        assert parameter.grad is not None
        parameter.grad.add_(torch.empty_like(parameter).normal_(generator=generator), alpha=scale)
