"""Certificates of a Gaussian posterior over the weights of any network: sampled risk, closed divergence, any prior.

Everything here is rigorous unless a private prior's accountant is not: the risk of the posterior is sampled with fresh
weights for every example and paid for, the divergence is closed, and the prior's source decides what is added to it.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

import bounds
from pacdp.bound_set import BoundSet
from pacdp.certify import Refusal, new_examples_certificate
from pacdp.losses import Loss, brier, margins, zero_one
from pacdp.posterior import GaussianPosterior
from pacdp.prior import Prior, Private
from pacdp.stochastic import MonteCarloRisk, mean_risks

Progress = Callable[[int, int], None]
MONTE_CARLO, PAC_STEP = "Monte Carlo", "PAC step"
EDGES = tuple(np.linspace(0.0, 1.0, 16).tolist())
_BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class MonteCarlo:
    """How the posterior's empirical risk is sampled."""

    passes: int = 5
    share: float = 0.1
    """Of each failure probability."""
    batch_size: int = 64
    group_size: int = 1
    resume: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianAssessment:
    """What is known of a Gaussian posterior."""

    failure_prob: float
    """Of each certificate by itself."""
    n: int
    kl_nats: float
    risks: tuple[MonteCarloRisk, ...]
    """0-1 and Brier loss of the posterior on the bound's examples, sampled."""
    mean_error: float
    """0-1 error of the network with the mean weights on those examples."""
    mean_test_error: float | None
    test_error: float | None
    """Of the posterior on the test set, one draw an example."""
    certificates: tuple[bounds.Certificate, ...]
    refusals: tuple[Refusal, ...]
    prior: dict[str, Any]
    """Where the prior came from, as JSON values."""
    bound_hash: str | None
    """Of the indices of the bound's examples, where they have any."""

    def certificate(self, *, of: str = "randomised", measures: str = "0-1 risk") -> bounds.Certificate:
        """The first that is about this predictor's risk.

        Raises:
            ValueError: there is none.
        """
        for made in self.certificates:
            if (made.inputs.get("of"), made.inputs.get("measures")) == (of, measures):
                return made
        raise ValueError(f"no certificate bounds the {measures} of {of}")

    def to_dict(self) -> dict[str, Any]:
        """JSON values, in the form ``pacdp-certificates/1``."""
        error = self.risks[0]
        return {
            "format": "pacdp-certificates/1", "n": self.n, "failure_prob": self.failure_prob,
            "empirical_risk": error.mean, "test_risk": self.test_error, "kl_nats": self.kl_nats, "privacy": None,
            "mean_classifier": {"train": {"error": self.mean_error, "n": self.n},
                                "test": None if self.mean_test_error is None else {"error": self.mean_test_error}},
            "prior": self.prior, "bound_hash": self.bound_hash,
            "gibbs_classifier": None, "monte_carlo": [risk.to_dict() for risk in self.risks],
            "certificates": [certificate.to_dict() for certificate in self.certificates],
            "not_applicable": [asdict(refusal) for refusal in self.refusals], "diagnosis": None,
        }  # fmt: skip


