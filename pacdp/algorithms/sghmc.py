"""Stochastic gradient Hamiltonian Monte Carlo (Chen, Fox and Guestrin 2014, eq. 15).

    v ← (1 - a) v - h_t (∇R̂(w; batch) + w / (τ base_std²)) + √(2 a h_t / τ) N(0, I)
    w ← w + v,                                                                h_t = step_size t^-decay

The target is exp(-τ R̂(w)) N(w; 0, base_std² I): underdamped Langevin dynamics of time step √h and friction a/√h, with
the velocity scaled by √h. The gradient's own noise is not subtracted from the friction (their B̂ = 0), so that a large
step heats the chain.
"""

from dataclasses import field
from typing import ClassVar

import numpy as np
from torch import Tensor

from bounds.record import record
from pacdp.algorithms.chain import Coefficients, LangevinStep, Thermal, step_sizes
from pacdp.algorithms.sampler import Info, Motion, Potential
from pacdp.chains import NOISE, Keys, langevin
from pacdp.schedules import Factor
from pacdp.store.canonical import JOINED_LATER


@record
class SGHMC(Thermal):
    """Settings of a run of SGHMC."""

    State: ClassVar = Motion
    tau: float
    """Inverse temperature τ of the target."""
    step_size: float = 0.01
    decay: float | Factor = 0.0
    """h_t = step_size t^-decay, or step_size decay(t) for a function of t = 1, 2, ..."""
    friction: float = 0.1
    """a, the share of the velocity lost in a step."""
    base_std: float = 1.0
    batch_size: int = 128
    clip_norm: None = None  # type: ignore[assignment]
    keep_norms: bool = field(default=False, metadata=JOINED_LATER)
    """Keep Σ_i ‖g_i‖² of every gradient, for certificates of the weights that a run ends with (:mod:`pacdp.certify.
    trajectory`); without clip_norm only."""
    every_record: bool = field(default=False, metadata=JOINED_LATER)
    """Every record is in every batch, once; batch_size is then the number of records."""
    cooling: float | Factor = field(default=0.0, metadata=JOINED_LATER)
    """τ grows by t^cooling at step t, or by cooling(t) for a function of t = 1, 2, ..."""

    def step(self, t: int) -> LangevinStep:
        """v ← keep · v - rate · ∇R̂ + pull · w + scale · ξ at step t = 1, 2, ..., for w ← w + v after it."""
        h = step_sizes(self.step_size, self.decay, t)
        a, tau = self.friction, self.tau_at(t)
        return LangevinStep(
            keep=1.0 - a,
            rate=h,
            pull=-h / (tau * self.base_std**2),
            scale=np.sqrt(2.0 * a * h / tau),
        )

    @staticmethod
    def transition(
        potential: Potential, state: Motion, c: Coefficients, keys: Keys, tick: int | Tensor
    ) -> tuple[Motion, Info]:
        """One step of velocity, then of position."""
        w, v = state.weights, state.velocity
        estimate = potential.estimate(w, keys, tick)
        v = langevin(
            v, gradient=estimate.gradient, centre=w, **c, keys=keys, stream=NOISE, tick=tick
        )
        return Motion(w + v, v, state.step + 1), Info.of(estimate)
