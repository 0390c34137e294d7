"""DP-SGLD in the two published conventions, and one that is Langevin dynamics at a stated temperature.

All are DP-SGD, w ← w - lr_t (Σ_i clip_C(g_i) + N(0, (σ_t C)² I)) / B - lr_t ∇r(w)/n, with ties between lr_t and σ_t;
g_i are gradients of per-example losses ℓ_i, r = -ln p is the prior's energy, n = B/q the public size.

* :class:`GradientSlot`: Knolle et al. 2021. lr_t = α_t, σ_t = √(2 α_t τ), the noise on the sum of clipped gradients,
  where DP-SGD has it. The update's noise has standard deviation α_t √(2 α_t τ) C/B, which is Langevin
  dynamics on the mean loss at temperature α_t² τ C²/B², falling to 0 with α_t: not SGLD at temperature τ. Late steps
  are the least private.
* :class:`ParameterSlot`: Zhang, Bu et al. 2021. w ← w - c η (n/B Σ_i clip_C(g_i) + ∇r) + √(κη) ξ, hence by their
  Theorem 1 DP-SGD with lr = c n η and σ = √κ B/(c n C √η). (c, κ) = (½, 1) is Welling and Teh's SGLD, (1, 2) the
  same in half the time; both target exp(-Σℓ_i - r) but for clipping. Other pairs target temperature κ/(2c).
* :class:`Tempered`: w ← w - α_t (mean gradient + ∇r/n) + √(2 α_t τ) ξ, Langevin dynamics for exp(-(mean loss + r/n)/τ);
  τ = 1/n is the posterior. σ_t = (B/C) √(2τ/α_t): it grows as α_t falls, late steps are the most private.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from pacdp.algorithms.algorithm import Descent
from pacdp.algorithms.method import Law, Method, law_of
from pacdp.errors import require_positive
from pacdp.layers.priors import Prior
from pacdp.schedules import Polynomial, Schedule, as_schedule
from pacdp.step.mechanism import Mechanism


@runtime_checkable
class Convention(Protocol):
    """How step size and noise are tied together."""

    def learning_rate(self, step: int, mechanism: Mechanism) -> float:
        """DP-SGD's lr at a logical step."""
        ...

    def noise_multiplier(self, step: int, mechanism: Mechanism) -> float:
        """DP-SGD's σ at a logical step."""
        ...

    @property
    def pre_noise(self) -> float:
        """Standard deviation of the noise on each example's gradient before clipping."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientSlot:
    """Knolle et al. 2021, Algorithm 1 and equations 8 and 9. Not SGLD at ``temperature``: see the module's head."""

    step_size: Schedule | float
    """α_t."""
    temperature: float
    """τ."""
    pre_noise: float = 0.0
    """ρ, a standard deviation; reduces the bias of clipping and buys no privacy."""

    def __post_init__(self) -> None:
        require_positive(temperature=self.temperature)

    def learning_rate(self, step: int, mechanism: Mechanism) -> float:
        """α_t."""
        del mechanism
        return as_schedule(self.step_size)(step)

    def noise_multiplier(self, step: int, mechanism: Mechanism) -> float:
        """√(2 α_t τ)."""
        return math.sqrt(2.0 * self.learning_rate(step, mechanism) * self.temperature)

    def effective_temperature(self, step: int, mechanism: Mechanism) -> float:
        """α_t² τ C²/B²: the temperature on the mean loss that a step's noise amounts to."""
        scale = (
            self.learning_rate(step, mechanism)
            * mechanism.fixed_clip_norm
            / mechanism.expected_batch_size
        )
        return scale**2 * self.temperature


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterSlot:
    """Zhang, Bu et al. 2021; the constants c and κ, which their text leaves open, are settings."""

    step_size: Schedule | float
    """η_t."""
    drift: float
    """c, the factor of the gradient."""
    noise: float
    """κ: the noise has variance κη."""

    def __post_init__(self) -> None:
        require_positive(drift=self.drift, noise=self.noise)

    @property
    def pre_noise(self) -> float:
        """None."""
        return 0.0

    def learning_rate(self, step: int, mechanism: Mechanism) -> float:
        """c n η_t."""
        return self.drift * mechanism.public_size * as_schedule(self.step_size)(step)

    def noise_multiplier(self, step: int, mechanism: Mechanism) -> float:
        """√κ B/(c n C √η_t) (Theorem 1)."""
        root = math.sqrt(self.noise / as_schedule(self.step_size)(step))
        scale = self.drift * mechanism.public_size * mechanism.fixed_clip_norm
        return root * mechanism.expected_batch_size / scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Tempered:
    """Langevin dynamics on the mean loss at ``temperature``; 1/n is the Bayesian posterior."""

    step_size: Schedule | float
    """α_t."""
    temperature: float
    """τ, in units of the mean loss."""
    pre_noise: float = 0.0

    def __post_init__(self) -> None:
        require_positive(temperature=self.temperature)

    def learning_rate(self, step: int, mechanism: Mechanism) -> float:
        """α_t."""
        del mechanism
        return as_schedule(self.step_size)(step)

    def noise_multiplier(self, step: int, mechanism: Mechanism) -> float:
        """(B/C) √(2τ/α_t)."""
        root = math.sqrt(2.0 * self.temperature / self.learning_rate(step, mechanism))
        return root * mechanism.expected_batch_size / mechanism.fixed_clip_norm


