"""The private algorithms as configuration: plain numbers that a command line can set and JSON can hold.

What they mean is said by the trainers of :mod:`pacdp.private`, which :mod:`experiments.private.algorithms` makes of
them. Nothing here imports torch, so that listing the recipes is quick.
"""

from dataclasses import dataclass
from typing import Literal

Convention = Literal["gradient-slot", "parameter-slot", "tempered"]
Law = Literal["none", "normal", "laplace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DPSGD:
    """Clipped, noisy gradient descent."""

    learning_rate: float = 2.0
    momentum: float = 0.0
    prior: Law = "none"
    prior_std: float = 1.0
    """Scale of the prior on the weights; a normal one is weight decay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DPAdam:
    """Adam on clipped, noisy gradients."""

    learning_rate: float = 0.002
    prior: Law = "none"
    prior_std: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DPSGLD:
    """Langevin dynamics on clipped gradients; step size and temperature fix the noise."""

    convention: Convention = "gradient-slot"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DPBBP:
    """Bayes by backprop: means and standard deviations of the weights learnt on clipped, noisy gradients."""

    learning_rate: float = 2.0
    momentum: float = 0.0
    prior: Literal["normal", "laplace"] = "normal"
    prior_std: float = 1.0
    initial_std: float = 0.02
    draws: int = 1
    """Networks drawn a step."""
    kl_weight: float = 1.0
    test_draws: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DPMCDropout:
    """Dropout in training and in prediction."""

    rate: float = 0.1
    learning_rate: float = 2.0
    momentum: float = 0.0
    prior: Law = "none"
    prior_std: float = 1.0
    draws: int = 1
    """Masks an example a step."""
    test_draws: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class P3SGD:
    """Local SGD by person, noise whose scale is chosen privately."""

    noise_scales: tuple[float, ...] = (3.0, 1.0)
    learning_rate: float = 0.1
    """Of the local SGD."""
    local_epochs: int = 1
    local_batch_size: int = 0
    """Records in a local step; 0 takes all of the person's."""
    selection_epsilon: float = 0.1**0.5
    score_bound: float = 3.0
    nested: bool = False
    """Candidates share their noise, which costs as much as the quietest alone; the paper draws it anew for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserDPSGD:
    """DP-SGD whose unit of privacy is a person with all of their records."""

    learning_rate: float = 0.5
    records_at_once: int = 0
    """A person's records go through the network so many at a time; 0 takes them together."""


Method = DPSGD | DPAdam | DPSGLD | DPBBP | DPMCDropout | P3SGD | UserDPSGD
NAMES = {
    "DPSGD": "DP-SGD", "DPAdam": "DP-Adam", "DPSGLD": "DP-SGLD", "DPBBP": "DP-BBP", "DPMCDropout": "DP-MC-Dropout",
    "P3SGD": "P3SGD", "UserDPSGD": "user-level DP-SGD",
}  # fmt: skip


def by_person(method: Method) -> bool:
    """Whether the unit of privacy is a person rather than an example."""
    return isinstance(method, P3SGD | UserDPSGD)


def fixes_noise(method: Method) -> bool:
    """Whether the method's own numbers say how much noise there is."""
    return isinstance(method, DPSGLD | P3SGD)
