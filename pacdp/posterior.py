"""Posteriors: the laws over weights whose risk a certificate bounds."""

import math
from collections.abc import Mapping
from dataclasses import field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

import bounds
from bounds import _check
from pacdp.layers.plain import ONE_AT_A_TIME
from pacdp.store.record import record


@record
class Point:
    """One network, used as it is."""

    weights: Float[Tensor, " dim"]

    def __post_init__(self) -> None:
        _require_vector(self.weights)


@record
class LocalGibbs:
    """Q ∝ exp(-τ R̂(w')) N(w'; weights, (γτ)⁻¹ I): the Gibbs classifier of Entropy-SG(L)D.

    R̂ is the empirical risk under the bounded training loss; each prediction draws fresh weights.
    """

    weights: Float[Tensor, " dim"]
    tau: float
    gamma: float

    def __post_init__(self) -> None:
        _require_vector(self.weights)
        _check.positive(tau=self.tau, gamma=self.gamma)

    @property
    def prior_std(self) -> float:
        """(γτ)^-½, the standard deviation of the prior of which Q is the Gibbs posterior."""
        return (self.gamma * self.tau) ** -0.5


@record
class GaussianPosterior:
    """Independent Gaussian weights: every number of parameter ``name`` is N(means[name], stds[name]²).

    A Gaussian prior is the same record; where it came from is told elsewhere. Standard deviations are what the float
    tensors say, not variances and not their logarithms. Tensors are copied, without gradients: a network that goes on
    training, whose own ones ``state_dict`` and ``detach`` return, moves no prior that was made of them.

    A parameter [outputs, inputs] with a factor L is no longer independent within a row: each row is its mean plus
    std · L ξ, ξ standard normal, so that all rows have the covariance std² L Lᵀ. A prior has no factors: from a prior
    of equal standard deviations every direction costs the same, and L may be made of the bound's own examples.

    Raises:
        ValueError: names of means and stds differ; a value is not finite; a standard deviation is negative or cannot be
            broadcast to its mean; a factor does not fit its parameter.
    """

    means: Mapping[str, Tensor]
    """By the names of ``module.named_parameters()``."""
    stds: Mapping[str, Tensor]
    """One number, or a tensor that broadcasts to the mean, for each name; 0 where a weight is not random."""
    buffers: Mapping[str, Tensor] = field(default_factory=dict)
    """What else the network computes with, such as the running statistics of BatchNorm: fixed, and the same in the
    prior, since statistics of the bound's own examples would be weights that no divergence pays for."""
    factors: Mapping[str, Tensor] = field(default_factory=dict)
    """L for some parameters [outputs, inputs] whose std is one positive number: [inputs, inputs], lower triangular,
    with a positive diagonal."""

    def __post_init__(self) -> None:
        for what in ("means", "stds", "buffers", "factors"):
            given: object = getattr(self, what)
            named = isinstance(given, Mapping)
            if not named or not all(isinstance(each, Tensor) for each in given.values()):
                raise ValueError(
                    f"expected {what} to be a mapping from names to tensors, got {type(given).__name__}"
                )
            own = {name: each.detach().clone() for name, each in getattr(self, what).items()}
            object.__setattr__(self, what, own)  # a network's own tensors move when it trains on
        if self.means.keys() != self.stds.keys() or not self.means:
            odd = sorted(self.means.keys() ^ self.stds.keys())
            raise ValueError(
                f"expected means and stds of the same parameters, at least one, got {odd} in one of them"
            )
        for name, mean in self.means.items():
            _require_law(name, mean, self.stds[name])
        for name, factor in self.factors.items():
            if name not in self.means:
                raise ValueError(
                    f"expected factors of parameters that have a mean, got one of {name}"
                )
            _require_factor(name, factor, self.means[name], self.stds[name])

    def to(self, device: torch.device | str) -> "GaussianPosterior":
        """The same law on a device."""
        return GaussianPosterior(**{
            what: {name: one.to(device) for name, one in getattr(self, what).items()}
            for what in ("means", "stds", "buffers", "factors")
        })  # fmt: skip

    @classmethod
    def around(
        cls, module: nn.Module, *, std: float | Mapping[str, float | Tensor]
    ) -> "GaussianPosterior":
        """Copies of the module's weights as means, its buffers as they are, and ``std`` for all or for each name."""
        with ONE_AT_A_TIME:
            means = {name: value.detach() for name, value in module.named_parameters()}
            buffers = dict(module.named_buffers())
        given = std if isinstance(std, Mapping) else dict.fromkeys(means, std)
        unknown = sorted(given.keys() ^ means.keys())
        if unknown:
            raise ValueError(
                f"expected one std for each parameter of the module, got too many or too few: {unknown}"
            )
        stds = {
            name: torch.as_tensor(given[name], dtype=mean.dtype, device=mean.device)
            for name, mean in means.items()
        }
        return cls(
            means=means,
            stds=stds,
            buffers=buffers,
        )

    def sample(self, generator: torch.Generator) -> dict[str, Tensor]:
        """One draw of all weights, by name."""
        drawn = dict[str, Tensor]()
        for name, mean in self.means.items():
            noise = torch.randn(
                mean.shape, generator=generator, dtype=mean.dtype, device=generator.device
            )
            noise = noise.to(mean.device)
            drawn[name] = mean + self.stds[name] * (
                noise @ self.factors[name].T if name in self.factors else noise
            )
        return drawn

    def kl_nats(self, prior: "GaussianPosterior") -> float:
        """KL(self‖prior) in nats, rounded up; infinite where one law is degenerate and the other is not.

        The sum over the parameters of ``gaussian_kl``, or of ``triangular_gaussian_kl`` where there is a factor, both
        of :mod:`bounds.divergence`, in float64 whatever the type of the tensors. Weights of standard deviation 0 in
        both must be equal and cost nothing; buffers are such weights.

        Formal guarantee: at least the divergence of the two laws that the tensors name, and without factors above it
        by a relative 1.1e-13 at most.

        Raises:
            ValueError: the prior has other parameters, shapes or buffers, or factors.
        """
        _require_no_factors(prior)
        for what, ours, theirs in (
            ("parameters", self.means, prior.means),
            ("buffers", self.buffers, prior.buffers),
        ):
            if odd := odd_names(ours, theirs):
                raise ValueError(
                    f"expected a prior over the same {what}, got other names or shapes in {odd}"
                )
        for name, value in self.buffers.items():
            other = prior.buffers[name]
            if value.dtype != other.dtype or not torch.equal(value.cpu(), other.cpu()):
                return math.inf
        total = math.fsum(self._divergence(prior, name) for name in self.means)
        return math.nextafter(total, math.inf) if total > 0 else total

    def _divergence(self, prior: "GaussianPosterior", name: str) -> float:
        """The divergence of one parameter."""
        mean, std, centre, wide = self._numbers(prior, name)
        if name in self.factors:
            if (wide == 0.0).any():
                return math.inf
            factor = _wide(self.factors[name])
            wide = _over(wide, mean)
            return bounds.divergence.triangular_gaussian_kl(
                mean, factor, centre, wide, std_q=float(std)
            )
        uniform = std.size == wide.size == 1
        std, wide = (
            one.reshape(()) if uniform else _over(one, mean, whole=True) for one in (std, wide)
        )
        fixed = np.broadcast_to((std == 0.0) & (wide == 0.0), mean.shape)
        if ((std == 0.0) != (wide == 0.0)).any() or (mean[fixed] != centre[fixed]).any():
            return math.inf
        free = ~fixed
        if not free.any():
            return 0.0
        std, wide = (one if uniform else one[free] for one in (std, wide))
        return bounds.divergence.gaussian_kl(mean[free], std, centre[free], wide)

    def _numbers(self, prior: "GaussianPosterior", name: str) -> tuple[np.ndarray, ...]:
        """Mean and std of a parameter here and in the prior, in float64."""
        laws = (self.means, self.stds, prior.means, prior.stds)
        return tuple(_wide(each[name]) for each in laws)

    def log_ratio(self, prior: "GaussianPosterior", weights: Mapping[str, Tensor]) -> float:
        """ln (dself/dprior)(weights) in nats, rounded up; weights that are fixed in both laws do not count."""
        _require_no_factors(prior)
        found, ratio = list[float](), bounds.divergence
        for name in self.means:
            drawn, (mean, std, centre, wide) = _wide(weights[name]), self._numbers(prior, name)
            if name in self.factors:
                factor, wide = _wide(self.factors[name]), _over(wide, mean)
                found.append(ratio.triangular_log_density_ratio(drawn, mean, factor, centre, wide,
                                                                std_q=float(std)))  # fmt: skip
                continue
            values = [
                np.broadcast_to(one, mean.shape).ravel() for one in (drawn, mean, std, centre, wide)
            ]
            free = (
                values[2] > 0.0
            )  # fixed weights are equal in both, or the divergence were infinite
            if free.any():
                found.append(ratio.gaussian_log_density_ratio(*(value[free] for value in values)))
        return math.nextafter(math.fsum(found), math.inf)


