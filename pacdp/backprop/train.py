"""PAC-Bayes with backprop: gradient descent on a bound, over the means and standard deviations of Gaussian weights.

Blundell et al. 2015 with a bound for an objective (Pérez-Ortiz et al. 2021). One step draws all weights once, takes the
surrogate risk of a minibatch, rescaled to [0, 1], and descends objective(risk, KL) by SGD with momentum in the
coordinates of :mod:`pacdp.backprop.train`. There the objective is about c ½‖θ‖²/n beyond the risk, with c of a
few units; so the step size is given in units of n, the number of the bound's examples, and a step size of 0.01 forgets
the start within some hundred steps.

The coordinates: for a prior N(m, s²) of each weight the posterior is N(m + s ν, (s e^ρ)²), and

    KL(Q‖P) = ½ Σ [ν² + e^(2ρ) - 1 - 2ρ].

ρ is one number for each parameter tensor; with k weights to a ρ the coordinate is θ = √(2k) ρ. At
the prior the second derivative of the divergence by every coordinate, ν or θ, is 1, so that one step size suits all of
them, whatever the scales of the prior and however many weights share a ρ. Weights whose prior has standard deviation 0
are fixed: they have no coordinates.
"""

import math
from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

import bounds
from bounds import _check
from pacdp.backprop.fit import Examples
from pacdp.errors import Diverged
from pacdp.layers.plain import call_with
from pacdp.losses import Loss
from pacdp.models import require_evaluation
from pacdp.posterior import GaussianPosterior
from pacdp.stochastic.law import require_law_of
from pacdp.store.record import record

_MOMENTUM = 0.9
_LEAST_RISK = 1e-9
"""Where the derivative of kl⁻¹ by the risk, infinite at 0, is taken instead."""


Objective = Callable[..., Tensor]
"""What ``train_posterior`` minimises: from (risk, kl_nats, *, n, failure_prob) to a scalar."""


def f_kl(
    risk: Float[Tensor, ""], kl_nats: Float[Tensor, ""], *, n: int, failure_prob: float
) -> Float[Tensor, ""]:
    """kl⁻¹(R̂, c) with c = [KL(Q‖P) + ln ξ(n) + ln(1/failure_prob)]/n, derivatives by the implicit function theorem.

    Where it is 1 and its derivatives vanish, the gradient of ``f_quad`` stands in, so that training can leave that
    region; below risk 1e-9 the derivative by the risk is that at 1e-9.
    """
    given = {"n": n, "failure_prob": failure_prob}
    exact, nats = min(1.0, max(0.0, float(risk.detach()))), float(kl_nats.detach())
    found = bounds.objectives.f_kl(max(_LEAST_RISK, exact), nats, **given)
    value = risk.new_tensor(float(bounds.objectives.f_kl(exact, nats, **given).value))
    if float(found.value) >= 1.0:
        relaxed = bounds.objectives.f_quad(risk, kl_nats, **given)
        return value + relaxed - relaxed.detach()
    by_risk, by_kl = float(found.by_risk), float(found.by_kl_nats)
    return value + by_risk * (risk - risk.detach()) + by_kl * (kl_nats - kl_nats.detach())