def assess_gaussian(
    posterior: GaussianPosterior, module: nn.Module, data: BoundSet, *, prior: Prior, test: BoundSet | None = None,
    failure_prob: float = 0.05, monte_carlo: MonteCarlo | None = None, losses: Sequence[Loss] = (), seed: int = 0,
    device: torch.device | str = "cpu", progress: Progress | None = None,
) -> GaussianAssessment:  # fmt: skip
    """Every certificate that applies to ``posterior``.

    For the randomised network (fresh weights for every prediction): its 0-1 risk and its Brier risk, which is also one
    on the averaged predictions. For one network drawn from it by ``seed``: its 0-1 risk and its binned calibration
    error. For the prior's mean, if it saw none of the bound's examples: Clopper and Pearson's bound, which needs no
    PAC-Bayes. With ``test``: their bounds for the randomised network and for the mean weights, and the latter's
    calibration error.

    Formal guarantee: each certificate says with which probability over examples, prior and draws it fails, if posterior
    and prior depend on the examples as ``prior.source`` says, and ``seed`` and ``monte_carlo`` were fixed beforehand.

    Args:
        module: the network in eval mode; its own weights do not matter.
        data: the examples that the bound rests on, which the posterior may have been fitted to.
        test: examples that neither prior nor posterior saw.
        failure_prob: of each certificate.
        losses: more of them, each bounded on its interval rescaled to [0, 1].

    Raises:
        ValueError: shapes, names or settings that do not fit; a posterior of infinite divergence from the prior.
        DataError: the prior saw examples of the bound.
    """
    prior.require_unseen(data)
    kl = posterior.kl_nats(prior.law)
    if not math.isfinite(kl):
        raise ValueError("the divergence from the prior is infinite: both laws must have the same fixed weights and "
                         "buffers, and a std > 0 for the same parameters")  # fmt: skip
    kl = math.nextafter(kl + prior.choice_nats, math.inf) if prior.choice_nats else kl
    how = monte_carlo or MonteCarlo()
    sampled = functools.partial(mean_risks, module, posterior, batch_size=how.batch_size, group_size=how.group_size,
                                device=device)  # fmt: skip
    risks = sampled(inputs=data.inputs, labels=data.labels, losses=(zero_one(), brier(), *losses), passes=how.passes,
                    seed=seed, progress=progress, resume=how.resume)  # fmt: skip
    budget = bounds.FailureBudget(failure_prob).spend(MONTE_CARLO, how.share * failure_prob)
    budget = budget.spend(PAC_STEP, budget.left)
    step = _pac_step(prior, kl_nats=kl, n=data.n)
    certificates = [_overall(risk, step, budget) for risk in risks]
    drawn, refusals = _one_draw(
        posterior, module, data, prior=prior, failure_prob=failure_prob, seed=seed, device=device
    )
    certificates += drawn + _prior_mean(module, data, prior=prior, failure_prob=failure_prob, device=device)
    mean_outputs = _outputs(module, posterior, posterior.means, data.inputs, device)
    mean_test_error = test_error = None
    if test is None:
        refusals.append(Refusal(name="test-set bounds", reason="no examples were kept from prior and posterior"))
    else:
        (fresh,) = sampled(inputs=test.inputs, labels=test.labels, losses=(zero_one(),), passes=1, seed=seed + 1)
        outputs = _outputs(module, posterior, posterior.means, test.inputs, device)
        test_error, mean_test_error = fresh.mean, _errors(outputs, test.labels) / test.n
        certificates += _held_out(outputs, test, fresh, failure_prob=failure_prob)
    return GaussianAssessment(
        failure_prob=failure_prob, n=data.n, kl_nats=kl, risks=risks, test_error=test_error,
        mean_error=_errors(mean_outputs, data.labels) / data.n, mean_test_error=mean_test_error,
        certificates=tuple(certificates), refusals=tuple(refusals), prior=prior.to_dict(),
        bound_hash=data.indices.hash if data.indices else None,
    )  # fmt: skip


def _pac_step(prior: Prior, *, kl_nats: float, n: int) -> Callable[..., bounds.Certificate]:
    """The PAC-Bayes-kl bound for the prior's source, called with risk and failure_prob."""
    if isinstance(prior.source, Private):
        return functools.partial(bounds.private_pac_bayes, kl_nats=kl_nats, n=n, privacy=prior.source.privacy)
    return functools.partial(bounds.maurer, kl_nats=kl_nats, n=n)


def _overall(
    risk: MonteCarloRisk, step: Callable[..., bounds.Certificate], budget: bounds.FailureBudget
) -> bounds.Certificate:
    """Of the randomised network, for one loss; the Brier loss is halved, since it reaches 2."""
    upper = risk.upper(budget.spent[MONTE_CARLO])
    made = bounds.overall_certificate(risk=upper, bound=step, budget=budget)
    bound = made.inputs["bound"]
    known = {"zero-one": (f"randomised_{bound}", "0-1 risk"), "brier": (f"half_brier_{bound}", "half the Brier risk")}
    name, measures = known.get(risk.loss, (f"rescaled_{risk.loss}_{bound}", f"{risk.loss} risk, rescaled to [0, 1]"))
    return _about(made, name, of="randomised", measures=measures)


