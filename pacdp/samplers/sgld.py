"""Stochastic gradient Langevin dynamics (Welling and Teh 2011) for exp(-τ R̂(w)) N(w; 0, base_std² I).

    w ← w - h_t (∇R̂(w; batch) + w / (τ base_std²)) + √(2 h_t / τ) N(0, I),   h_t = step_size t^-decay

In Langevin time the step is η = 2h/τ: w + ½η ∇ log target + √η N(0, I). A bounded loss has no normalisable target
under Lebesgue measure (exp(-τR̂) stays above a positive constant), so the Gaussian base measure is not optional.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pacdp.samplers.types import Info, Potential, Sampler, gaussian_like, require_positive


@dataclass(frozen=True, slots=True, kw_only=True)
class SGLD:
    """Settings of a run of SGLD."""

    tau: float
    """Inverse temperature τ of the target; the paper's private setting is √n. Thermal noise is √(2/τ)."""
    step_size: float = 0.1
    decay: float = 0.0
    base_std: float = 1.0
    """Standard deviation of the Gaussian base measure."""
    batch_size: int = 128
    clip_norm: float | None = None
    """Per-example clipping norm; set, it also makes batches Poisson and the normaliser fixed."""

    def __post_init__(self) -> None:
        require_positive(tau=self.tau, step_size=self.step_size, base_std=self.base_std, batch_size=self.batch_size)

    @property
    def gradients_per_step(self) -> int:
        """Minibatch gradients that one step evaluates."""
        return 1

    @property
    def thermal_noise(self) -> float:
        """√(2/τ), the paper's measure of temperature."""
        return math.sqrt(2.0 / self.tau)


class State(NamedTuple):
    """Weights and the number of steps taken."""

    weights: Float[Tensor, " dim"]
    step: int


def build(settings: SGLD, potential: Potential) -> Sampler:
    """SGLD on ``potential``."""
    return Sampler(init, partial(step, settings, potential))


def init(weights: Float[Tensor, " dim"]) -> State:
    """Start at ``weights``."""
    return State(weights.clone(), 0)


def step(settings: SGLD, potential: Potential, state: State, generator: torch.Generator) -> tuple[State, Info]:
    """One Langevin step: the batch is drawn first, then the noise."""
    rate = settings.step_size * (state.step + 1) ** -settings.decay
    shrink = 1.0 - rate / (settings.tau * settings.base_std**2)
    estimate = potential.estimate(state.weights, generator)
    noise = gaussian_like(state.weights, generator)
    weights = state.weights * shrink
    weights.add_(estimate.gradient, alpha=-rate).add_(noise, alpha=math.sqrt(2.0 * rate / settings.tau))
    return State(weights, state.step + 1), Info(estimate.loss, estimate.error)
