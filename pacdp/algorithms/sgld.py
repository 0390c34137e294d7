"""Stochastic gradient Langevin dynamics (Welling and Teh 2011) for exp(-τ R̂(w)) N(w; 0, base_std² I).

    w ← w - h_t (∇R̂(w; batch) + w / (τ base_std²)) + √(2 h_t / τ) N(0, I),   h_t = step_size t^-decay

In Langevin time the step is η = 2h/τ: w + ½η ∇ log target + √η N(0, I). A bounded loss has no normalisable target
under Lebesgue measure (exp(-τR̂) stays above a positive constant), so the Gaussian base measure is not optional.
"""

from dataclasses import field
from typing import ClassVar

import numpy as np
from torch import Tensor

from bounds.accounting import Event
from bounds.record import record
from pacdp.algorithms.chain import (
    Coefficients,
    LangevinStep,
    Thermal,
    step_sizes,
)
from pacdp.algorithms.sampler import Info, Position, Potential
from pacdp.chains import NOISE, Keys, langevin
from pacdp.schedules import Factor
from pacdp.step.langevin import langevin_event
from pacdp.store.canonical import JOINED_LATER


@record
class SGLD(Thermal):
    """Settings of a run of SGLD."""

    State: ClassVar = Position
    tau: float
    """Inverse temperature τ of the target; the paper's private setting is √n. Thermal noise is √(2/τ)."""
    step_size: float = 0.1
    decay: float | Factor = 0.0
    """h_t = step_size t^-decay, or step_size decay(t) for a function of t = 1, 2, ..."""
    base_std: float = 1.0
    """Standard deviation of the Gaussian base measure."""
    batch_size: int = 128
    clip_norm: float | None = None
    """Per-example clipping norm; set, it also makes batches Poisson and the normaliser fixed."""
    keep_norms: bool = field(default=False, metadata=JOINED_LATER)
    """Keep Σ_i ‖g_i‖² of every gradient, for certificates of the weights that a run ends with (:mod:`pacdp.certify.
    trajectory`); without clip_norm only."""
    every_record: bool = field(default=False, metadata=JOINED_LATER)
    """Every record is in every batch, once; batch_size is then the number of records."""
    cooling: float | Factor = field(default=0.0, metadata=JOINED_LATER)
    """τ grows by t^cooling at step t, or by cooling(t) for a function of t = 1, 2, ..."""

    def step(self, t: int) -> LangevinStep:
        """w ← keep · w - rate · ∇R̂ + scale · ξ at step t = 1, 2, ..."""
        h, heat = step_sizes(self.step_size, self.decay, t), 1.0 / self.tau_at(t)
        return LangevinStep(
            keep=1.0 - h * heat / self.base_std**2, rate=h, scale=np.sqrt(2.0 * h * heat)
        )

    @staticmethod
    def transition(
        potential: Potential, state: Position, c: Coefficients, keys: Keys, tick: int | Tensor
    ) -> tuple[Position, Info]:
        """One Langevin step."""
        estimate = potential.estimate(state.weights, keys, tick)
        weights = langevin(
            state.weights, gradient=estimate.gradient, **c, keys=keys, stream=NOISE, tick=tick
        )
        return Position(weights, state.step + 1), Info.of(estimate)

    def promise(self, n: int, steps: int, *, start: int = 0) -> Event | None:
        """What ``steps`` steps on n records reveal, those after the first ``start``, converged or not; guarantee as for
        :func:`pacdp.step.langevin.langevin_event`.

        Raises:
            ValueError: no clip norm, steps without noise, or numbers out of range.
        """
        alike = self.decay == self.cooling == 0.0
        path = self.noise_path(1) if alike else self.noise_path(steps, start)
        each = steps if alike else min(1, steps)
        return langevin_event(
            *path, each=each, batch_size=self.batch_size, clip_norm=self.clip_norm, n=n
        )
