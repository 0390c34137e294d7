"""Certificates of single networks beside a Gaussian posterior: its mean, one draw of it, the mean of its prior."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import bounds
from pacdp.bound_set import BoundSet
from pacdp.certify import new_examples_certificate
from pacdp.losses import error_count
from pacdp.plain import call_with
from pacdp.posterior import GaussianPosterior
from pacdp.prior import Prior, Private

EDGES = tuple(np.linspace(0.0, 1.0, 16).tolist())
"""Of the bins of calibration errors."""
_BATCH = 500
_ONE_DRAW = 0x6F6E65  # key of the one draw among all uses of a seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Examples:
    """Where a network is judged."""

    module: nn.Module
    data: BoundSet
    test: BoundSet | None
    failure_prob: float
    """Of each certificate."""
    device: torch.device | str


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleNetwork:
    """What is known of one network."""

    of: str
    """Its name in certificates and reports."""
    certificates: tuple[bounds.Certificate, ...] = ()
    error: float = math.nan
    """On the bound's examples, rounded up."""
    test_error: float | None = None
    refusal: str = ""
    """Why there is no certificate."""


def mean_weights(posterior: GaussianPosterior, where: Examples) -> SingleNetwork:
    """The network with the posterior's means: what the test set says of its risk and of its calibration."""
    of = "mean weights"
    errors = _errors(_outputs(where, posterior, posterior.means, where.data), where.data.labels)
    error = error_share(errors, where.data.n)
    if where.test is None:
        return SingleNetwork(of=of, error=error)
    outputs = _outputs(where, posterior, posterior.means, where.test)
    wrong = _errors(outputs, where.test.labels)
    sample = _calibration(outputs, where.test.labels)
    ece = bounds.ece_second_moment(
        calibration_error=sample.calibration_error, mean_squared_gap=sample.mean_squared_gap, n=where.test.n,
        failure_prob=where.failure_prob,
    )  # fmt: skip
    risk = new_examples_certificate(wrong, where.test.n, failure_prob=where.failure_prob)
    found = (about(risk, of=of, measures="0-1 risk"), about(ece, "test_set_ece", of=of, measures="ECE"))
    return SingleNetwork(of=of, error=error, test_error=wrong / where.test.n, certificates=found)


def prior_mean(prior: Prior, where: Examples) -> SingleNetwork:
    """The network with the prior's means, to which the bound's examples are new unless it met them privately."""
    of = "prior mean"
    if isinstance(prior.source, Private) or prior.choice_nats:
        return SingleNetwork(of=of)
    errors = _errors(_outputs(where, prior.law, prior.law.means, where.data), where.data.labels)
    made = new_examples_certificate(errors, where.data.n, failure_prob=where.failure_prob)
    return SingleNetwork(
        of=of, error=error_share(errors, where.data.n), test_error=_test_error(where, prior.law, prior.law.means),
        certificates=(about(made, "prior_mean_clopper_pearson", of=of, measures="0-1 risk"),),
    )  # fmt: skip


def one_draw(posterior: GaussianPosterior, prior: Prior, where: Examples, *, seed: int) -> SingleNetwork:
    """One network drawn from the posterior: 0-1 risk, and calibration error from the bound's own examples.

    The draw must not depend on examples, prior or posterior: its generator has a key of its own, so that no training
    that was seeded with the same number has met its numbers. The exponential moment behind the calibration error bounds
    one draw by ln (dQ/dP)(w) just as it bounds the mean by the divergence ("One draw" in docs/guarantees.md), so the
    positive part of the ratio stands where the divergence does.
    """
    of = "one draw"
    if isinstance(prior.source, Private):
        return SingleNetwork(of=of, refusal="the transfer from a private prior is proved for the mean over the "
                                            "posterior alone")  # fmt: skip
    weights = posterior.sample(_generator(seed))
    ratio = log_density_ratio(posterior, prior.law, weights)
    if not math.isfinite(ratio):
        return SingleNetwork(of=of, refusal="the prior's density at the draw underflows")
    ratio = math.nextafter(ratio + prior.choice_nats, math.inf)
    data, failure_prob = where.data, where.failure_prob
    outputs = _outputs(where, posterior, weights, data)
    error = error_share(_errors(outputs, data.labels), data.n)
    drawn = bounds.disintegrated(risk=error, log_density_ratio=ratio, n=data.n, failure_prob=failure_prob)
    sample = _calibration(outputs, data.labels)
    calibrated = bounds.ece_pac_bayes(
        calibration_error=sample.calibration_error, mean_squared_gap=sample.mean_squared_gap, kl_nats=max(0.0, ratio),
        n=data.n, failure_prob=failure_prob,
    )  # fmt: skip
    found = (about(drawn, "one_draw_disintegrated", of=of, measures="0-1 risk"),
             about(calibrated, "one_draw_ece", of=of, measures="ECE"))  # fmt: skip
    return SingleNetwork(
        of=of, error=error, test_error=_test_error(where, posterior, weights), certificates=found
    )  # fmt: skip


