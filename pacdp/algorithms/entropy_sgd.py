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

from dataclasses import field
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

import bounds
from bounds.accounting import Event
from bounds.record import record
from pacdp.algorithms.chain import (
    Coefficients,
    LangevinStep,
    NoisePath,
    Thermal,
    at_stationarity,
    columns_of,
    step_sizes,
)
from pacdp.algorithms.sampler import Info, Position, Potential
from pacdp.chains import NOISE, OUTER_NOISE, Keys, langevin
from pacdp.posterior import LocalGibbs
from pacdp.schedules import Factor
from pacdp.step.event import NoPrivacy
from pacdp.step.langevin import langevin_event
from pacdp.store.canonical import JOINED_LATER


@record
class EntropySGD(Thermal):
    """Settings of a run of Entropy-SGD (``beta`` None) or Entropy-SGLD; defaults are the paper's for MNIST."""

    State: ClassVar = Position
    ending_inside: ClassVar = {
        "alpha": 1.0,
        "outer_keep": 0.0,
        "outer_pull": 1.0,
        "outer_scale": 0.0,
    }
    """μ is the last local weights, and w becomes μ."""
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
    outer_decay: float | Factor = 0.6
    """η_t = outer_step_size/(γτ) t^-outer_decay, or with outer_decay(t) for a function of t = 1, 2, ..."""
    inner_step_size: float = 2.0
    """η'_1 in units of 1/τ; 2 makes the first gradient step of length 1."""
    inner_decay: float = 1.0
    batch_size: int = 128
    clip_norm: float | None = None
    """Per-example clipping norm of the inner loop; set, it also makes batches Poisson and the normaliser fixed."""
    keep_norms: bool = field(default=False, metadata=JOINED_LATER)
    """Keep Σ_i ‖g_i‖² of every gradient, for certificates of the weights that a run ends with (:mod:`pacdp.certify.
    trajectory`); without clip_norm only."""
    every_record: bool = field(default=False, metadata=JOINED_LATER)
    """Every record is in every batch, once; batch_size is then the number of records."""

    def step(self, t: int | np.ndarray) -> LangevinStep:
        """w' ← keep · w' + pull · w - rate · ∇R̂ + scale · ξ, the inner step of gradient number t = 1, 2, ..."""
        i = (t - 1) % self.inner_steps + 1
        h = 0.5 * self.inner_step_size * i**-self.inner_decay  # ½ τ η'_i
        pull = h * self.gamma
        return LangevinStep(keep=1.0 - pull, rate=h, pull=pull, scale=np.sqrt(2.0 * h / self.tau))

    def inner_loop(self) -> LangevinStep:
        """All its steps at once, [L, chains]."""
        return self.step(np.arange(1.0, self.inner_steps + 1)[:, None])

    def coefficients(self, t: int) -> Coefficients:
        """Those of the inner loop, α, and the outer step t = 1, 2, ...: w ← keep · w + pull · μ + scale · ξ."""
        rate = step_sizes(self.outer_step_size, self.outer_decay, t)  # η_t γτ
        heat = 1.0 / (np.inf if self.beta is None else self.beta)  # 1/β, none without outer noise
        eta = rate / (self.gamma * self.tau) * heat  # η_t/β
        keep = 1.0 - 0.5 * rate - 0.5 * eta / self.base_std**2
        return {
            **self.inner_loop()._asdict(),
            "alpha": self.alpha,
            "outer_keep": keep,
            "outer_pull": 0.5 * rate,
            "outer_scale": np.sqrt(eta),
        }

    @staticmethod
    def transition(
        potential: Potential, state: Position, c: Coefficients, keys: Keys, tick: int | Tensor
    ) -> tuple[Position, Info]:
        """One outer step: L inner gradients, then one move of the weights."""
        centre = state.weights
        mean, seen = local_mean(potential, centre, c, keys, tick)
        weights = langevin(centre, keep=c["outer_keep"], centre=mean, pull=c["outer_pull"], scale=c["outer_scale"],
                           keys=keys, stream=OUTER_NOISE, tick=tick)  # fmt: skip
        displacement = (mean - centre).square().sum(dim=1)
        return Position(weights, state.step + 1), seen._replace(displacement=displacement)

    def promise(self, n: int, steps: int, *, start: int = 0) -> Event | None:
        """What ``steps`` outer steps on n records reveal, wherever they ``start``, converged or not, with any schedule
        of outer steps, which cost nothing; guarantee as for :func:`pacdp.step.langevin.langevin_event`.

        Raises:
            ValueError: no clip norm, steps without noise, or numbers out of range.
        """
        del start  # all outer steps are alike
        path = self.noise_path(1)
        return langevin_event(
            *path, each=steps, batch_size=self.batch_size, clip_norm=self.clip_norm, n=n
        )

    def noise_path(self, steps: int, start: int = 0) -> NoisePath:
        """See :class:`Chain`: of all inner steps; the outer update computes with what these gave."""
        del start
        return NoisePath.of([columns_of([self]).inner_loop()] * steps)

    @property
    def name(self) -> str:
        """With the L where the outer chain has noise."""
        return "Entropy-SGD" if self.beta is None else "Entropy-SGLD"

    @property
    def gradients_per_step(self) -> int:
        """L."""
        return self.inner_steps

    @property
    def thermal_std(self) -> float:
        """(γτ)^-½, the standard deviation of the local prior around the weights."""
        return (self.gamma * self.tau) ** -0.5

    def posterior(self, weights: Float[Tensor, " dim"]) -> LocalGibbs:
        """The Gibbs classifier around the weights."""
        return LocalGibbs(weights=weights, tau=self.tau, gamma=self.gamma)

    def target_privacy(
        self, *, oscillation: float, n: int, step: int | None
    ) -> bounds.PureDP | NoPrivacy:
        """epsilon = 2 β τ Δ / n, for exp(βF) (Dziugaite and Roy 2018, Theorem 4.4); nothing without outer noise."""
        del step
        if self.beta is None:
            return NoPrivacy(
                reason="Entropy-SGD adds no noise to its weights; only Entropy-SGLD does"
            )
        return at_stationarity(beta=self.beta, tau=self.tau, oscillation=oscillation, n=n)


def local_mean(
    potential: Potential,
    centre: Float[Tensor, "chains dim"],
    c: Coefficients,
    keys: Keys,
    tick: int | Tensor,
) -> tuple[Float[Tensor, "chains dim"], Info]:
    """μ_L, the inner loops' running average, and what they saw of their minibatches."""
    local, spare, mean = centre.clone(), torch.empty_like(centre), centre.clone()
    loss, error = centre.new_zeros(len(centre)), centre.new_zeros(len(centre))
    steps, norms = len(c["rate"]), list[Tensor]()
    for i in range(steps):
        at = tick * steps + i
        estimate = potential.estimate(local, keys, at)
        langevin(local, keep=c["keep"][i], gradient=estimate.gradient, rate=c["rate"][i], centre=centre,
                 pull=c["pull"][i], scale=c["scale"][i], average=mean, alpha=c["alpha"],
                 keys=keys, stream=NOISE, tick=at, out=spare)  # fmt: skip
        local, spare = spare, local
        loss += estimate.loss
        error += estimate.error
        if estimate.squared_norms is not None:
            norms.append(estimate.squared_norms)
    return mean, Info(
        loss / steps, error / steps, squared_norms=torch.stack(norms, dim=1) if norms else None
    )
