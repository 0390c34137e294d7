"""A rigorous certificate of a randomised network whose prior was learnt on held-out examples.

The training set is split by a seed. A network trained on the first part is the prior's mean; the posterior starts there
and descends a PAC-Bayes objective on the second part, which alone the certificate counts. The test set is looked at
last, and by no certificate but its own.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import bounds
from experiments.certificates.config import HeldOutConfig
from pacdp.backprop import (
    OBJECTIVES,
    Certified,
    Examples,
    HeldOut,
    OneDraw,
    Prior,
    certify_one_draw,
    certify_posterior,
    certify_weights,
    count_errors,
    examples,
    fit_prior,
    hold_out,
    ledger,
    train_posterior,
)
from pacdp.backprop.network import small_cnn
from pacdp.data import Dataset, load
from pacdp.losses import bounded_cross_entropy, zero_one
from pacdp.posterior import GaussianPosterior
from pacdp.stochastic import MonteCarloRisk, mean_risk

FORMAT = "pacdp-held-out/1"
Report = Callable[[str, int, int], None]
"""Told the stage ("prior", "posterior", "certificate", "test") and how far it is."""
_STREAMS = ("weights", "prior", "posterior", "draw", "passes", "test")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutResult:
    """Certificates, each by itself, and what was measured beside them."""

    certified: Certified
    """Of the randomised network, at the configuration's failure probability."""
    one_draw: OneDraw
    prior_mean: bounds.Certificate
    """Clopper-Pearson for the prior's mean on the bound's examples: no randomness, no posterior."""
    mean_bound_errors: int
    """Of the posterior's mean among the bound's examples."""
    test_errors: int
    """Of the posterior's mean."""
    test_risk: MonteCarloRisk
    """Of the randomised network, one pass."""
    test: bounds.Certificate
    """Clopper-Pearson for the posterior's mean on the test set."""
    prior: Prior
    posterior: GaussianPosterior
    split: HeldOut
    n_test: int
    parameters: int
    seconds: dict[str, float]
    """Wall clock by stage."""
    cpu_seconds: dict[str, float]
    """Of this process, all threads, by stage."""

    def to_dict(self) -> dict[str, Any]:
        """JSON values, without the weights."""
        return {
            "format": FORMAT, **self.certified.to_dict(),
            "one_draw": {"errors": self.one_draw.errors, "certificate": self.one_draw.certificate.to_dict()},
            "prior_mean": self.prior_mean.to_dict(), "test": self.test.to_dict(),
            "n_bound": self.split.bound.n, "n_prior": self.split.prior.n, "n_test": self.n_test,
            "prior_hash": self.split.prior.hash, "mean_bound_errors": self.mean_bound_errors,
            "test_errors": self.test_errors, "test_risk": self.test_risk.to_dict(), "parameters": self.parameters,
            "seconds": self.seconds, "cpu_seconds": self.cpu_seconds,
        }  # fmt: skip


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
    clock = _Clock()
    split = hold_out(train.n, prior_share=config.prior_share, seed=config.seed)
    module = small_cnn(
        config.network,
        input_shape=train.inputs.shape[1:],
        classes=train.classes,
        generator=_generator(config, "weights"),
    )
    prior = fit_prior(
        module, train, split.prior, std=config.prior_std, settings=config.fit, generator=_generator(config, "prior"),
        device=device, progress=lambda done, total: tell("prior", done, total),
    )  # fmt: skip
    clock.lap("prior")
    module.to(device).eval()
    posterior = _trained(config, prior, module, train, split, device, tell)
    clock.lap("posterior")
    failure_prob = config.failure_prob / config.compared
    certified = certify_posterior(
        posterior, prior, module, train, split.bound,
        budget=ledger(failure_prob, monte_carlo_share=config.monte_carlo_share), passes=config.passes,
        seed=_seed(config, "passes"), scales=config.scales, device=device, resume=resume,
        progress=lambda done, total: tell("certificate", done, total),
    )  # fmt: skip
    clock.lap("certificate")
    bound = examples(train, split.bound)
    one_draw = certify_one_draw(
        posterior, prior, module, train, split.bound, failure_prob=failure_prob, scales=config.scales,
        generator=_generator(config, "draw"), device=device,
    )  # fmt: skip
    mean, start = ({**law.means, **law.buffers} for law in (posterior, prior.law))
    prior_mean = certify_weights(start, module, bound, failure_prob=failure_prob, device=device)
    mean_errors = count_errors(module, mean, bound, device=device)
    clock.lap("beside")
    tested = Examples(torch.tensor(test.inputs), torch.tensor(test.labels))
    test_bound = certify_weights(mean, module, tested, failure_prob=failure_prob, device=device)
    test_risk = mean_risk(
        module, posterior, inputs=tested.inputs, labels=tested.labels, loss=zero_one(), passes=1,
        seed=_seed(config, "test"), device=device,
    )  # fmt: skip
    clock.lap("test")
    return HeldOutResult(
        certified=certified, one_draw=one_draw, prior_mean=prior_mean, mean_bound_errors=mean_errors,
        test_errors=int(test_bound.inputs["k"]), test_risk=test_risk, test=test_bound, prior=prior,
        posterior=posterior, split=split, n_test=test.n, parameters=sum(p.numel() for p in module.parameters()),
        seconds=clock.wall, cpu_seconds=clock.cpu,
    )  # fmt: skip


def _trained(
    config: HeldOutConfig, prior: Prior, module: nn.Module, train: Dataset, split: HeldOut,
    device: torch.device | str, tell: Report,
) -> GaussianPosterior:  # fmt: skip
    grid = 0.0 if config.scales is None else _LEAST_GRID_NATS
    return train_posterior(
        prior.law, module, examples(train, split.bound), objective=OBJECTIVES[config.objective],
        loss=bounded_cross_entropy(classes=train.classes, max_loss=config.max_loss), settings=config.posterior,
        failure_prob=ledger(config.failure_prob / config.compared).spent["PAC step"], extra_nats=grid,
        generator=_generator(config, "posterior"), device=device,
        progress=lambda seen: tell("posterior", seen.step, seen.steps),
    )  # fmt: skip


_LEAST_GRID_NATS = 0.5  # ln(π²/6), of the grid's first point


class _Clock:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.wall: dict[str, float] = {}
        self.cpu: dict[str, float] = {}
        self._last = (time.perf_counter(), time.process_time())

    def lap(self, stage: str) -> None:
        now = (time.perf_counter(), time.process_time())
        self.wall[stage], self.cpu[stage] = (round(b - a, 2) for a, b in zip(self._last, now, strict=True))
        self._last = now


def _seed(config: HeldOutConfig, stream: str) -> int:
    return config.seed * len(_STREAMS) + _STREAMS.index(stream)


def _generator(config: HeldOutConfig, stream: str) -> torch.Generator:
    return torch.Generator().manual_seed(_seed(config, stream))
