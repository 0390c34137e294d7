"""Gaussian weights as something to differentiate: coordinates in which the prior is a standard normal law.

For a prior N(m, s²) of each weight the posterior is N(m + s ν, (s e^ρ)²), and

    KL(Q‖P) = ½ Σ [ν² + e^(2ρ) - 1 - 2ρ].

ρ is one number for the whole network, for each parameter tensor, for each row or for each weight; with k weights to a ρ
the coordinate is θ = √(2k) ρ. At the prior the second derivative of the divergence by every coordinate, ν or θ, is 1,
so that one step size suits all of them, whatever the scales of the prior and however many weights share a ρ. Weights
whose prior has standard deviation 0 are fixed: they have no coordinates.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from pacdp.posterior import GaussianPosterior

Spread = Literal["fixed", "isotropic", "layer", "row", "diagonal"]
"""Which weights share one ratio of standard deviations: none is trained, all, those of a parameter, of a row, none."""
_WHOLE = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinates:
    """A posterior near ``prior``, as leaves for an optimiser."""

    prior: GaussianPosterior
    shifts: Mapping[str, Tensor]
    """ν by parameter; absent where the prior is fixed."""
    widths: Mapping[str, Tensor]
    """θ by parameter, or one for all under ``*``."""
    shared: Mapping[str, int]
    """How many weights there are to each number of ``widths``."""

    @classmethod
    def at(
        cls,
        prior: GaussianPosterior,
        *,
        spread: Spread,
        means: bool = True,
        device: torch.device | str = "cpu",
    ) -> "Coordinates":
        """The prior's own coordinates, all zero; with ``means=False`` the means are not trained.

        Raises:
            ValueError: no weight of the prior is random, or one tensor has fixed and random weights.
        """
        random = {name: _is_random(name, std) for name, std in prior.stds.items()}
        names = [name for name, yes in random.items() if yes]
        if not names:
            raise ValueError(
                "expected a prior with a positive standard deviation somewhere, got fixed weights alone"
            )
        moved = _moved(prior, device)
        shapes = _SHAPES[spread](moved, names)
        sizes = {name: moved.means[name].numel() for name in names}
        sizes[_WHOLE] = sum(sizes.values())
        widths = {
            name: torch.zeros(shape, device=device, requires_grad=True)
            for name, shape in shapes.items()
        }
        return cls(
            prior=moved,
            shifts={name: torch.zeros_like(moved.means[name], requires_grad=True) for name in names}
            if means
            else {},
            widths=widths,
            shared={name: sizes[name] // width.numel() for name, width in widths.items()},
        )

    def leaves(self) -> list[Tensor]:
        """What an optimiser moves."""
        return [*self.shifts.values(), *self.widths.values()]

    def log_ratio(self, name: str) -> Tensor | float:
        """ρ of parameter ``name``: ln of its standard deviation over the prior's."""
        key = _WHOLE if _WHOLE in self.widths else name
        return self.widths[key] * (2.0 * self.shared[key]) ** -0.5 if key in self.widths else 0.0

    def mean(self, name: str) -> Tensor:
        """m + s ν."""
        mean = self.prior.means[name]
        return mean + self.prior.stds[name] * self.shifts[name] if name in self.shifts else mean

    def std(self, name: str) -> Tensor:
        """s e^ρ."""
        ratio = self.log_ratio(name)
        return (
            self.prior.stds[name] * torch.exp(ratio)
            if isinstance(ratio, Tensor)
            else self.prior.stds[name]
        )

    def kl_nats(self) -> Float[Tensor, ""]:
        """The divergence in nats, in float64, unrounded."""
        moved = [shift.double().square().sum() for shift in self.shifts.values()]
        spread: list[Tensor] = []
        for name, width in self.widths.items():
            twice = 2.0 * width.double() * (2.0 * self.shared[name]) ** -0.5
            spread.append(self.shared[name] * (torch.expm1(twice) - twice).sum())
        return (
            0.5 * torch.stack([*moved, *spread]).sum()
            if moved or spread
            else torch.zeros((), dtype=torch.float64)
        )

    def draw(self, generator: torch.Generator) -> dict[str, Tensor]:
        """One draw of all weights, differentiable; fixed weights as they are."""
        drawn: dict[str, Tensor] = {}
        for name, mean in self.prior.means.items():
            if not bool((self.prior.stds[name] > 0).any()):
                drawn[name] = mean
                continue
            noise = torch.randn(
                mean.shape, generator=generator, dtype=mean.dtype, device=generator.device
            )
            drawn[name] = torch.addcmul(self.mean(name), self.std(name), noise.to(mean.device))
        return drawn

    @torch.no_grad()
    def posterior(self) -> GaussianPosterior:
        """The law that the coordinates name now."""
        return GaussianPosterior(
            means={name: self.mean(name).detach().clone() for name in self.prior.means},
            stds={name: self.std(name).detach().clone() for name in self.prior.means},
            buffers=self.prior.buffers,
        )


def _none(prior: GaussianPosterior, names: list[str]) -> dict[str, tuple[int, ...]]:
    return {}


def _one(prior: GaussianPosterior, names: list[str]) -> dict[str, tuple[int, ...]]:
    return {_WHOLE: ()}


def _by_layer(prior: GaussianPosterior, names: list[str]) -> dict[str, tuple[int, ...]]:
    return {name: () for name in names}


def _by_row(prior: GaussianPosterior, names: list[str]) -> dict[str, tuple[int, ...]]:
    shapes = {name: tuple(prior.means[name].shape) for name in names}
    return {name: (*shape[:1], *[1] * (len(shape) - 1)) for name, shape in shapes.items()}


def _by_weight(prior: GaussianPosterior, names: list[str]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(prior.means[name].shape) for name in names}


_SHAPES: dict[Spread, Callable[[GaussianPosterior, list[str]], dict[str, tuple[int, ...]]]] = {
    "fixed": _none, "isotropic": _one, "layer": _by_layer, "row": _by_row, "diagonal": _by_weight,
}  # fmt: skip


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
