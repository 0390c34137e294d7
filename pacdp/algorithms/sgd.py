"""Stochastic gradient descent with heavy-ball momentum: the zero-noise limit of SGLD.

v ← momentum v + ∇R̂(w; batch),   w ← w - h_t v,   h_t = step_size t^-decay
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pacdp.algorithms.chain import ChainDefaults
from pacdp.algorithms.sampler import (
    Coefficients,
    Info,
    Potential,
    Sampler,
    columns_of,
    of_chains,
    rates,
)
from pacdp.chains import NOISE, Keys, langevin
from pacdp.errors import require_positive
from pacdp.schedules import Factor
from pacdp.step.promise import NoPrivacy


@dataclass(frozen=True, slots=True, kw_only=True)
class SGD(ChainDefaults):
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
    def clip_norm(self) -> None:
        """No clipping."""
        return None

    def target_privacy(self, *, oscillation: float, n: int, step: int | None) -> NoPrivacy:
        """Nothing."""
        del oscillation, n, step
        return NoPrivacy(reason="SGD adds no noise, so its weights reveal the data without limit")


class State(NamedTuple):
    """Weights, velocity and the number of steps taken."""

    weights: Float[Tensor, "chains dim"]
    velocity: Float[Tensor, "chains dim"]
    step: int


def build(
    settings: SGD | Sequence[SGD], potential: Potential, *, step_size: Factor | None = None
) -> Sampler:
    """SGD on ``potential``, with one setting for all chains or one a chain; ``step_size(t)`` as for SGLD."""
    every = of_chains(settings)
    columns = columns_of(every, "step_size", "decay", "momentum")
    return Sampler(init, partial(coefficients, columns, step_size), partial(transition, potential))


def init(weights: Float[Tensor, "chains dim"]) -> State:
    """Start at ``weights`` with no velocity."""
    return State(weights.clone(), torch.zeros_like(weights), 0)


def coefficients(
    columns: Mapping[str, np.ndarray], step_size: Factor | None, step: int
) -> Coefficients:
    """Step size and momentum."""
    return {
        "rate": rates(columns["step_size"], columns["decay"], step + 1, step_size), "momentum": columns["momentum"],
    }  # fmt: skip


def transition(
    potential: Potential, state: State, c: Coefficients, keys: Keys, tick: int | Tensor
) -> tuple[State, Info]:
    """One minibatch step."""
    estimate = potential.estimate(state.weights, keys, tick)
    velocity = langevin(state.velocity, keep=c["momentum"], gradient=estimate.gradient, rate=-1.0,
                        keys=keys, stream=NOISE, tick=tick)  # fmt: skip
    weights = langevin(
        state.weights, gradient=velocity, rate=c["rate"], keys=keys, stream=NOISE, tick=tick
    )
    return State(weights, velocity, state.step + 1), Info(estimate.loss, estimate.error)
