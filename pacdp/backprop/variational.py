"""Gaussian weights as something to differentiate: coordinates in which the prior is a standard normal law.

For a prior N(m, s²) of each weight the posterior is N(m + s ν, (s e^ρ)²), and

    KL(Q‖P) = ½ Σ [ν² + e^(2ρ) - 1 - 2ρ].

ρ is one number for each parameter tensor, or for each weight; with k weights to a ρ the coordinate is θ = √(2k) ρ. At
the prior the second derivative of the divergence by every coordinate, ν or θ, is 1, so that one step size suits all of
them, whatever the scales of the prior and however many weights share a ρ. Weights whose prior has standard deviation 0
are fixed: they have no coordinates.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from pacdp.posterior import GaussianPosterior

Spread = Literal["layer", "diagonal"]
"""Which weights share one ratio of standard deviations: those of a parameter, or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinates:
    """A posterior near ``prior``, as leaves for an optimiser."""

    prior: GaussianPosterior
    shifts: Mapping[str, Tensor]
    """ν by parameter; absent where the prior is fixed, like what follows."""
    widths: Mapping[str, Tensor]
    """θ by parameter."""

    @classmethod
    def at(
        cls, prior: GaussianPosterior, *, spread: Spread, device: torch.device | str = "cpu"
    ) -> "Coordinates":
        """The prior's own coordinates, all zero.

        Raises:
            ValueError: no weight of the prior is random, or one tensor has fixed and random weights.
        """
        moved = _moved(prior, device)
        random = {
            name: moved.means[name] for name, std in moved.stds.items() if _is_random(name, std)
        }
        if not random:
            raise ValueError(
                "expected a prior with a positive standard deviation somewhere, got fixed weights alone"
            )

        def zeros(shape: tuple[int, ...]) -> Tensor:
            return torch.zeros(shape, device=device, requires_grad=True)

        return cls(
            prior=moved,
            shifts={
                name: torch.zeros_like(mean, requires_grad=True) for name, mean in random.items()
            },
            widths={
                name: zeros(() if spread == "layer" else tuple(mean.shape))
                for name, mean in random.items()
            },
        )

    def leaves(self) -> list[Tensor]:
        """What an optimiser moves."""
        return [*self.shifts.values(), *self.widths.values()]

    def shared(self, name: str) -> int:
        """How many weights there are to each number of ``widths``."""
        return self.shifts[name].numel() // self.widths[name].numel()

    def mean(self, name: str) -> Tensor:
        """m + s ν."""
        mean = self.prior.means[name]
        return mean + self.prior.stds[name] * self.shifts[name] if name in self.shifts else mean

    def std(self, name: str) -> Tensor:
        """s e^ρ."""
        std = self.prior.stds[name]
        if name not in self.widths:
            return std
        return std * torch.exp(self.widths[name] * (2.0 * self.shared(name)) ** -0.5)

    def kl_nats(self) -> Float[Tensor, ""]:
        """The divergence in nats, in float64, unrounded."""
        parts = [shift.double().square().sum() for shift in self.shifts.values()]
        for name, width in self.widths.items():
            twice = 2.0 * width.double() * (2.0 * self.shared(name)) ** -0.5
            parts.append(self.shared(name) * (torch.expm1(twice) - twice).sum())
        return 0.5 * torch.stack(parts).sum()

    def draw(self, generator: torch.Generator) -> dict[str, Tensor]:
        """One draw of all weights, differentiable; fixed weights as they are."""
        drawn = dict(self.prior.means)
        for name in drawn:
            if name not in self.shifts:
                continue
            mean = self.mean(name)
            noise = torch.randn(
                mean.shape, generator=generator, dtype=mean.dtype, device=generator.device
            )
            drawn[name] = torch.addcmul(mean, self.std(name), noise.to(mean.device))
        return drawn

    @torch.no_grad()
    def posterior(self) -> GaussianPosterior:
        """The law that the coordinates name now."""
        return GaussianPosterior(
            means={name: self.mean(name).detach().clone() for name in self.prior.means},
            stds={name: self.std(name).detach().clone() for name in self.prior.means},
            buffers=self.prior.buffers,
        )


def _is_random(name: str, std: Tensor) -> bool:
    positive = std > 0
    if bool(positive.any()) and not bool(positive.all()):
        raise ValueError(
            f"expected the prior of {name} to be random or fixed as a whole, got both: split the parameter"
        )
    return bool(positive.any())


def _moved(prior: GaussianPosterior, device: torch.device | str) -> GaussianPosterior:
    return GaussianPosterior(
        means={name: value.detach().to(device) for name, value in prior.means.items()},
        stds={name: value.detach().to(device) for name, value in prior.stds.items()},
        buffers={name: value.to(device) for name, value in prior.buffers.items()},
    )
