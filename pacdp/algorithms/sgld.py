"""Stochastic gradient Langevin dynamics (Welling and Teh 2011) for exp(-τ R̂(w)) N(w; 0, base_std² I).

    w ← w - h_t (∇R̂(w; batch) + w / (τ base_std²)) + √(2 h_t / τ) N(0, I),   h_t = step_size t^-decay

In Langevin time the step is η = 2h/τ: w + ½η ∇ log target + √η N(0, I). A bounded loss has no normalisable target
under Lebesgue measure (exp(-τR̂) stays above a positive constant), so the Gaussian base measure is not optional.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from torch import Tensor

from bounds.accounting import Event
from pacdp.algorithms.chain import LangevinStep, NoisePath, Thermal, require_own_schedule
from pacdp.algorithms.sampler import (
    Coefficients,
    Info,
    Potential,
    Sampler,
    columns_of,
    of_chains,
    rates,
    scheduled,
)
from pacdp.canonical import JOINED_LATER
from pacdp.chains import NOISE, Keys, langevin
from pacdp.errors import require_positive
from pacdp.schedules import Factor
from pacdp.step.langevin import langevin_event

_NUMBERS = ("step_size", "decay", "tau", "base_std", "cooling")


@dataclass(frozen=True, slots=True, kw_only=True)
class SGLD(Thermal):
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
        columns = columns_of([self], *_NUMBERS)
        if step_size is None and temperature is None and self.decay == self.cooling == 0.0:
            first, each = coefficients(columns, None, None, 0), steps
            rates, scales = first["rate"], first["scale"]
        else:
            ran = range(start, start + steps)
            found, each = (
                [coefficients(columns, step_size, temperature, step) for step in ran],
                min(1, steps),
            )
            rates, scales = (
                np.array([one[name][0] for one in found]) for name in ("rate", "scale")
            )
        return langevin_event(
            rates, scales, each=each, batch_size=self.batch_size, clip_norm=self.clip_norm, n=n
        )

    @property
    def shared(self) -> tuple[str, ...]:
        """Clipping too."""
        return ("batch_size", "clip_norm", "keep_norms", "every_record")

    def noise_path(self, steps: int) -> NoisePath:
        """See :class:`Chain`."""
        return NoisePath.of(partial(coefficients, columns_of([self], *_NUMBERS), None, None), steps)

    def langevin_step(self, asked: int) -> LangevinStep:
        """See :class:`Chain`."""
        rate = self.step_size * (asked + 1.0) ** -self.decay
        tau = self.tau * (asked + 1.0) ** self.cooling
        keep = 1.0 - rate / (tau * self.base_std**2)
        return LangevinStep(rate, keep, 0.0, (2.0 * rate / tau) ** 0.5)


class State(NamedTuple):
    """Weights and the number of steps taken."""

    weights: Float[Tensor, "chains dim"]
    step: int


def build(
    settings: SGLD | Sequence[SGLD], potential: Potential, *,
    step_size: Factor | None = None, temperature: Factor | None = None,
) -> Sampler:  # fmt: skip
    """SGLD on ``potential``, with one setting for all chains or one a chain.

    ``step_size(t)`` and ``temperature(t)``, where given, multiply the settings' step size (in place of t^-decay) and
    temperature 1/τ at step t = 1, 2, ...
    """
    every = of_chains(settings)
    require_own_schedule(every, step_size, temperature)
    columns = columns_of(every, *_NUMBERS)
    return Sampler(
        init, partial(coefficients, columns, step_size, temperature), partial(transition, potential)
    )


def init(weights: Float[Tensor, "chains dim"]) -> State:
    """Start at ``weights``."""
    return State(weights.clone(), 0)


def coefficients(
    columns: Mapping[str, np.ndarray],
    step_size: Factor | None,
    temperature: Factor | None,
    step: int,
) -> Coefficients:
    """Step size, what is kept of the weights, and noise scale."""
    rate = rates(columns["step_size"], columns["decay"], step + 1, step_size)
    heat = scheduled(
        1.0 / (columns["tau"] * (step + 1.0) ** columns["cooling"]),
        step + 1,
        temperature,
        "temperature",
    )
    return {
        "rate": rate, "keep": 1.0 - rate * heat / columns["base_std"] ** 2, "scale": np.sqrt(2.0 * rate * heat),
    }  # fmt: skip


def transition(
    potential: Potential, state: State, c: Coefficients, keys: Keys, tick: int | Tensor
) -> tuple[State, Info]:
    """One Langevin step."""
    estimate = potential.estimate(state.weights, keys, tick)
    weights = langevin(state.weights, keep=c["keep"], gradient=estimate.gradient, rate=c["rate"], scale=c["scale"],
                       keys=keys, stream=NOISE, tick=tick)  # fmt: skip
    return State(weights, state.step + 1), Info.of(estimate)