def _wide(value: Tensor) -> np.ndarray:
    return value.detach().cpu().double().numpy()


def _over(std: np.ndarray, rows: np.ndarray, *, whole: bool = False) -> np.ndarray:
    """One number as it is, or, where there are several or ``whole`` asks for it, one for each of the rows' numbers."""
    return std.reshape(()) if std.size == 1 and not whole else np.broadcast_to(std, rows.shape)


def _require_factor(name: str, factor: Tensor, mean: Tensor, std: Tensor) -> None:
    if (
        mean.ndim != 2
        or factor.shape != (mean.shape[1], mean.shape[1])
        or factor.dtype != mean.dtype
    ):
        raise ValueError(
            f"expected the factor of {name} to be [inputs, inputs] for a mean [outputs, inputs], of one type, got "
            f"{tuple(factor.shape)} of {factor.dtype} for {tuple(mean.shape)} of {mean.dtype}"
        )
    if std.numel() != 1 or not bool(std > 0):
        raise ValueError(
            f"expected one positive std for {name}, which has a factor, got {std.numel()} numbers"
        )
    if not bool(torch.isfinite(factor).all() & (factor.diagonal() > 0).all()) or bool(
        factor.triu(1).any()
    ):
        raise ValueError(
            f"expected the factor of {name} to be finite, lower triangular and positive on its diagonal"
        )


