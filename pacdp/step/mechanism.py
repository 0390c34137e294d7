"""The public numbers of a private run, and how its contributions are computed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from bounds import _check
from pacdp.errors import require_finite, require_fraction
from pacdp.schedules import Schedule
from pacdp.step.budget import PrivacyBudget
from pacdp.step.clip import LARGEST, SMALLEST, Clip, ClippingRule, require_clip_norm

GradSampleMode = Literal["reference", "ghost"]
MODES: tuple[GradSampleMode, ...] = ("reference", "ghost")
_FURTHEST = 1e6
"""An adaptive clip norm stays within this factor of the first one, and among those that are taken."""
_UP = 1.0 + 2.0**-40
"""Covers the rounding of a multiplier beside a count's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileClipping:
    """Flat clipping whose norm follows a quantile of the units' norms (Andrew, Thakkar, McMahan and Ramaswamy 2021).

        C_(t+1) = C_t exp(-η (b̃_t - γ)),    b̃_t = 1/2 + (Σ_i (b_i - 1/2) + N(0, σ_b²)) / B,    b_i = 1[‖Δ_i‖ ≤ C_t]

    B is the public divisor, so that b̃_t is about the fraction of units within C_t where it is qn.

    Formal guarantee: with the noisy sum, of multiplier σ_Δ, a step releases one Gaussian mechanism of multiplier
    (σ_Δ⁻² + (2σ_b)⁻²)^(-1/2), which is what the event says. All clip norms are post-processing of it.
    """

    count_noise: float
    """σ_b, the standard deviation of the noise on the count, in units; a twentieth of the batch in the paper."""
    quantile: float = 0.5
    """γ, the share of units that are not to be clipped."""
    rate: float = 0.2
    """η."""

    def __post_init__(self) -> None:
        require_finite(count_noise=self.count_noise, rate=self.rate)
        _check.open_probability(quantile=self.quantile)

    def moved(self, clip_norm: float, fraction: float, *, first: float) -> float:
        """C_(t+1) of C_t, b̃_t and C_0."""
        steps = math.log(clip_norm / first) - self.rate * (fraction - self.quantile)
        furthest = math.log(_FURTHEST)
        moved = first * math.exp(min(max(steps, -furthest), furthest))
        return min(max(moved, SMALLEST), LARGEST)

    def noise_beside(self, noise_multiplier: float) -> float:
        """σ_Δ = (σ⁻² - (2σ_b)⁻²)^(-1/2), rounded up: sum and count together cost what σ costs alone.

        Raises:
            ValueError: the count alone costs more.
        """
        whole = noise_multiplier * _UP
        if not 2.0 * self.count_noise > whole:
            raise ValueError(
                f"count_noise must exceed half of the noise multiplier {noise_multiplier:g} that the count is to be "
                f"paid from, got {self.count_noise}: a twentieth of the batch size is usual"
            )
        return 1.0 / math.sqrt(whole**-2.0 - (2.0 * self.count_noise) ** -2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """The public numbers of a private run; its unit is an example, or a person with all of their records."""

    clip_norm: float
    """C, the norm to which each unit's contribution is clipped, at first where it adapts."""
    noise_multiplier: Schedule | float | None = None
    """σ_t, the standard deviation of the noise over C at step t = 0, 1, ...; None where the algorithm's own numbers fix
    the noise, as DP-SGLD's and P3SGD's do."""
    sample_rate: float
    """q, the probability with which a unit takes part in a step."""
    expected_batch_size: float
    """The divisor of every clipped sum: a public constant, such as q times a rough number of units."""
    steps: int
    """Noisy updates, fixed in advance."""
    grad_sample_mode: GradSampleMode | None = None
    """How clipped gradients of examples are added up: None takes ghost clipping where the network is of known layers,
    it can do what is asked and agrees with the reference at set-up, and the reference elsewhere; "ghost" is refused
    where it cannot, as by people, whose contributions go by the reference."""
    max_physical_batch: int | None = None
    """More units than that are cut into parts for memory's sake, which changes no number but rounding. Bayesian layers
    draw once for all parts. A network of your own that draws a number for a whole pass, as a coin of a batch, draws
    another in each part where "ghost" is asked for, and epsilon does not cover that."""
    budget: PrivacyBudget | None = None
    """Training halts before the step that would overspend it."""
    clipping: ClippingRule | QuantileClipping = "flat"
    """How contributions are clipped (:func:`pacdp.step.clip.clip_factors`), or by a norm that adapts."""

    def __post_init__(self) -> None:
        require_clip_norm(clip_norm=self.clip_norm)
        require_finite(expected_batch_size=self.expected_batch_size)
        require_fraction(sample_rate=self.sample_rate)
        require_mode(self.grad_sample_mode)
        # NumPy's numbers and fractions too
        for name in ("clip_norm", "expected_batch_size", "sample_rate"):
            object.__setattr__(self, name, float(getattr(self, name)))
        _check.count(steps=self.steps)
        if self.max_physical_batch is not None:
            _check.count(max_physical_batch=self.max_physical_batch)
        if not isinstance(self.budget, PrivacyBudget | None):
            raise ValueError(f"budget must be a PrivacyBudget or None, got {self.budget!r}")
        if not isinstance(self.clipping, QuantileClipping):
            require_clipping(self.clipping, others=", or a QuantileClipping")

    @property
    def adapts(self) -> bool:
        """Whether the clip norm changes from step to step."""
        return isinstance(self.clipping, QuantileClipping)

    @property
    def clip(self) -> Clip:
        """How contributions are clipped at the first step."""
        rule = "flat" if isinstance(self.clipping, QuantileClipping) else self.clipping
        return Clip(self.clip_norm, rule=rule)

    @property
    def fixed_clip_norm(self) -> float:
        """C, for what is tied to one clip norm.

        Raises:
            ValueError: it adapts.
        """
        if self.adapts:
            raise ValueError(
                "clipping adapts the clip norm, and noise, step size or audit is tied to a fixed one here: leave "
                "clipping at 'flat' or 'automatic'"
            )
        return self.clip_norm

    def releases(self, noise_multipliers: Sequence[float]) -> list[float]:
        """The multipliers of a step's releases: those of the sum, and 2σ_b of the count where the norm adapts."""
        if not isinstance(self.clipping, QuantileClipping):
            return [*noise_multipliers]
        return [*noise_multipliers, 2.0 * self.clipping.count_noise]

    @property
    def public_size(self) -> float:
        """expected_batch_size / sample_rate: the number of units as far as it is public."""
        return self.expected_batch_size / self.sample_rate


def require_clipping(clipping: object, *, others: str = "") -> None:
    """Refuse what is no rule of clipping, by raising ValueError; ``others`` says what would be taken beside these."""
    if clipping == "per_layer":
        raise ValueError(
            "clipping 'per_layer' bounds each layer's gradient by a norm C_l of its own, and one example moves the sum "
            "by the root of Σ C_l²: take clipping='flat' with that number as the clip norm, which needs the same noise "
            "and shortens no gradient more"
        )
    if clipping not in get_args(ClippingRule):
        raise ValueError(
            f"clipping must be one of {', '.join(get_args(ClippingRule))}{others}, got {clipping!r}"
        )


def require_mode(mode: object) -> None:
    """Refuse what is no way to a clipped sum, by raising ValueError."""
    if mode is not None and mode not in MODES:
        raise ValueError(
            f"grad_sample_mode must be one of {', '.join(MODES)}, or None to choose, got {mode!r}"
        )
