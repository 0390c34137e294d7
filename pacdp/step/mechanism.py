"""The public numbers of a private run, and how its contributions are computed."""

from dataclasses import dataclass
from typing import Literal

from bounds import _check
from pacdp.errors import require_finite, require_fraction
from pacdp.schedules import Schedule
from pacdp.step.budget import PrivacyBudget

GradSampleMode = Literal["reference", "ghost"]
MODES: tuple[GradSampleMode, ...] = ("reference", "ghost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mechanism:
    """The public numbers of a private run; its unit is an example, or a person with all of their records."""

    clip_norm: float
    """C, the norm to which each unit's contribution is clipped."""
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
    """More units than that are cut into parts for memory's sake; changes no number but rounding."""
    vectorise: bool = True
    """Run people side by side where the network allows it; otherwise one after the other."""
    budget: PrivacyBudget | None = None
    """Training halts before the step that would overspend it."""

    def __post_init__(self) -> None:
        require_finite(clip_norm=self.clip_norm, expected_batch_size=self.expected_batch_size)
        require_fraction(sample_rate=self.sample_rate)
        require_mode(self.grad_sample_mode)
        _check.count(steps=self.steps)
        if self.max_physical_batch is not None:
            _check.count(max_physical_batch=self.max_physical_batch)
        if not isinstance(self.budget, PrivacyBudget | None):
            raise ValueError(f"budget must be a PrivacyBudget or None, got {self.budget!r}")

    @property
    def public_size(self) -> float:
        """expected_batch_size / sample_rate: the number of units as far as it is public."""
        return self.expected_batch_size / self.sample_rate


def require_mode(mode: object) -> None:
    """Refuse what is no way to a clipped sum, by raising ValueError."""
    if mode is not None and mode not in MODES:
        raise ValueError(
            f"grad_sample_mode must be one of {', '.join(MODES)}, or None to choose, got {mode!r}"
        )