@record
class Coordinates:
    """A posterior near ``prior``, as leaves for an optimiser."""

    prior: GaussianPosterior
    shifts: Mapping[str, Tensor]
    """ν by parameter; absent where the prior is fixed, like what follows."""
    widths: Mapping[str, Tensor]
    """θ by parameter."""

    @classmethod
    def at(cls, prior: GaussianPosterior, *, device: torch.device | str = "cpu") -> "Coordinates":
        """The prior's own coordinates, all zero.

        Raises:
            ValueError: no weight of the prior is random, or one tensor has fixed and random weights.
        """
        moved, shifts, widths = prior.to(device), dict[str, Tensor](), dict[str, Tensor]()
        for name, mean in moved.means.items():
            random = moved.stds[name] > 0
            if not bool(random.any()):
                continue
            if not bool(random.all()):
                raise ValueError(
                    f"expected the prior of {name} to be random or fixed as a whole, got both: split the parameter"
                )
            shifts[name] = torch.zeros_like(mean, requires_grad=True)
            widths[name] = torch.zeros((), device=device, requires_grad=True)
        if not shifts:
            raise ValueError(
                "expected a prior with a positive standard deviation somewhere, got fixed weights alone"
            )
        return cls(prior=moved, shifts=shifts, widths=widths)

    def leaves(self) -> list[Tensor]:
        """What an optimiser moves."""
        return [*self.shifts.values(), *self.widths.values()]

    def mean(self, name: str) -> Tensor:
        """m + s ν."""
        mean = self.prior.means[name]
        return mean + self.prior.stds[name] * self.shifts[name] if name in self.shifts else mean

    def std(self, name: str) -> Tensor:
        """s e^ρ."""
        std = self.prior.stds[name]
        if name not in self.widths:
            return std
        return std * torch.exp(self.widths[name] * (2.0 * self.shifts[name].numel()) ** -0.5)

    def kl_nats(self) -> Float[Tensor, ""]:
        """The divergence in nats, in float64, unrounded."""
        parts = [shift.double().square().sum() for shift in self.shifts.values()]
        for name, width in self.widths.items():
            count = self.shifts[name].numel()
            twice = 2.0 * width.double() * (2.0 * count) ** -0.5
            parts.append(count * (torch.expm1(twice) - twice))
        return 0.5 * torch.stack(parts).sum()

    def draw(self, generator: torch.Generator) -> dict[str, Tensor]:
        """One draw of all weights, differentiable; fixed weights as they are."""
        drawn = dict(self.prior.means)
        for name in self.shifts:
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
            means={name: self.mean(name) for name in self.prior.means},
            stds={name: self.std(name) for name in self.prior.means},
            buffers=self.prior.buffers,
        )


@record
class PosteriorSettings:
    """How a posterior is trained."""

    steps: int = 1000
    batch_size: int = 256
    step_size: float = 0.005
    """In units of n, falling to 0 along a cosine."""

    def __post_init__(self) -> None:
        _check.whole(steps=self.steps)
        _check.count(batch_size=self.batch_size)
        _check.positive(step_size=self.step_size)


def train_posterior(
    prior: GaussianPosterior, module: nn.Module, data: Examples, *, objective: Objective, loss: Loss,
    settings: PosteriorSettings, failure_prob: float, generator: torch.Generator,
    device: torch.device | str = "cpu"
) -> GaussianPosterior:  # fmt: skip
    """The posterior that training on ``data`` from ``prior`` arrives at.

    The objective is told n = len(data): ``data`` are the examples that the certificate will use, none of which the
    prior has seen. Parameters whose standard deviation is 0 in the prior stay as they are, and so do buffers.

    Formal guarantee: none; whatever it returns, a PAC-Bayes certificate of it holds.

    Args:
        module: the network, in eval mode; its own weights do not matter and are not changed.
        objective: ``f_quad`` or ``f_classic`` of :mod:`bounds.objectives`, :func:`pacdp.backprop.f_kl`, or another
            function like them.
        loss: the surrogate, with its interval, such as ``pacdp.losses.bounded_cross_entropy``.
        failure_prob: of the PAC-Bayes step, for the objective.
        generator: a CPU generator for minibatches and draws.

    Raises:
        ValueError: no examples, labels of another number, a layer that draws or mixes examples, a prior over other
            weights or buffers, or without a random one.
        Diverged: the objective is not finite.
    """
    n = data.require_some()
    require_evaluation(module)
    require_law_of(module, prior)
    coordinates = Coordinates.at(prior, device=device)
    optimizer = torch.optim.SGD(coordinates.leaves(), lr=1.0, momentum=_MOMENTUM)
    buffers = dict(coordinates.prior.buffers)
    for step in range(settings.steps):
        rows = torch.randint(0, n, (min(settings.batch_size, n),), generator=generator)
        weights = coordinates.draw(generator)
        outputs = call_with(module, {**weights, **buffers}, data.inputs[rows].to(device))
        losses = loss(outputs, data.labels[rows].to(device))
        risk = (losses.mean() - loss.low) / (loss.high - loss.low)
        kl_nats = coordinates.kl_nats()
        value = objective(risk, kl_nats.to(risk), n=n, failure_prob=failure_prob)
        if not bool(torch.isfinite(value)):
            raise Diverged(step, "the objective")
        optimizer.zero_grad()
        value.backward()
        optimizer.param_groups[0]["lr"] = (
            n * settings.step_size * 0.5 * (1 + math.cos(math.pi * step / settings.steps))
        )
        optimizer.step()
    return coordinates.posterior()
