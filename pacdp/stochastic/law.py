"""The law of one parameter of a network, and its draws for each example of a batch."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bounds.record import record
from pacdp.posterior import GaussianPosterior, odd_names
from pacdp.stochastic.noise import Draws, gaussians, normals
from pacdp.trials.reachable import require_all_named


@record
class Law:
    """N(mean, std²) with independent coordinates; ``stream`` tells its random numbers from other parameters'.

    With a ``factor`` L the rows of a mean [outputs, inputs] are independent, each with the covariance std² L Lᵀ.
    """

    mean: Tensor
    std: Tensor
    stream: int
    random: bool
    """Whether any standard deviation is positive."""
    factor: Tensor | None = None

    @classmethod
    def fixed(cls, value: Tensor) -> "Law":
        """A value that is not random."""
        return cls(mean=value, std=value.new_zeros(()), stream=-1, random=False)

    def mixed(self, inputs: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        """Lᵀ x, or x where there is no factor: row · x has the noise of independent weights that meet this."""
        return inputs if self.factor is None else inputs @ self.factor

    @property
    def one_std_a_row(self) -> bool:
        """Whether the standard deviation depends on the first index (the output) alone."""
        return self.std.numel() == 1 or (
            self.std.ndim == self.mean.ndim
            and self.std.numel() == self.std.shape[0] == self.mean.shape[0]
        )

    def draw(self, draws: Draws) -> Float[Tensor, "batch ..."]:
        """One independent draw for each example, [batch, *shape]."""
        if self.factor is not None:
            noise = normals(draws, self.stream, self.mean.numel(), like=self.mean).unflatten(
                1, self.mean.shape
            )
            return self.mean + self.std * (noise @ self.factor.T)
        if not self.random:
            return self.mean.expand(len(draws.ticks), *self.mean.shape)
        std = self.std if self.std.numel() == 1 else self.std.expand(self.mean.shape)
        flat = gaussians(draws, self.stream, self.mean.numel(), mean=self.mean, std=std)
        return flat.unflatten(1, self.mean.shape) if self.mean.ndim else flat[:, 0]


def laws_of(posterior: GaussianPosterior, device: torch.device) -> dict[str, Law]:
    """The laws of all parameters on ``device``; the stream is the parameter's place in the posterior."""
    return {
        name: Law(
            mean=mean.detach().to(device),
            std=posterior.stds[name].detach().to(device, mean.dtype),
            stream=stream,
            random=bool((posterior.stds[name] > 0).any()),
            factor=None
            if name not in posterior.factors
            else posterior.factors[name].detach().to(device),
        )
        for stream, (name, mean) in enumerate(posterior.means.items())
    }


def require_law_of(module: nn.Module, posterior: GaussianPosterior) -> None:
    """Refuse a posterior over other weights than the module's.

    Raises:
        ValueError: parameters or buffers differ in name or shape, or there are weights that are no parameters.
    """
    require_all_named(module)
    for what, own, given in (
        ("parameters", module.named_parameters(), posterior.means),
        ("buffers", module.named_buffers(), posterior.buffers),
    ):
        odd = odd_names(dict(own), given)
        if odd:
            raise ValueError(
                f"expected a posterior over the {what} of the module, got other names or shapes in {odd}: make it "
                "with GaussianPosterior.around(module, std=...)"
            )