def _prior_mean(
    module: nn.Module, data: BoundSet, *, prior: Prior, failure_prob: float, device: torch.device | str
) -> list[bounds.Certificate]:
    """Of the network with the prior's means, to which the bound's examples are new."""
    if isinstance(prior.source, Private) or prior.choice_nats:
        return []
    errors = _errors(_outputs(module, prior.law, prior.law.means, data.inputs, device), data.labels)
    made = new_examples_certificate(errors, data.n, failure_prob=failure_prob)
    return [_about(made, of="prior mean", measures="0-1 risk")]


def _about(made: bounds.Certificate, name: str = "", *, of: str, measures: str) -> bounds.Certificate:
    """Named after the predictor and the risk that it is about."""
    return replace(made, name=name or made.name, inputs={**made.inputs, "of": of, "measures": measures})


def _one_draw(
    posterior: GaussianPosterior, module: nn.Module, data: BoundSet, *, prior: Prior, failure_prob: float, seed: int,
    device: torch.device | str,
) -> tuple[list[bounds.Certificate], list[Refusal]]:  # fmt: skip
    """Of one network drawn from the posterior: 0-1 risk, and calibration error from the bound's own examples.

    The exponential moment behind the latter bounds one draw by ln (dQ/dP)(w) just as it bounds the mean by the
    divergence ("One draw" in docs/guarantees.md), so the positive part of the ratio stands where the divergence does.
    """
    name = "one drawn network"
    if isinstance(prior.source, Private):
        reason = "the transfer from a private prior is proved for the mean over the posterior alone"
        return [], [Refusal(name=name, reason=reason)]
    weights = posterior.sample(torch.Generator().manual_seed(seed))
    ratio = log_density_ratio(posterior, prior.law, weights)
    if not math.isfinite(ratio):
        return [], [Refusal(name=name, reason="the prior's density at the draw underflows")]
    ratio = math.nextafter(ratio + prior.choice_nats, math.inf)
    outputs = _outputs(module, posterior, weights, data.inputs, device)
    error = error_share(_errors(outputs, data.labels), data.n)
    drawn = bounds.disintegrated(risk=error, log_density_ratio=ratio, n=data.n, failure_prob=failure_prob)
    sample = _calibration(outputs, data.labels)
    calibrated = bounds.ece_pac_bayes(
        calibration_error=sample.calibration_error, mean_squared_gap=sample.mean_squared_gap, kl_nats=max(0.0, ratio),
        n=data.n, failure_prob=failure_prob,
    )  # fmt: skip
    return [
        _about(drawn, "one_draw_disintegrated", of="one draw", measures="0-1 risk"),
        _about(calibrated, "one_draw_ece", of="one draw", measures="ECE"),
    ], []


def _held_out(outputs: Tensor, test: BoundSet, fresh: MonteCarloRisk, *, failure_prob: float
              ) -> list[bounds.Certificate]:  # fmt: skip
    """Of the randomised network and of the mean weights, on examples that neither prior nor posterior saw."""
    counts = {"randomised": fresh.errors, "mean weights": _errors(outputs, test.labels)}
    found = [
        _about(new_examples_certificate(k, test.n, failure_prob=failure_prob), of=of, measures="0-1 risk")
        for of, k in counts.items()
    ]
    sample = _calibration(outputs, test.labels)
    ece = bounds.ece_second_moment(
        calibration_error=sample.calibration_error, mean_squared_gap=sample.mean_squared_gap, n=test.n,
        failure_prob=failure_prob,
    )  # fmt: skip
    return [*found, _about(ece, "test_set_ece", of="mean weights", measures="ECE")]


@torch.no_grad()
def _outputs(module: nn.Module, posterior: GaussianPosterior, weights: Any, inputs: Tensor,
             device: torch.device | str) -> Tensor:  # fmt: skip
    """Of one network, on the CPU."""
    module = module.to(device)
    state = {name: value.to(device) for name, value in {**posterior.buffers, **weights}.items()}
    parts = [functional_call(module, state, (part.to(device),)).cpu() for part in inputs.split(_BATCH)]
    return torch.cat(parts)


def error_share(errors: int, n: int) -> float:
    """errors/n, rounded up."""
    share = errors / n
    return share if Fraction(share) >= Fraction(errors, n) else math.nextafter(share, math.inf)


def _errors(outputs: Tensor, labels: Tensor) -> int:
    return int((~(margins(outputs, labels) > 0)).sum())


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
