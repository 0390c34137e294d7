"""Entropy-SGD (Chaudhari et al. 2017) and Entropy-SGLD (Dziugaite and Roy 2018, Algorithm 1, sign corrected).

Both climb the local entropy F(w) = ln ∫ exp(-τ R̂(w') - τγ/2 |w' - w|²) dw', whose gradient is
∇F(w) = τγ (E[w'] - w) with w' from the local Gibbs distribution G ∝ exp(-τ R̂(w')) N(w'; w, (γτ)⁻¹ I). (The paper's
eq. 3 and line 9 print τγ(w - μ), which is -∇F.) One outer step runs L inner SGLD steps from w' = μ = w:

    h_i = ½ τ η'_i,   η'_i = inner_step_size/τ · i^-inner_decay
    w' ← w' - h_i (∇R̂(w'; batch) + γ (w' - w)) + √η'_i N(0, I)
    μ  ← (1 - α) μ + α w'

and then, with η_t = outer_step_size/(γτ) · t^-outer_decay,

    w ← w + ½ η_t τγ (μ - w)                                                      (Entropy-SGD)
    w ← w + ½ η_t τγ (μ - w) - ½ (η_t/β) w / base_std² + √(η_t/β) N(0, I)         (Entropy-SGLD)

The second is Langevin dynamics of step η_t/β for exp(β F(w)) N(w; 0, base_std² I). The base measure is needed:
with a bounded loss F is bounded below, and exp(βF) has infinite mass under Lebesgue measure.

Only the inner loop touches data. With ``clip_norm`` set, its batches are Poisson, its gradients clipped per example and
its normaliser fixed, so each inner step is a Poisson-sampled Gaussian mechanism with noise multiplier
2 · batch_size / (τ clip_norm √η'_i), and the whole trajectory is private whether or not anything has converged.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from pacdp.samplers.langevin import local_step_
from pacdp.samplers.types import Info, Potential, Sampler, gaussian_like, require_fraction, require_positive


@dataclass(frozen=True, slots=True, kw_only=True)
class EntropySGD:
    """Settings of a run of Entropy-SGD (``beta`` None) or Entropy-SGLD; defaults are the paper's for MNIST."""

    tau: float
    """Inverse temperature τ of the local Gibbs distribution; the paper's private setting is √n."""
    gamma: float = 1.0
    """Inverse scope γ: the local prior is N(w, (γτ)⁻¹ I)."""
    beta: float | None = 1.0
    """Inverse temperature β of the outer chain; None leaves out the outer noise: Entropy-SGD."""
    base_std: float = 1.0
    """Standard deviation of the Gaussian base measure of Entropy-SGLD."""
    inner_steps: int = 20
    """L, the SGLD steps of one outer step."""
    alpha: float = 0.75
    """Weight of the newest inner iterate in the running average μ."""
    outer_step_size: float = 0.006
    """η', the paper's base learning rate."""
    outer_decay: float = 0.6
    inner_step_size: float = 2.0
    """η'_1 in units of 1/τ; 2 makes the first gradient step of length 1."""
    inner_decay: float = 1.0
    batch_size: int = 128
    clip_norm: float | None = None
    """Per-example clipping norm of the inner loop; set, it also makes batches Poisson and the normaliser fixed."""

    def __post_init__(self) -> None:
        require_positive(tau=self.tau, gamma=self.gamma, base_std=self.base_std, inner_steps=self.inner_steps,
                         outer_step_size=self.outer_step_size, inner_step_size=self.inner_step_size,
                         batch_size=self.batch_size)  # fmt: skip
        require_fraction(alpha=self.alpha)
        if self.beta is not None:
            require_positive(beta=self.beta)

    @property
    def gradients_per_step(self) -> int:
        """Minibatch gradients that one outer step evaluates."""
        return self.inner_steps

    @property
    def thermal_noise(self) -> float:
        """√(2/τ), the paper's measure of temperature."""
        return math.sqrt(2.0 / self.tau)

    @property
    def prior_std(self) -> float:
        """(γτ)^-½, the standard deviation of the local prior around the weights."""
        return (self.gamma * self.tau) ** -0.5


class State(NamedTuple):
    """Weights and the number of outer steps taken; the inner chain starts afresh from the weights each time."""

    weights: Float[Tensor, " dim"]
    step: int


def build(settings: EntropySGD, potential: Potential) -> Sampler:
    """Entropy-SGD or Entropy-SGLD on ``potential``."""
    return Sampler(init, partial(step, settings, potential))


def init(weights: Float[Tensor, " dim"]) -> State:
    """Start at ``weights``."""
    return State(weights.clone(), 0)


def step(settings: EntropySGD, potential: Potential, state: State, generator: torch.Generator) -> tuple[State, Info]:
    """One outer step: L inner gradients, then one move of the weights."""
    centre = state.weights
    mean, info = local_mean(settings, potential, centre, generator)
    rate = settings.outer_step_size * (state.step + 1) ** -settings.outer_decay  # η_t γτ
    weights = torch.lerp(centre, mean, 0.5 * rate)
    if settings.beta is not None:
        langevin_step = rate / (settings.gamma * settings.tau * settings.beta)  # η_t/β
        weights.add_(centre, alpha=-0.5 * langevin_step / settings.base_std**2)
        weights.add_(gaussian_like(centre, generator), alpha=math.sqrt(langevin_step))
    return State(weights, state.step + 1), info


def local_mean(
    settings: EntropySGD, potential: Potential, centre: Float[Tensor, " dim"], generator: torch.Generator
) -> tuple[Float[Tensor, " dim"], Info]:
    """μ_L, the inner loop's running average, and what its minibatches saw."""
    local, mean, noise = centre.clone(), centre.clone(), torch.empty_like(centre)
    loss, error = centre.new_zeros(()), centre.new_zeros(())
    for i in range(1, settings.inner_steps + 1):
        rate = 0.5 * settings.inner_step_size * i**-settings.inner_decay  # h_i = ½ τ η'_i
        estimate = potential.estimate(local, generator)
        local_step_(local, centre, estimate.gradient, noise, generator,
                    rate=rate, gamma=settings.gamma, tau=settings.tau)  # fmt: skip
        mean.lerp_(local, settings.alpha)
        loss += estimate.loss
        error += estimate.error
    return mean, Info(loss / settings.inner_steps, error / settings.inner_steps)
