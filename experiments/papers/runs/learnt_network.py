"""A network from the pixels with a prior that saw nothing: its filters and its head are both learnt.

One convolution, a two-sided threshold, pooling, unit length and a linear head (Coates, Lee and Ng 2011). The prior lies
around random filters and a head of zeros. 1. The head's law is fitted at filters that are drawn from their prior.
2. Filters and the head's mean descend λ R̂ + KL together, each batch with a draw of the filters and the head's noise
integrated. 3. The head's law is fitted again at draws of the learnt filters.
"""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

import bounds
from experiments.papers.runs.held_out import Clock, sizes
from experiments.papers.runs.learnt import certified
from pacdp import BoundSet, GaussianPosterior
from pacdp.data import load
from pacdp.features import SimplexHead, fit_law, gaussian_errors, unit
from pacdp.features.head_law import HeadLaw, corners, exchange_rate
from pacdp.features.pooling import windows

TRIED = sizes({
    "filters": (8, 12, 16, 24, 32, 48), "width": (5, 7), "cells": (4, 5, 6), "filter_std": (0.01, 0.02, 0.05, 0.1),
    "threshold": (0.05, 0.1, 0.2), "passes": (1, 2, 4),
})  # fmt: skip
"""Settings that are paid for; some were tried on a part of MNIST."""
_GROUP = 50
"""Examples that share a draw of the filters where features are computed for the head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """Everything that decides the numbers of a network from the pixels."""

    dataset: str = "mnist"
    filters: int = 16
    width: int = 7
    cells: int = 5
    threshold: float = 0.1
    filter_std: float = 0.02
    """Of every weight of a filter, in prior and posterior; filters have length 1."""
    epochs: int = 2
    batch_size: int = 100
    step_size: float = 0.02
    """Of Adam, in units of the prior's (filters) and the posterior's (head) standard deviations."""
    rounds: int = 6
    iterations: int = 8
    passes: int = 2
    failure_prob: float = 0.05
    monte_carlo_share: float = 0.1
    compared: int = TRIED
    seed: int = 0

    @property
    def step_failure_prob(self) -> float:
        """What is left for the PAC-Bayes step."""
        return self.failure_prob / self.compared * (1.0 - self.monte_carlo_share)


class PixelNetwork(nn.Module):
    """Images [n, 1, size, size] to logits: a convolution without bias, and a head on pooled responses."""

    def __init__(self, config: NetworkConfig, *, size: int, classes: int) -> None:
        super().__init__()
        self.filters = nn.Conv2d(1, config.filters, config.width, padding=config.width // 2, bias=False)
        drawn = torch.randn(self.filters.weight.shape, generator=torch.Generator().manual_seed(config.seed))
        drawn = drawn - drawn.mean((1, 2, 3), keepdim=True)
        self.filters.weight = nn.Parameter(drawn / drawn.flatten(1).norm(dim=1)[:, None, None, None])
        self.register_buffer("windows", windows(size, cells=config.cells, width=0.5))
        self.threshold, self.dim = config.threshold, 2 * config.filters * config.cells**2
        self.head = SimplexHead(self.dim, classes)

    def pooled(self, response: Float[Tensor, "n filters size size"]) -> Float[Tensor, "n dim"]:
        """What the head reads: unit rows."""
        both = torch.cat([response, -response], dim=1).sub(self.threshold).clamp_min(0.0)
        cells = self.get_buffer("windows")
        return unit((cells @ both @ cells.T).flatten(1))

    def features(self, images: Tensor, filters: Tensor) -> Tensor:
        """The head's inputs at given filters."""
        return self.pooled(F.conv2d(images, filters, padding=self.filters.padding))  # type: ignore[arg-type]

    def forward(self, images: Tensor) -> Tensor:
        """Logits that add up to 0."""
        return self.head(self.pooled(self.filters(images)))


class _Learnt(NamedTuple):
    moves: Tensor
    """Of the filters, in standard deviations."""
    head: HeadLaw


def conduct(config: NetworkConfig, *, root: str | None = None) -> dict[str, Any]:
    """Train, draw, certify; values in the form ``pacdp-certificates/2``."""
    clock, (train, test) = Clock(), load(config.dataset, root=root)
    data = BoundSet(inputs=torch.tensor(train.inputs), labels=torch.tensor(train.labels))
    tests = BoundSet(inputs=torch.tensor(test.inputs), labels=torch.tensor(test.labels))
    module = PixelNetwork(config, size=train.inputs.shape[-1], classes=train.classes).eval()
    generator = torch.Generator().manual_seed(config.seed + 1)
    still = torch.zeros_like(module.filters.weight)
    head, random = _fitted(module, data, still, train.classes, config, generator)
    clock.lap("head")
    moves = _descended(module, data, head, config, generator)
    clock.lap("filters")
    head, learnt = _fitted(module, data, moves, train.classes, config, generator)
    clock.lap("head again")
    found = _Learnt(moves, head)
    posterior, prior = _laws(module, found, config)
    made = certified(posterior, prior, module, data, tests, config, batch_size=64)
    clock.lap("certificate")
    details = {
        **made.details, "settings": asdict(config), "dim": module.dim, "cpu_seconds": clock.cpu,
        "filter_nats": 0.5 * float(found.moves.double().square().sum()), "by_random_filters": random,
        "by_learnt_filters": learnt,
    }  # fmt: skip
    return replace(made, details=details).to_dict()


