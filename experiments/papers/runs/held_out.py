"""Certificates of a randomised network whose prior learnt on held-out examples, or on none.

The training set is split by a seed. A network trained on the first part is the prior's mean; the posterior starts there
and descends a PAC-Bayes objective on the second part, which alone the certificate counts. A data-free prior lies around
the network's first weights and leaves all examples to the bound. The test set is looked at last, and by no certificate
but its own.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from experiments.papers.runs.held_out_config import HeldOutConfig, of_a_list
from pacdp import Assessment, BoundSet, GaussianPosterior, MonteCarlo, Prior, certify
from pacdp.backprop import (
    OBJECTIVES,
    Examples,
    choose_scale,
    data_free_prior,
    fit_prior,
    hold_out,
    train_posterior,
)
from pacdp.backprop.network import small_cnn
from pacdp.data import Dataset, load
from pacdp.losses import bounded_cross_entropy

Report = Callable[[str, int, int], None]
"""Told the stage ("prior", "posterior", "certificate") and how far it is."""
_STREAMS = ("weights", "prior", "posterior", "tried", "certificate")
"""Posteriors were compared by draws of the fourth; certificates have draws of their own."""
_LEAST_GRID_NATS = 0.5  # ln(π²/6), of the grid's first point


class Clock:
    """Seconds by stage of a recipe: wall clock, and CPU time of this process with all its threads."""

    def __init__(self) -> None:
        self.wall: dict[str, float] = {}
        self.cpu: dict[str, float] = {}
        self._last = (time.perf_counter(), time.process_time())

    def lap(self, stage: str) -> None:
        """Note what has passed since the last stage."""
        now = (time.perf_counter(), time.process_time())
        self.wall[stage], self.cpu[stage] = (round(b - a, 2) for a, b in zip(self._last, now, strict=True))
        self._last = now


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutResult:
    """Certificates, each by itself, and what they are about."""

    assessment: Assessment
    """Each certificate at the configuration's failure_prob/compared."""
    prior: Prior
    posterior: GaussianPosterior
    scale: float
    """Of the prior's standard deviations, where a grid was given; 1 where not."""
    parameters: int
    seconds: dict[str, float]
    """Wall clock by stage."""
    cpu_seconds: dict[str, float]
    """Of this process, all threads, by stage."""

    def to_dict(self) -> dict[str, Any]:
        """JSON values, without the weights, in the form ``pacdp-certificates/2``."""
        details = {
            "prior_scale": self.scale,
            "parameters": self.parameters,
            "stage_seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
        }
        return replace(self.assessment, details={**self.assessment.details, **details}).to_dict()


def held_out(
    config: HeldOutConfig, *, root: str | None = None, device: torch.device | str = "cpu", report: Report | None = None,
    resume: Path | None = None,
) -> HeldOutResult:  # fmt: skip
    """Carry out ``config`` on its data set.

    Args:
        resume: where the Monte Carlo sums are kept as they grow (see :func:`pacdp.stochastic.mean_risks`).

    Raises:
        DataError: the data cannot be had.
        ValueError, Diverged: see :mod:`pacdp.backprop`.
    """
    train, test = load(config.dataset, root=root)
    return certify_on(config, train, test, device=device, report=report, resume=resume)


def certify_on(
    config: HeldOutConfig, train: Dataset, test: Dataset, *, device: torch.device | str = "cpu",
    report: Report | None = None, resume: Path | None = None,
) -> HeldOutResult:  # fmt: skip
    """The same on data that are at hand."""
    tell = report or (lambda stage, done, total: None)
    clock = Clock()
    module = small_cnn(
        config.network,
        input_shape=train.inputs.shape[1:],
        classes=train.classes,
        generator=_generator(config, "weights"),
    )
    prior, bound = _prior(config, module, train, device, tell)
    clock.lap("prior")
    module.to(device).eval()
    posterior = _trained(config, prior, module, bound, train.classes, device, tell)
    scale = 1.0
    if config.scales is not None:
        prior, _, scale = choose_scale(posterior, prior, config.scales)
    clock.lap("posterior")
    how = MonteCarlo(passes=config.passes, share=config.monte_carlo_share, resume=resume)
    found = certify(
        posterior,
        bound,
        prior=prior,
        network=module,
        test=BoundSet.part(test),
        failure_prob=config.failure_prob,
        settings=of_a_list(config.compared),
        monte_carlo=how,
        seed=_seed(config, "certificate"),
        device=device,
        progress=lambda done, total: tell("certificate", done, total),
    )
    clock.lap("certificate")
    return HeldOutResult(
        assessment=found, prior=prior, posterior=posterior, scale=scale,
        parameters=sum(p.numel() for p in module.parameters()), seconds=clock.wall, cpu_seconds=clock.cpu,
    )  # fmt: skip


def _prior(
    config: HeldOutConfig, module: nn.Module, train: Dataset, device: torch.device | str, tell: Report
) -> tuple[Prior, BoundSet]:
    """The prior, and the examples that it leaves to the bound."""
    if not config.prior_share:
        return data_free_prior(module, std=config.prior_std), BoundSet.part(train)
    parts = hold_out(train.n, prior_share=config.prior_share, seed=config.seed, people=train.people)
    prior = fit_prior(
        module, train, parts.prior, std=config.prior_std, settings=config.fit, generator=_generator(config, "prior"),
        device=device, progress=lambda done, total: tell("prior", done, total),
    )  # fmt: skip
    return prior, BoundSet.part(train, parts.bound)


def _trained(
    config: HeldOutConfig, prior: Prior, module: nn.Module, bound: BoundSet, classes: int, device: torch.device | str,
    tell: Report,
) -> GaussianPosterior:  # fmt: skip
    left = config.failure_prob / config.compared * (1.0 - config.monte_carlo_share)
    return train_posterior(
        prior.law, module, Examples(bound.inputs, bound.labels), objective=OBJECTIVES[config.objective],
        loss=bounded_cross_entropy(classes=classes, max_loss=config.max_loss), settings=config.posterior,
        failure_prob=left, extra_nats=0.0 if config.scales is None else _LEAST_GRID_NATS,
        generator=_generator(config, "posterior"), device=device,
        progress=lambda seen: tell("posterior", seen.step, seen.steps),
    )  # fmt: skip


def _seed(config: HeldOutConfig, stream: str) -> int:
    return config.seed * len(_STREAMS) + _STREAMS.index(stream)


def _generator(config: HeldOutConfig, stream: str) -> torch.Generator:
    return torch.Generator().manual_seed(_seed(config, stream))