def about(made: bounds.Certificate, name: str = "", *, of: str, measures: str) -> bounds.Certificate:
    """Named after the predictor and the risk that it is about."""
    return replace(made, name=name or made.name, inputs={**made.inputs, "of": of, "measures": measures})


def _test_error(where: Examples, law: GaussianPosterior, weights: Any) -> float | None:
    if where.test is None:
        return None
    return _errors(_outputs(where, law, weights, where.test), where.test.labels) / where.test.n


def class_count(module: nn.Module, posterior: GaussianPosterior, inputs: Tensor, device: torch.device | str) -> int:
    """How many classes the network's outputs distinguish: two for one logit."""
    where = Examples(module=module, data=_first(inputs), test=None, failure_prob=1.0, device=device)
    outputs = _outputs(where, posterior, posterior.means, where.data)
    return 2 if outputs.ndim == 1 or outputs.shape[1] == 1 else int(outputs.shape[1])


def _first(inputs: Tensor) -> BoundSet:
    return BoundSet(inputs=inputs[:1], labels=torch.zeros(1, dtype=torch.int64))


def _generator(seed: int) -> torch.Generator:
    words = np.random.SeedSequence(seed, spawn_key=(_ONE_DRAW,)).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(words[0] >> np.uint64(1)))


@torch.no_grad()
def _outputs(where: Examples, law: GaussianPosterior, weights: Any, data: BoundSet) -> Tensor:
    """Of one network, on the CPU."""
    module = where.module.to(where.device)
    state = {name: value.to(where.device) for name, value in {**law.buffers, **weights}.items()}
    parts = [call_with(module, state, part.to(where.device)).cpu() for part in data.inputs.split(_BATCH)]
    return torch.cat(parts)


def error_share(errors: int, n: int) -> float:
    """errors/n, rounded up."""
    share = errors / n
    return share if Fraction(share) >= Fraction(errors, n) else math.nextafter(share, math.inf)


def _errors(outputs: Tensor, labels: Tensor) -> int:
    return error_count(outputs, labels)


def _calibration(outputs: Tensor, labels: Tensor) -> bounds.CalibrationSample:
    if outputs.ndim == 1 or outputs.shape[1] == 1:
        one = torch.sigmoid(outputs.reshape(-1).double())
        probabilities = torch.stack([1.0 - one, one], dim=1)
    else:
        probabilities = torch.softmax(outputs.double(), dim=1)
    confidence, predicted = probabilities.max(dim=1)
    return bounds.calibration_sample(confidence=confidence.clamp(0.0, 1.0).numpy(),
                                     correct=(predicted == labels).numpy(), edges=EDGES)  # fmt: skip


def log_density_ratio(posterior: GaussianPosterior, prior: GaussianPosterior, weights: Any) -> float:
    """ln (dQ/dP)(weights) in nats, rounded up; weights that are fixed in both laws do not count."""
    parts = []
    for name, mean in posterior.means.items():
        values = [x.detach().cpu().double().expand(mean.shape).reshape(-1).numpy() for x in (
            weights[name], mean, posterior.stds[name], prior.means[name], prior.stds[name])]  # fmt: skip
        free = values[2] > 0.0  # fixed weights are equal in both, or the divergence were infinite
        if free.any():
            parts.append(bounds.gaussian_log_density_ratio(*(value[free] for value in values)))
    return math.nextafter(math.fsum(parts), math.inf)
