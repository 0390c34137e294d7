"""Stochastic gradient Langevin dynamics (Welling and Teh 2011) for exp(-τ R̂(w)) N(w; 0, base_std² I).

    w ← w - h_t (∇R̂(w; batch) + w / (τ base_std²)) + √(2 h_t / τ) N(0, I),   h_t = step_size t^-decay

In Langevin time the step is η = 2h/τ: w + ½η ∇ log target + √η N(0, I). A bounded loss has no normalisable target
under Lebesgue measure (exp(-τR̂) stays above a positive constant), so the Gaussian base measure is not optional.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from torch import Tensor

from bounds.accounting import Event
from pacdp.algorithms.chain import (
    Coefficients,
    LangevinStep,
    NoisePath,
    Number,
    Thermal,
    columns_of,
    step_sizes,
)
from pacdp.algorithms.sampler import Info, Position, Potential
from pacdp.chains import NOISE, Keys, langevin
from pacdp.errors import require_positive
from pacdp.schedules import Factor
from pacdp.step.langevin import langevin_event
from pacdp.store.canonical import JOINED_LATER


@dataclass(frozen=True, slots=True, kw_only=True)
class SGLD(Thermal):
    """Settings of a run of SGLD."""

    State: ClassVar = Position
    tau: float
    """Inverse temperature τ of the target; the paper's private setting is √n. Thermal noise is √(2/τ)."""
    step_size: float = 0.1
    decay: float = 0.0
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
    cooling: float = field(default=0.0, metadata=JOINED_LATER)
    """τ grows by t^cooling at step t."""

    def __post_init__(self) -> None:
        require_positive(
            tau=self.tau,
            step_size=self.step_size,
            base_std=self.base_std,
            batch_size=self.batch_size,
        )

    def step(
        self, t: int, *, step_size: Factor | None = None, temperature: Factor | None = None
    ) -> LangevinStep:
        """w ← keep · w - rate · ∇R̂ + scale · ξ at step t = 1, 2, ...

        ``step_size(t)`` takes the place of t^-decay, and ``temperature(t)`` multiplies 1/τ.
        """
        h = step_sizes(self.step_size, self.decay, t, step_size)
        heat = _temperature(1.0 / (self.tau * float(t) ** self.cooling), t, temperature)  # 1/τ
        return LangevinStep(
            keep=1.0 - h * heat / self.base_std**2, rate=h, scale=np.sqrt(2.0 * h * heat)
        )

    def coefficients(
        self, t: int, *, step_size: Factor | None = None, temperature: Factor | None = None
    ) -> Coefficients:
        """See :class:`Chain`."""
        return self.step(t, step_size=step_size, temperature=temperature)._asdict()

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

    def promise(
        self,
        n: int,
        steps: int,
        *,
        start: int = 0,
        step_size: Factor | None = None,
        temperature: Factor | None = None,
    ) -> Event | None:
        """What ``steps`` steps on n records reveal, those after the first ``start``, converged or not; guarantee as for
        :func:`pacdp.step.langevin.langevin_event`. Schedules are those that ``build`` was given.

        Raises:
            ValueError: no clip norm, steps without noise, or numbers out of range.
        """
        numbers, each = range(start + 1, start + steps + 1), min(1, steps)
        if step_size is None and temperature is None and self.decay == self.cooling == 0.0:
            numbers, each = (1,), steps  # all steps are alike
        own = columns_of([self])
        made = [own.step(t, step_size=step_size, temperature=temperature) for t in numbers]
        return langevin_event(
            *NoisePath.of(made),
            each=each,
            batch_size=self.batch_size,
            clip_norm=self.clip_norm,
            n=n,
        )

    @property
    def shared(self) -> tuple[str, ...]:
        """Clipping too."""
        return ("batch_size", "clip_norm", "keep_norms", "every_record")


def _temperature(heat: Number, t: int, schedule: Factor | None) -> Number:
    """heat schedule(t).

    Raises:
        ValueError: this is no finite number > 0.
    """
    found = heat if schedule is None else heat * schedule(t)
    bad = ~(np.isfinite(found) & (found > 0.0))
    if np.any(bad):
        one = float(np.extract(bad, found)[0])
        raise ValueError(
            f"the schedule gives temperature = {one} at step {t}: expected a finite number > 0"
        )
    return found
