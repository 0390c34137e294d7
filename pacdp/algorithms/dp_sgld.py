"""DP-SGLD in the two published conventions, and one that is Langevin dynamics at a stated temperature.

All are DP-SGD, w ← w - lr_t (Σ_i clip_C(g_i) + N(0, (σ_t C)² I)) / B - lr_t ∇r(w)/n, with ties between lr_t and σ_t;
g_i are gradients of per-example losses ℓ_i, r = -ln p is the prior's energy, n = B/q the public size, and
h_t = step_size (1 + t/decay_offset)^-decay.

* "gradient-slot": Knolle et al. 2021, Algorithm 1 and equations 8 and 9. lr_t = h_t, σ_t = √(2 h_t τ), the noise on the
  sum of clipped gradients, where DP-SGD has it. The update's noise has standard deviation h_t √(2 h_t τ) C/B, which is
  Langevin dynamics on the mean loss at temperature h_t² τ C²/B², falling to 0 with h_t: not SGLD at temperature τ. Late
  steps are the least private.
* "parameter-slot": Zhang, Bu et al. 2021. w ← w - c h (n/B Σ_i clip_C(g_i) + ∇r) + √(κh) ξ, hence by their Theorem 1
  DP-SGD with lr = c n h and σ = √κ B/(c n C √h). (c, κ), which their text leaves open, is (½, 1) in Welling and Teh's
  SGLD, and (1, 2) is the same in half the time; both target exp(-Σℓ_i - r) but for clipping. Other pairs target
  temperature κ/(2c).
* "tempered": w ← w - h_t (mean gradient + ∇r/n) + √(2 h_t τ) ξ, Langevin dynamics for exp(-(mean loss + r/n)/τ);
  τ = 1/n is the Bayesian posterior. σ_t = (B/C) √(2τ/h_t): it grows as h_t falls, late steps are the most private.
"""

import math
from typing import Literal, assert_never

from bounds import _check
from bounds.privacy import one_of
from bounds.record import record
from pacdp.algorithms.algorithm import Descent
from pacdp.errors import require_positive, require_share
from pacdp.layers.priors import Law, Prior
from pacdp.schedules import Schedule, value_at
from pacdp.step.mechanism import Mechanism

Convention = Literal["gradient-slot", "parameter-slot", "tempered"]


@record
class DPSGLD(Descent):
    """Settings of DP-SGLD. The convention has no default: they differ by orders of magnitude in epsilon.

    Formal guarantee: all iterates of a chain together, snapshots included, are the composition of the Poisson-sampled
    Gaussian mechanisms in its event, add-remove adjacency. Several chains compose:
    ``joined(one.event, other.event)``. Whether the iterates are posterior samples is another question.
    """

    NAME = "DP-SGLD"
    FIXES_NOISE = True
    convention: Convention
    """How step size and noise are tied together: see the module's head."""
    step_size: float | Schedule = 2.0
    decay: float = 0.0
    decay_offset: float = 1.0
    temperature: float = 1.0
    """τ of the gradient slot, and of tempered dynamics in units of the mean loss."""
    drift: float = 0.5
    """c of the parameter slot, the factor of the gradient."""
    noise: float = 1.0
    """κ of the parameter slot: the noise has variance κh."""
    pre_noise: float = 0.0
    """ρ, a standard deviation: noise on each example's gradient reduces the bias of clipping and buys no privacy."""
    prior: Law | Prior = "none"
    prior_std: float = 1.0
    burn_in: float = 0.5
    """Share of the planned steps before the first snapshot."""
    snapshots: int = 0
    """How many weights are kept, whose predictions are averaged: the last so many of those at equal distances after
    burn-in, and all of these where they are fewer."""

    def __post_init__(self) -> None:
        one_of(Convention, convention=self.convention)
        require_positive(temperature=self.temperature, drift=self.drift, noise=self.noise,
                         decay_offset=self.decay_offset)  # fmt: skip
        if not callable(self.step_size):
            require_positive(step_size=self.step_size)
        require_share(burn_in=self.burn_in)
        _check.real(decay=self.decay)
        _check.nonnegative(pre_noise=self.pre_noise)
        _check.whole(snapshots=self.snapshots)

    def size_at(self, step: int) -> float:
        """h_t; raises ValueError where it is not positive, as a step without noise or of noise alone would have it."""
        size = value_at(step, step_size=self.step_size)
        size *= (1.0 + step / self.decay_offset) ** -self.decay
        if not 0.0 < size < math.inf:
            raise ValueError(
                f"step_size must be positive at every step, got {size!r} with its decay at step {step}, counted from 0"
            )
        return size

    def rate_at(self, step: int, mechanism: Mechanism) -> float:
        """c n h_t in the parameter slot, and h_t elsewhere."""
        if self.convention == "parameter-slot":
            return self.drift * mechanism.public_size * self.size_at(step)
        return self.size_at(step)

    def noise_at(self, step: int, mechanism: Mechanism) -> float:
        """√(2 h_t τ), or √κ B/(c n C √h_t), or (B/C) √(2τ/h_t)."""
        h = self.size_at(step)
        divisor = mechanism.expected_batch_size
        match self.convention:
            case "gradient-slot":
                return math.sqrt(2.0 * h * self.temperature)
            case "parameter-slot":
                scale = self.drift * mechanism.public_size * mechanism.fixed_clip_norm
                return math.sqrt(self.noise / h) * divisor / scale
            case "tempered":
                return math.sqrt(2.0 * self.temperature / h) * divisor / mechanism.fixed_clip_norm
            case _:
                assert_never(self.convention)

    def keeps(self, steps: int, mechanism: Mechanism) -> bool:
        """After burn-in weights are kept at equal distances, ``snapshots`` at most and the last ones."""
        burn_in = math.floor(self.burn_in * mechanism.steps)
        if not self.snapshots or steps <= burn_in:
            return False
        left = mechanism.steps - burn_in
        distance = max(1, left // self.snapshots)
        return steps in range(burn_in + distance, mechanism.steps + 1, distance)[-self.snapshots :]
