"""Preconditioned SGLD (Li, Chen, Carlson and Carin 2016) for exp(-τ R̂(w)) N(w; 0, base_std² I), with its correction.

With U(w) = R̂(w) + |w|² / (2 τ base_std²) and g its minibatch gradient, coordinate by coordinate,

    V ← α V + (1 - α) g²,   G = 1/(λ + √V),
    w ← w - h_t G g + (h_t/τ) Γ + √(2 h_t G / τ) N(0, I),   h_t = step_size t^-decay.

The metric G moves with w, so that without Γ_i = ∂G_i/∂w_i the chain has another stationary law as h → 0: V then follows
w, and Γ_i = -g_i H_ii / (√V_i (λ + √V_i)²), with H_ii the curvature of U. (The derivative at a fixed past has a factor
1 - α more; the paper drops Γ as small.) At a step h that moves w within the memory 1/(1 - α) of V, the law is biased
still. H_ii is estimated by v_i (∇R̂(w + r v) - ∇R̂(w))_i / r on the same minibatch, v_i = ±1: one more gradient a step.
From step ``freeze_after`` on V stays fixed, Γ is 0 and costs nothing.
"""

from typing import ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

import bounds
from bounds.record import record
from pacdp.algorithms.chain import Coefficients, Thermal, step_sizes
from pacdp.algorithms.sampler import Info, Potential
from pacdp.chains import NOISE, PROBE, Keys, normal_like
from pacdp.schedules import Factor
from pacdp.step.event import NoPrivacy


class Preconditioned(NamedTuple):
    """Weights, running mean of squared gradients, and the number of steps taken; the first gradient sets its scale."""

    weights: Float[Tensor, "chains dim"]
    squares: Float[Tensor, "chains dim"]
    step: int


@record
class PSGLD(Thermal):
    """Settings of a run of preconditioned SGLD."""

    State: ClassVar = Preconditioned
    vectors: ClassVar = 14
    """Those of metric, curvature and the second gradient too."""
    tau: float
    """Inverse temperature τ of the target."""
    step_size: float = 1e-3
    decay: float | Factor = 0.0
    """h_t = step_size t^-decay, or step_size decay(t) for a function of t = 1, 2, ..."""
    smoothing: float = 0.99
    """α, the weight of the past in the running mean of squared gradients."""
    stabiliser: float = 1e-5
    """λ, which bounds the metric by 1/λ."""
    correction: bool = True
    """Whether Γ is added, at the cost of a second gradient a step."""
    freeze_after: int | None = None
    """The step from which the metric stays as it is; None: never."""
    probe: float = 1e-3
    """r, the length of the finite difference, a coordinate."""
    base_std: float = 1.0
    batch_size: int = 128
    clip_norm: None = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        Thermal.__post_init__(self)
        if self.freeze_after is not None and self.freeze_after < 1:
            raise ValueError(
                f"expected freeze_after >= 1, got {self.freeze_after}: the metric needs a gradient"
            )

    def coefficients(self, t: int) -> Coefficients:
        """Step size, temperature, weight of the base measure, weight of the past, and whether Γ is added."""
        moving = self.freeze_after is None or t <= self.freeze_after
        past = self.smoothing if moving else np.ones_like(self.smoothing)
        return {
            "rate": step_sizes(self.step_size, self.decay, t),
            "heat": 1.0 / self.tau,
            "shrink": 1.0 / (self.tau * self.base_std**2),
            "past": past if t > 1 else np.zeros_like(past),
            "stabiliser": self.stabiliser,
            "probe": self.probe,
            "correct": moving and self.correction,
        }

    @staticmethod
    def transition(
        potential: Potential, state: Preconditioned, c: Coefficients, keys: Keys, tick: int | Tensor
    ) -> tuple[Preconditioned, Info]:
        """One preconditioned Langevin step."""
        w = state.weights
        rate, heat, shrink, past, stabiliser, probe = (
            torch.as_tensor(c[name], dtype=w.dtype, device=w.device).reshape(-1, 1)
            for name in ("rate", "heat", "shrink", "past", "stabiliser", "probe")
        )
        estimate = potential.estimate(w, keys, tick)
        slope = estimate.gradient + shrink * w
        info = Info(estimate.loss.clone(), estimate.error.clone())
        squares = past * state.squares + (1.0 - past) * slope.square()
        root = squares.sqrt()
        metric = 1.0 / (stabiliser + root)
        noise = normal_like(w, keys=keys, stream=NOISE, tick=tick)
        weights = w - rate * metric * slope + (2.0 * rate * heat * metric).sqrt() * noise
        if c["correct"]:
            sign = normal_like(w, keys=keys, stream=PROBE, tick=tick).sign()
            beside = w + probe * sign
            shifted = potential.estimate(beside, keys, tick).gradient + shrink * beside
            curvature = sign * (shifted - slope) / probe
            tiny = torch.finfo(w.dtype).tiny
            by_weight = -slope * curvature * metric.square() / root.clamp(min=tiny)
            weights = weights + rate * heat * by_weight
        return Preconditioned(weights, squares, state.step + 1), info

    @property
    def gradients_per_step(self) -> int:
        """Two with the correction, before the metric is frozen."""
        return 2 if self.correction else 1

    def target_privacy(
        self, *, oscillation: float, n: int, step: int | None
    ) -> bounds.PureDP | NoPrivacy:
        """As SGLD's, once the metric is frozen."""
        if self.freeze_after is None or (step is not None and step <= self.freeze_after):
            return NoPrivacy(
                reason="while pSGLD's metric moves with the weights its stationary distribution is known in the limit "
                "of small steps alone: set freeze_after, and run on after that step"
            )
        return Thermal.target_privacy(self, oscillation=oscillation, n=n, step=step)
