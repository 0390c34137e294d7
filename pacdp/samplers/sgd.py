"""Stochastic gradient descent with heavy-ball momentum: the zero-noise limit of SGLD.

v ← momentum v + ∇R̂(w; batch),   w ← w - h_t v,   h_t = step_size t^-decay
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pacdp.samplers.types import Info, Potential, Sampler, require_positive


@dataclass(frozen=True, slots=True, kw_only=True)
class SGD:
    """Settings of a run of SGD."""

    step_size: float = 0.1
    decay: float = 0.0
    """Exponent of the step schedule step_size t^-decay."""
    momentum: float = 0.0
    batch_size: int = 128

    def __post_init__(self) -> None:
        require_positive(step_size=self.step_size, batch_size=self.batch_size)
        if not 0 <= self.momentum < 1:
            raise ValueError(f"expected 0 <= momentum < 1, got {self.momentum}")

    @property
    def gradients_per_step(self) -> int:
        """Minibatch gradients that one step evaluates."""
        return 1


class State(NamedTuple):
    """Weights, velocity and the number of steps taken."""

    weights: Float[Tensor, " dim"]
    velocity: Float[Tensor, " dim"]
    step: int


def build(settings: SGD, potential: Potential) -> Sampler:
    """SGD on ``potential``."""
    return Sampler(init, partial(step, settings, potential))


def init(weights: Float[Tensor, " dim"]) -> State:
    """Start at ``weights`` with no velocity."""
    return State(weights.clone(), torch.zeros_like(weights), 0)


def step(settings: SGD, potential: Potential, state: State, generator: torch.Generator) -> tuple[State, Info]:
    """One minibatch step."""
    estimate = potential.estimate(state.weights, generator)
    velocity = state.velocity * settings.momentum + estimate.gradient
    rate = settings.step_size * (state.step + 1) ** -settings.decay
    weights = torch.add(state.weights, velocity, alpha=-rate)
    return State(weights, velocity, state.step + 1), Info(estimate.loss, estimate.error)
