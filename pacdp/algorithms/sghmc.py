"""Stochastic gradient Hamiltonian Monte Carlo (Chen, Fox and Guestrin 2014, eq. 15).

    v ← (1 - a) v - h_t (∇R̂(w; batch) + w / (τ base_std²)) + √(2 a h_t / τ) N(0, I)
    w ← w + v,                                                                h_t = step_size t^-decay

The target is exp(-τ R̂(w)) N(w; 0, base_std² I): underdamped Langevin dynamics of time step √h and friction a/√h, with
the velocity scaled by √h. The gradient's own noise is not subtracted from the friction (their B̂ = 0), so that a large
step heats the chain.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from pacdp.algorithms.chain import NoisePath, Thermal, require_own_schedule
from pacdp.algorithms.sampler import (
    Coefficients,
    Info,
    Potential,
    Sampler,
    columns_of,
    of_chains,
    rates,
)
from pacdp.canonical import JOINED_LATER
from pacdp.chains import NOISE, Keys, langevin
from pacdp.errors import require_fraction, require_positive
from pacdp.schedules import Factor

_NUMBERS = ("step_size", "decay", "tau", "base_std", "friction", "cooling")


@dataclass(frozen=True, slots=True, kw_only=True)
class SGHMC(Thermal):
    """Settings of a run of SGHMC."""

    tau: float
    """Inverse temperature τ of the target."""
    step_size: float = 0.01
    decay: float = 0.0
    friction: float = 0.1
    """a, the share of the velocity lost in a step."""
    base_std: float = 1.0
    batch_size: int = 128
    clip_norm: None = None
    keep_norms: bool = field(default=False, metadata=JOINED_LATER)
    """Keep Σ_i ‖g_i‖² of every gradient, for certificates of the weights that a run ends with (:mod:`pacdp.certify.
    trajectory`); without clip_norm only."""
    every_record: bool = field(default=False, metadata=JOINED_LATER)
    """Every record is in every batch, once; batch_size is then the number of records."""
    cooling: float = field(default=0.0, metadata=JOINED_LATER)
    """τ grows by t^cooling at step t."""

    def __post_init__(self) -> None:
        require_positive(
            tau=self.tau,
            step_size=self.step_size,
            base_std=self.base_std,
            batch_size=self.batch_size,
        )
        require_fraction(friction=self.friction)

    @property
    def shared(self) -> tuple[str, ...]:
        """Which records a batch has, and what is kept of them, too."""
        return ("batch_size", "keep_norms", "every_record")

    def noise_path(self, steps: int) -> NoisePath:
        """See :class:`Chain`; the noise enters the velocity with the gradient."""
        return NoisePath.of(partial(coefficients, columns_of([self], *_NUMBERS), None), steps)


class State(NamedTuple):
    """Weights, velocity and the number of steps taken."""

    weights: Float[Tensor, "chains dim"]
    velocity: Float[Tensor, "chains dim"]
    step: int


def build(
    settings: SGHMC | Sequence[SGHMC], potential: Potential, *, step_size: Factor | None = None
) -> Sampler:
    """SGHMC on ``potential``, with one setting for all chains or one a chain; ``step_size(t)`` as for SGLD."""
    every = of_chains(settings)
    require_own_schedule(every, step_size)
    columns = columns_of(every, *_NUMBERS)
    return Sampler(init, partial(coefficients, columns, step_size), partial(transition, potential))


def init(weights: Float[Tensor, "chains dim"]) -> State:
    """Start at ``weights`` at rest."""
    return State(weights.clone(), torch.zeros_like(weights), 0)


def coefficients(
    columns: Mapping[str, np.ndarray], step_size: Factor | None, step: int
) -> Coefficients:
    """Step size, what is kept of the velocity, pull to the origin, and noise scale."""
    rate = rates(columns["step_size"], columns["decay"], step + 1, step_size)
    friction, tau = columns["friction"], columns["tau"] * (step + 1.0) ** columns["cooling"]
    return {
        "rate": rate, "keep": 1.0 - friction, "pull": -rate / (tau * columns["base_std"] ** 2),
        "scale": np.sqrt(2.0 * friction * rate / tau),
    }  # fmt: skip


def transition(
    potential: Potential, state: State, c: Coefficients, keys: Keys, tick: int | Tensor
) -> tuple[State, Info]:
    """One step of velocity, then of position."""
    estimate = potential.estimate(state.weights, keys, tick)
    velocity = langevin(state.velocity, keep=c["keep"], gradient=estimate.gradient, rate=c["rate"],
                        centre=state.weights, pull=c["pull"], scale=c["scale"],
                        keys=keys, stream=NOISE, tick=tick)  # fmt: skip
    return State(state.weights + velocity, velocity, state.step + 1), Info.of(estimate)
