"""Priors over single weights: gradients of -ln p for Langevin drifts, KL divergences for Bayes by Backprop."""

import math
from dataclasses import dataclass
from typing import Literal, Protocol, get_args, runtime_checkable

import torch
from torch import Tensor

from pacdp.errors import require_positive


@runtime_checkable
class Prior(Protocol):
    """A law of one weight, the same for all weights, which are independent."""

    def energy_gradient(self, weights: Tensor) -> Tensor:
        """d(-ln p)/dw, elementwise."""
        ...

    def kl_gradient(self, mean: Tensor, std: Tensor) -> tuple[Tensor, Tensor]:
        """Derivatives of KL(N(mean, std²)‖this law) by mean and by std, elementwise."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Normal:
    """N(0, std²)."""

    std: float

    def __post_init__(self) -> None:
        require_positive(std=self.std)

    def energy_gradient(self, weights: Tensor) -> Tensor:
        """w/std²."""
        return weights / self.std**2

    def kl_gradient(self, mean: Tensor, std: Tensor) -> tuple[Tensor, Tensor]:
        """(mean/s², std/s² - 1/std)."""
        return mean / self.std**2, std / self.std**2 - 1.0 / std


@dataclass(frozen=True, slots=True, kw_only=True)
class Laplace:
    """Density exp(-|w|/scale)/(2 scale)."""

    scale: float

    def __post_init__(self) -> None:
        require_positive(scale=self.scale)

    def energy_gradient(self, weights: Tensor) -> Tensor:
        """sign(w)/scale."""
        return weights.sign() / self.scale

    def kl_gradient(self, mean: Tensor, std: Tensor) -> tuple[Tensor, Tensor]:
        """(erf(mean/(std√2))/scale, √(2/π) exp(-mean²/(2 std²))/scale - 1/std)."""
        ratio = mean / std
        density = math.sqrt(2.0 / math.pi) * (-0.5 * ratio.square()).exp()
        return torch.erf(ratio / math.sqrt(2.0)) / self.scale, density / self.scale - 1.0 / std


Law = Literal["none", "normal", "laplace"]
"""The laws of a weight that have a name, of which "none" is flat."""


def law_of(prior: Law | Prior, std: float) -> Prior | None:
    """The prior of that name and scale, or the one that is given itself; None for a flat one.

    Raises:
        ValueError: no law has that name, or a scale that would be ignored.
    """
    if prior not in ("normal", "laplace") and std != 1.0:
        raise ValueError(
            f"prior_std is the scale of prior 'normal' or 'laplace', and would be ignored with {prior!r}: leave it out"
        )
    match prior:
        case "none":
            return None
        case "normal":
            return Normal(std=std)
        case "laplace":
            return Laplace(scale=std)
        case Prior():
            return prior
        case _:
            raise ValueError(
                f"expected prior to be one of {', '.join(get_args(Law))}, or a law of a weight, got {prior!r}"
            )
