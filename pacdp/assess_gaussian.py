"""Certificates of a Gaussian posterior over the weights of any network: sampled risk, closed divergence, any prior.

Everything here is rigorous unless a private prior's accountant is not: the risk of the posterior is sampled with fresh
weights for every example and paid for, the divergence is closed, and the prior's source decides what is added to it.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import bounds
from pacdp.bound_set import BoundSet
from pacdp.certify import Refusal, new_examples_certificate
from pacdp.losses import Loss, brier, zero_one
from pacdp.posterior import GaussianPosterior
from pacdp.prior import Prior, Private
from pacdp.single_networks import Examples, about, class_count, mean_weights, one_draw, prior_mean
from pacdp.stochastic import MonteCarloRisk, mean_risks

Progress = Callable[[int, int], None]
MONTE_CARLO, PAC_STEP = "Monte Carlo", "PAC step"


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
    test_errors: dict[str, float]
    """0-1 errors on the test set by predictor: "randomised" (one draw an example), "mean weights", "one draw", "prior
    mean"."""
    certificates: tuple[bounds.Certificate, ...]
    refusals: tuple[Refusal, ...]
    prior: dict[str, Any]
    """Where the prior came from, as JSON values."""
    bound_hash: str | None
    """Of the indices of the bound's examples, where they have any."""

    @property
    def test_error(self) -> float | None:
        """Of the posterior on the test set, one draw an example."""
        return self.test_errors.get("randomised")

    @property
    def mean_test_error(self) -> float | None:
        """Of the mean weights."""
        return self.test_errors.get("mean weights")

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
            "prior": self.prior, "bound_hash": self.bound_hash, "test_errors": self.test_errors,
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
    and prior depend on the examples as ``prior.source`` says and not on the draws: ``seed`` and ``monte_carlo`` were
    fixed before a result of theirs was seen, and no posterior is chosen by certificates of that seed. The PAC-Bayes
    step alone holds for all posteriors at once.

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
    names = ["zero-one", "brier", *(loss.name for loss in losses)]
    if len(set(names)) != len(names):
        raise ValueError(
            f"expected losses of names that differ from each other and from zero-one and brier, got {names}"
        )
    classes = class_count(module, posterior, data.inputs, device)
    for each in (data, *([] if test is None else [test])):
        each.require_labels(classes)
    if test is not None:
        test.require_new(data)
        prior.require_untested(test)
    kl = posterior.kl_nats(prior.law)
    if not math.isfinite(kl):
        raise ValueError("the divergence from the prior is infinite: both laws must have the same fixed weights and "
                         "buffers, and a std > 0 for the same parameters")  # fmt: skip
    kl = math.nextafter(kl + prior.choice_nats, math.inf) if prior.choice_nats else kl
    how = monte_carlo or MonteCarlo()
    budget = bounds.FailureBudget(failure_prob).spend(MONTE_CARLO, how.share * failure_prob)
    budget = budget.spend(PAC_STEP, budget.left)
    sampled = functools.partial(mean_risks, module, posterior, batch_size=how.batch_size, device=device)
    risks = sampled(inputs=data.inputs, labels=data.labels, losses=(zero_one(), brier(), *losses), passes=how.passes,
                    group_size=how.group_size, seed=seed, progress=progress, resume=how.resume)  # fmt: skip
    step = _pac_step(prior, kl_nats=kl, n=data.n)
    certificates = [_overall(risk, step, budget) for risk in risks]
    examples = Examples(module=module, data=data, test=test, failure_prob=failure_prob, device=device)
    singles = [mean_weights(posterior, examples), prior_mean(prior, examples),
               one_draw(posterior, prior, examples, seed=seed)]  # fmt: skip
    refusals = [Refusal(name=each.of, reason=each.refusal) for each in singles if each.refusal]
    certificates += [made for each in singles for made in each.certificates]
    test_errors = {each.of: each.test_error for each in singles if each.test_error is not None}
    if test is None:
        refusals.append(Refusal(name="test-set bounds", reason="no examples were kept from prior and posterior"))
    else:
        # a draw for each example: Clopper and Pearson count independent errors
        (fresh,) = sampled(inputs=test.inputs, labels=test.labels, losses=(zero_one(),), passes=1, group_size=1,
                           seed=seed + 1)  # fmt: skip
        test_errors["randomised"] = fresh.mean
        made = new_examples_certificate(fresh.errors, test.n, failure_prob=failure_prob)
        certificates.append(about(made, of="randomised", measures="0-1 risk"))
    return GaussianAssessment(
        failure_prob=failure_prob, n=data.n, kl_nats=kl, risks=risks, mean_error=singles[0].error,
        test_errors=test_errors, certificates=tuple(certificates), refusals=tuple(refusals), prior=prior.to_dict(),
        bound_hash=data.indices.hash if data.indices else None,
    )  # fmt: skip


def _pac_step(prior: Prior, *, kl_nats: float, n: int) -> Callable[..., bounds.Certificate]:
    """The PAC-Bayes-kl bound for the prior's source, called with risk and failure_prob."""
    if isinstance(prior.source, Private):
        if prior.source.seen is not None:
            return functools.partial(bounds.hybrid_pac_bayes, kl_nats=kl_nats, n_bound=n, privacy=prior.source.privacy)
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
    return about(made, name, of="randomised", measures=measures)