@dataclass(frozen=True, slots=True, kw_only=True)
class DPSGLD(Descent):
    """Settings of DP-SGLD. The convention has no default: they differ by orders of magnitude in epsilon.

    Formal guarantee: all iterates of a chain together, snapshots included, are the composition of the Poisson-sampled
    Gaussian mechanisms in its event, add-remove adjacency. Several chains compose:
    ``joined(one.event, other.event)``. Whether the iterates are posterior samples is another question.
    """

    mechanism: Mechanism
    convention: Convention
    prior: Prior | None = None
    burn_in: int = 0
    """Steps before the first snapshot may be taken."""
    thin: int = 0
    """Every so many steps after burn-in a snapshot is kept; 0 for none."""

    def __post_init__(self) -> None:
        if self.burn_in < 0 or self.thin < 0:
            raise ValueError(
                f"burn_in and thin must be at least 0, got {self.burn_in} and {self.thin}"
            )
        if self.thin and self.burn_in + self.thin > self.mechanism.steps:
            raise ValueError(
                f"no snapshot would be kept: burn_in {self.burn_in} + thin {self.thin} exceeds the "
                f"{self.mechanism.steps} steps"
            )

    @property
    def pre_noise(self) -> float:
        """The convention's."""
        return self.convention.pre_noise

    def rate_at(self, step: int) -> float:
        """The convention's, at a logical step."""
        return self.convention.learning_rate(step, self.mechanism)

    def noise_at(self, step: int) -> float:
        """The convention's, at a logical step."""
        return self.convention.noise_multiplier(step, self.mechanism)

    def keeps(self, step: int) -> bool:
        """Every ``thin``-th step after ``burn_in``."""
        return self.thin > 0 and step > self.burn_in and (step - self.burn_in) % self.thin == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DPSGLDMethod(Method):
    """Langevin dynamics on clipped gradients; step size and temperature fix the noise."""

    KIND, NAME, FIXES_NOISE = "DPSGLD", "DP-SGLD", True
    NOISY_SUMS = True
    convention: Literal["gradient-slot", "parameter-slot", "tempered"] = "gradient-slot"
    step_size: float = 2.0
    decay: float = 0.0
    """Step t is step_size · (1 + t/decay_offset)^-decay."""
    decay_offset: float = 1.0
    temperature: float = 1.0
    """τ of the gradient slot and of tempered dynamics."""
    drift: float = 0.5
    """c of the parameter slot."""
    noise: float = 1.0
    """κ of the parameter slot."""
    pre_noise: float = 0.0
    prior: Law = "none"
    prior_std: float = 1.0
    burn_in: float = 0.5
    """Share of the planned steps before the first snapshot."""
    snapshots: int = 0
    """Weights kept after burn-in, whose predictions are averaged."""

    def algorithm(self, mechanism: Mechanism, noise: Callable[[], Schedule]) -> DPSGLD:
        """See :class:`pacdp.algorithms.method.Method`."""
        del noise
        burn_in = math.floor(self.burn_in * mechanism.steps)
        thin = max(1, (mechanism.steps - burn_in) // self.snapshots) if self.snapshots else 0
        return DPSGLD(
            mechanism=mechanism,
            convention=self._tied(),
            prior=law_of(self.prior, self.prior_std),
            burn_in=burn_in,
            thin=thin,
        )

    def _tied(self) -> Convention:
        size = Polynomial(initial=self.step_size, power=self.decay, offset=self.decay_offset)
        if self.convention == "parameter-slot":
            return ParameterSlot(step_size=size, drift=self.drift, noise=self.noise)
        kind = GradientSlot if self.convention == "gradient-slot" else Tempered
        return kind(step_size=size, temperature=self.temperature, pre_noise=self.pre_noise)
