"""PAC-Bayes with backprop: gradient descent on a bound, over the means and standard deviations of Gaussian weights.

Blundell et al. 2015 with a bound for an objective (Pérez-Ortiz et al. 2021). One step draws all weights once, takes the
surrogate risk of a minibatch, rescaled to [0, 1], and descends objective(risk, KL) by SGD with momentum in the
coordinates of :mod:`pacdp.backprop.variational`. There the objective is about c ½‖θ‖²/n beyond the risk, with c of a
few units; so the step size is given in units of n, the number of the bound's examples, and a step size of 0.01 forgets
the start within some hundred steps.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

from pacdp.backprop.fit import Examples
from pacdp.backprop.objectives import Objective
from pacdp.backprop.variational import Coordinates, Spread
from pacdp.errors import Diverged
from pacdp.layers.plain import call_with
from pacdp.losses import Loss
from pacdp.models import require_evaluation
from pacdp.posterior import GaussianPosterior, odd_names


@dataclass(frozen=True, slots=True, kw_only=True)
class PosteriorSettings:
    """How a posterior is trained."""

    steps: int = 1000
    batch_size: int = 256
    step_size: float = 0.005
    """In units of n, falling to 0 along a cosine."""
    momentum: float = 0.9
    spread: Spread = "layer"
    """Which weights share the trained ratio of their standard deviations to the prior's."""

    def __post_init__(self) -> None:
        if self.steps < 0 or self.batch_size < 1:
            raise ValueError(
                f"expected steps >= 0 and batch_size >= 1, got {self.steps} and {self.batch_size}"
            )
        if not (self.step_size > 0 and math.isfinite(self.step_size) and 0 <= self.momentum < 1):
            raise ValueError(
                f"expected step_size > 0 and momentum in [0, 1), got {self.step_size} and {self.momentum}"
            )


class Seen(NamedTuple):
    """What a step saw, for whoever watches."""

    step: int
    steps: int
    risk: float
    """Surrogate risk of the step's minibatch under the step's draw."""
    kl_nats: float
    objective: float


Progress = Callable[[Seen], None]


def train_posterior(
    prior: GaussianPosterior, module: nn.Module, data: Examples, *, objective: Objective, loss: Loss,
    settings: PosteriorSettings, failure_prob: float, generator: torch.Generator,
    device: torch.device | str = "cpu", progress: Progress | None = None,
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
            weights or without a random one.
        Diverged: the objective is not finite.
    """
    n = len(data.inputs)
    _require_trainable(prior, module, data)
    coordinates = Coordinates.at(prior, spread=settings.spread, device=device)
    optimizer = torch.optim.SGD(coordinates.leaves(), lr=1.0, momentum=settings.momentum)
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
        if progress is not None:
            seen = (float(one.detach()) for one in (risk, kl_nats, value))
            progress(Seen(step + 1, settings.steps, *seen))
    return coordinates.posterior()


def _require_trainable(prior: GaussianPosterior, module: nn.Module, data: Examples) -> None:
    if len(data.inputs) < 1 or len(data.labels) != len(data.inputs):
        raise ValueError(
            f"expected one label for each of n >= 1 inputs, got {len(data.inputs)} inputs and {len(data.labels)} labels"
        )
    require_evaluation(module)
    odd = odd_names(dict(module.named_parameters()), prior.means)
    if odd:
        raise ValueError(
            f"expected a prior over the parameters of the module, got other names or shapes in {odd}"
        )