def _require_no_factors(prior: GaussianPosterior) -> None:
    if prior.factors:
        raise ValueError(
            f"expected a prior with independent weights, got factors of {sorted(prior.factors)}"
        )


def _require_vector(weights: Tensor) -> None:
    if not isinstance(weights, Tensor) or weights.ndim != 1 or not weights.is_floating_point():
        found = (
            f"{weights.dtype} {tuple(weights.shape)}"
            if isinstance(weights, Tensor)
            else type(weights).__name__
        )
        raise ValueError(f"expected weights as one vector of floats, got {found}")


def _require_law(name: str, mean: Tensor, std: Tensor) -> None:
    if (
        not mean.is_floating_point() or std.dtype != mean.dtype
    ):  # a std that is rounded later is another law
        raise ValueError(
            f"expected mean and std of {name} of one floating type, got {mean.dtype} and {std.dtype}"
        )
    try:
        fits = torch.broadcast_shapes(mean.shape, std.shape) == mean.shape
    except RuntimeError:
        fits = False
    if not fits and not (std.numel() == 1 and mean.numel() == 1):
        raise ValueError(
            f"expected the std of {name} to broadcast to its mean {tuple(mean.shape)}, got {tuple(std.shape)}"
        )
    if not bool(torch.isfinite(mean).all()):
        raise ValueError(
            f"the mean of {name} holds a NaN or an infinity: the training has diverged"
        )
    if not bool((torch.isfinite(std) & (std >= 0)).all()):
        raise ValueError(
            f"expected the std of {name} to be finite and >= 0, got {float(std.min())} as its least value"
        )


def odd_names(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> list[str]:
    """Names that only one of the mappings has, or that have another shape in the other."""
    shapes = [{name: value.shape for name, value in each.items()} for each in (ours, theirs)]
    return sorted({name for name, _ in shapes[0].items() ^ shapes[1].items()})