def _drawn(module: PixelNetwork, moves: Tensor, config: NetworkConfig, generator: torch.Generator) -> Tensor:
    noise = torch.randn(moves.shape, generator=generator)
    return module.filters.weight.detach() + config.filter_std * (moves + noise)


@torch.no_grad()
def _fitted(
    module: PixelNetwork, data: BoundSet, moves: Tensor, classes: int, config: NetworkConfig, generator: torch.Generator
) -> tuple[HeadLaw, float]:
    """The head's law, and what the bound would be at the integral of its errors, draws not paid for."""
    rows = torch.cat([
        module.features(images, _drawn(module, moves, config, generator)) for images in data.inputs.split(_GROUP)
    ])  # fmt: skip
    nats, n, failure_prob = 0.5 * float(moves.square().sum()), data.units, config.step_failure_prob
    law = fit_law(
        rows, data.labels, classes=classes, n=n, failure_prob=failure_prob, extra_nats=nats, rounds=config.rounds,
        iterations=config.iterations,
    )  # fmt: skip
    std = (rows @ law.factor).norm(dim=1, keepdim=True)
    risk = float(gaussian_errors((rows @ law.mean.T / std) @ corners(classes), data.labels).mean())
    kl = law.posterior().kl_nats(law.prior()) + nats
    return law, float(bounds.f_kl(risk, kl, n=n, failure_prob=failure_prob).value)


def _descended(
    module: PixelNetwork, data: BoundSet, head: HeadLaw, config: NetworkConfig, generator: torch.Generator
) -> Tensor:
    """The filters' moves after descent together with the head's mean, at the head's covariance."""
    moves = torch.zeros_like(module.filters.weight).requires_grad_()
    start = torch.linalg.solve_triangular(head.factor, head.mean.T, upper=False).T.contiguous().requires_grad_()
    search = torch.optim.Adam([moves, start], lr=config.step_size)
    answers, n, done = corners(len(head.mean) + 1), data.units, 0
    steps = config.epochs * -(-n // config.batch_size)
    covariance = head.posterior().kl_nats(head.prior()) - 0.5 * float(head.mean.double().square().sum())
    risk_seen = 0.1
    for _ in range(config.epochs):
        for places in torch.randperm(n, generator=generator).split(config.batch_size):
            rows = module.features(data.inputs[places], _drawn(module, moves, config, generator))
            mean = start @ head.factor.T
            std = (rows @ head.factor).norm(dim=1, keepdim=True)
            risk = gaussian_errors((rows @ mean.T / std) @ answers, data.labels[places]).mean()
            kl = 0.5 * (mean.square().sum() + moves.square().sum())
            risk_seen = 0.99 * risk_seen + 0.01 * float(risk.detach())
            nats = float(kl.detach()) + covariance
            rate = exchange_rate(risk_seen, nats, n=n, failure_prob=config.step_failure_prob)
            search.zero_grad()
            (rate * risk + kl).backward()
            search.param_groups[0]["lr"] = config.step_size * 0.5 * (1.0 + math.cos(math.pi * done / steps))
            search.step()
            done += 1
    return moves.detach()


def _laws(module: PixelNetwork, found: _Learnt, config: NetworkConfig) -> tuple[GaussianPosterior, GaussianPosterior]:
    """Posterior and prior over all weights of the network."""
    first, std = module.filters.weight.detach().clone(), torch.tensor(config.filter_std)
    buffers = {name: value.clone() for name, value in module.named_buffers()}
    weight = "head.weight.weight"
    posterior = GaussianPosterior(
        means={"filters.weight": first + config.filter_std * found.moves, weight: found.head.mean},
        stds={"filters.weight": std, weight: torch.tensor(1.0)}, factors={weight: found.head.factor}, buffers=buffers,
    )  # fmt: skip
    prior = GaussianPosterior(
        means={"filters.weight": first, weight: found.head.prior_mean},
        stds={"filters.weight": std, weight: torch.tensor(1.0)}, buffers=buffers,
    )  # fmt: skip
    return posterior, prior
