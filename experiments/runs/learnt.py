"""Posteriors that are really learnt, from priors that saw nothing, on fixed features: all examples are the bound's.

The prior is a standard normal law over a linear head; the posterior is learnt on the bound's examples by descent on the
bound (:mod:`pacdp.features.head_law`), either with a covariance of its own or with the prior's.
"""

import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

import bounds
from experiments.runs.held_out import of_a_list, sizes
from experiments.study import Row
from pacdp import GaussianPosterior, Prior, certify
from pacdp.certify import BoundSet, DataFree, MonteCarlo
from pacdp.cli.runtime import Runtime
from pacdp.cli.sweep.jobs import Job, single
from pacdp.data import Dataset, load
from pacdp.features import OrientedGradients, RandomWaves, SimplexHead, fit_law, fit_mean, transform

_SHARES = tuple(round(0.01 * k, 2) for k in range(10, 31))
TRIED = {
    "orientations": (8, 12, 16), "cells": (4, 7, 14), "scale": (0.7, 1.0, 1.4), "sharpness": (1, 2, 4, 8),
    "pooling": (0.5, 0.7, 1.0), "alignment": (None, 0.25, 0.5, 0.75, 1.0), "spread_y": _SHARES, "spread_x": _SHARES,
    "waves": (0, 500, 700, 1000, 2000), "gain": (1.0, 1.5, 2.0, 3.0), "covariance": ("learnt", "prior's"),
}  # fmt: skip
"""Settings that are paid for, chosen with MNIST in view: every combination of these."""
NOTHING_SEEN = "N(0, I) over a linear head, on features without parameters that were learnt"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadConfig:
    """Everything that decides the numbers of a learnt head."""

    dataset: str = "mnist"
    orientations: int = 12
    cells: int = 7
    scale: float = 1.0
    waves: int = 0
    """Cosines of random projections of the gradients beside the gradients themselves."""
    gain: float = 2.0
    """Of the waves."""
    covariance: Literal["learnt", "prior's"] = "learnt"
    rounds: int = 8
    iterations: int = 10
    passes: int = 10
    """Draws of the posterior for each example."""
    failure_prob: float = 0.05
    monte_carlo_share: float = 0.1
    compared: int = sizes(TRIED)
    train_size: int = 0
    """The first so many training examples; 0 takes all."""
    seed: int = 0


def rows_of(config: HeadConfig, data: Dataset, n: int) -> Tensor:
    """Unit rows of gradients, or of gradients and waves, each with half of the squared length."""
    images = data.inputs[:n]
    shape: dict[str, Any] = {"orientations": config.orientations, "cells": config.cells, "scale": config.scale}
    gradients = transform(OrientedGradients(size=images.shape[-1], **shape), images)
    if not config.waves:
        return gradients
    waves = RandomWaves(inputs=gradients.shape[1], dim=config.waves, gain=config.gain, seed=0)
    half = 0.5**0.5
    return torch.cat([half * gradients, transform(waves, gradients) * (half * (2.0 / config.waves) ** 0.5)], dim=1)


def conduct(config: HeadConfig, runtime: Runtime, folder: Path) -> Row:
    """Features, posterior, draws, certificates; values in the form ``pacdp-certificates/2``."""
    train, test = load(config.dataset, root=runtime.data_root)
    n = config.train_size or train.n
    data = BoundSet(inputs=rows_of(config, train, n), labels=torch.tensor(train.labels[:n]))
    tests = BoundSet(inputs=rows_of(config, test, test.n), labels=torch.tensor(test.labels))
    module, posterior, prior = _learnt(config, data, train.classes)
    found = certify(
        posterior, data, prior=Prior(law=prior, source=DataFree(description=NOTHING_SEEN)), network=module, test=tests,
        failure_prob=config.failure_prob, settings=of_a_list(config.compared), seed=config.seed + 1000,
        monte_carlo=MonteCarlo(passes=config.passes, share=config.monte_carlo_share, batch_size=4096),
    )  # fmt: skip
    details = {**found.details, "settings": asdict(config), "dim": data.inputs.shape[1]}
    return replace(found, details=details).to_dict()


def _learnt(config: HeadConfig, data: BoundSet, classes: int) -> tuple[nn.Module, GaussianPosterior, GaussianPosterior]:
    left = config.failure_prob / config.compared * (1.0 - config.monte_carlo_share)
    if config.covariance == "learnt":
        law = fit_law(
            data.inputs, data.labels, classes=classes, n=data.units, failure_prob=left,
            rounds=config.rounds, iterations=config.iterations,
        )  # fmt: skip
        return SimplexHead(data.inputs.shape[1], classes).eval(), law.posterior(), law.prior()
    nothing = torch.zeros((classes, data.inputs.shape[1]))
    mean = fit_mean(
        data.inputs, data.labels, prior_mean=nothing, std=1.0, cost_nats=bounds.log_xi(data.units) - math.log(left),
        iterations=config.rounds * config.iterations,
    )  # fmt: skip
    head = nn.Linear(data.inputs.shape[1], classes, bias=False).eval()
    own, other = (
        GaussianPosterior(means={"weight": one}, stds={"weight": torch.tensor(1.0)}) for one in (mean, nothing)
    )
    return head, own, other


HEAD = single(conduct)
GRADIENTS, WAVES, STILL = "gradients", "gradients and waves", "gradients, covariance of the prior"


def jobs(smoke: bool, seed: int) -> list[Job]:
    """Heads of three kinds, on two and on ten classes; for ``smoke`` on digits."""
    base = HeadConfig(seed=seed)
    if smoke:
        base = replace(base, orientations=8, cells=4, scale=0.7, passes=2, rounds=2, iterations=2, train_size=200)
    heads = {GRADIENTS: base, WAVES: replace(base, waves=100 if smoke else 700),
             STILL: replace(base, covariance="prior's")}  # fmt: skip
    return [
        Job(key=f"{name.replace(',', '').replace(' ', '-')}-{dataset}", kind=HEAD,
            config=replace(config, dataset=dataset), tags={"dataset": dataset, "recipe": name})
        for dataset in (("digits",) if smoke else ("mnist2", "mnist")) for name, config in heads.items()
    ]  # fmt: skip
