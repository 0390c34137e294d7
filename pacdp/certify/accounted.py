"""Certificates of clipped Langevin chains by their accounted privacy, in front of the optimistic ones.

Nothing here asks whether the chain has converged. Its weights w are released by mechanisms whose privacy loss is
accounted for (:mod:`pacdp.step.langevin`), and the general transfer pays Λ nats for using them on the same examples:

    R(w) ≤ kl⁻¹(R̂(w), Λ/n)                                        the weights themselves
    R(Q) ≤ kl⁻¹(R̂(Q), (KL(Q‖P) + ln ξ(n) + Λ)/n)                  any Q, with P = N(w, s² I) as prior

The second holds for all Q at once, also for one that was trained on from w without any noise or clipping. Since these
mechanisms are sums over secret Poisson batches with noise, the weights have a smaller Λ as well ("Noisy sums on secret
batches" in docs/guarantees.md).
"""

from dataclasses import replace
from typing import Any

from jaxtyping import Float
from torch import Tensor

import bounds
from bounds.accounting import Event
from bounds.hypotheses import Hypothesis
from bounds.prices import Price
from pacdp.algorithms import Chain
from pacdp.certify.chain import UNCLIPPED
from pacdp.certify.evidence import evidence_of
from pacdp.certify.examples import BoundSet
from pacdp.certify.gaussian import MonteCarlo
from pacdp.certify.networks import about, error_share
from pacdp.certify.priors import NOISE_OF_THE_RUN, NoisySum, Prior, Private, privacy_to_dict
from pacdp.certify.routes import certify
from pacdp.certify.settings import Settings
from pacdp.objective import Objective
from pacdp.posterior import GaussianPosterior, Point
from pacdp.predictions.report import Report
from pacdp.step.langevin import accounted_privacy, accounted_to_dict
from pacdp.step.planned_steps import ChargedSteps
from pacdp.stochastic import passes_for

MONTE_CARLO_SHARE = 0.02
SLACK_NATS = 1e-4


def of_the_run(noise: str) -> tuple[Hypothesis, Hypothesis]:
    """What a checkpoint shows of a promise of privacy, and who vouches for its noise."""
    by = "the checkpoint: the run saw the data of this hash and no others"
    return bounds.proved("privacy covers these rows", by), bounds.declared(
        "noise secret or independent", noise
    )


def poisson_sums(event: Event, *, whose: str, noise: str) -> bounds.PoissonSum:
    """The price of what ``event`` released, each step one sum of clipped contributions over a secret Poisson batch.

    Args:
        whose: what shows that noise enters each sum, that contributions are clipped, and that the schedule is fixed.
        noise: who vouches for noise and batches.

    Raises:
        ValueError: a step of the event is no such sum.
    """
    known = (
        bounds.proved(
            "records enter by noisy sums",
            f"{whose}: noise is added to each sum, and the rest computes with it",
        ),
        bounds.declared("noise secret or independent", noise),
        bounds.proved(
            "schedule blind to the records",
            f"{whose}, of which step sizes and noise scales are functions",
        ),
        bounds.declared(
            "first weights independent", "the run, whose first weights are drawn from its seed"
        ),
        bounds.declared("batches secret and Poisson", noise),
        bounds.proved("contributions bounded", f"{whose}: each contribution is clipped"),
    )
    return bounds.poisson_sum(event=event, hypotheses=known)


def weights_at(
    price: Price, *, risk: float, examples: BoundSet, failure_prob: float, evidence: Hypothesis
) -> bounds.Certificate:
    """Weights as they are, of this error on ``examples``, at the price of the noisy sums over these that made them."""
    if price.measured:
        made = bounds.maurer(
            risk=risk, kl_nats=0.0, n=examples.units, failure_prob=failure_prob, price=price
        )
    else:
        made = bounds.kl_chernoff(
            risk=risk, n=examples.units, failure_prob=failure_prob, price=price
        )
    known, _ = evidence_of(NoisySum(price=price, unit=examples.unit), examples, None)
    return about(made, of="weights", measures=examples.risk()).resting_on(*known, evidence)


def share_of_errors(weights: Float[Tensor, " dim"], data: Objective) -> float:
    """The share of errors of the weights among the examples of ``data``, rounded up."""
    (risks,) = data.risks(weights[None])
    return error_share(risks.errors, risks.n)


def around(data: Objective, weights: Float[Tensor, " dim"], *, std: float) -> GaussianPosterior:
    """N(weights, std² I)."""
    means = {name: view.detach().clone() for name, view in data.layout.views(weights).items()}
    return GaussianPosterior(
        means=means, stds={name: mean.new_tensor(std) for name, mean in means.items()}
    )


def with_accounted(
    found: Report,
    *,
    settings: Chain,
    weights: Float[Tensor, " dim"],
    charged: ChargedSteps,
    data: Objective,
    test: Objective | None,
    seed: int,
    fixed: Settings,
    noise: str = NOISE_OF_THE_RUN,
) -> Report:
    """The assessment of a clipped chain with its rigorous certificates in front, and what the chain spent.

    The optimistic certificates of ``found`` are about the chain without clipping, and are labelled so. The Gaussian
    classifier is the prior itself, N(weights, ``settings.thermal_std``² I), at no divergence.

    Args:
        charged: the steps that are accounted for, fixed before the chain began (:mod:`pacdp.step.planned_steps`).
        fixed: who fixed the settings; what their choice costs is paid in ``found.failure_prob`` already.
        noise: who vouches for the chain's noise.

    Raises:
        ValueError: the data's batches or clipping are not those of the settings.
    """
    require_own_batches(settings, data)
    claim = accounted_privacy(settings, n=data.n, steps=charged.steps)
    share = found.failure_prob
    law = around(data, weights, std=settings.thermal_std)
    examples, fixed = BoundSet.behind(data), replace(fixed, count=1)
    passes = passes_for(slack_nats=SLACK_NATS, n=data.n, failure_prob=MONTE_CARLO_SHARE * share)
    prior = Prior(law=law, source=Private(privacy=claim, rows=examples.rows, noise=noise))
    how, tested = (
        MonteCarlo(passes=passes, share=MONTE_CARLO_SHARE),
        BoundSet.behind(test) if test else None,
    )
    at: dict[str, Any] = {
        "failure_prob": share,
        "settings": fixed,
        "seed": seed,
        "device": data.device,
    }
    gaussian = certify(
        law, examples, prior=prior, network=data.model, test=tested, monte_carlo=how, **at
    )
    released = certify(Point(weights=weights), data, prior=claim, **at)
    event = settings.promise(data.n, charged.steps)
    if event is not None:
        sums = poisson_sums(event, whose=f"the settings of {settings.name}", noise=noise)
        risk = share_of_errors(weights, data)
        made = weights_at(
            sums,
            risk=risk,
            examples=examples,
            failure_prob=share,
            evidence=fixed.standing(examples),
        )
        released = replace(released, certificates=(made, *released.certificates))
    rigorous = replace(found, certificates=(*gaussian.certificates, *released.certificates))
    rigorous = rigorous.resting_on(*of_the_run(noise), beside="privacy covers these rows")
    optimistic = tuple(
        one.resting_on(UNCLIPPED) if one.status == "optimistic" else one
        for one in found.certificates
    )
    joined = replace(rigorous, certificates=(*rigorous.certificates, *optimistic)).joined(
        replace(gaussian, certificates=()), replace(released, certificates=(), refusals=())
    )
    return replace(
        joined,
        prior=gaussian.prior,
        rows=gaussian.rows,
        privacy=privacy_to_dict(claim),
        details={
            **joined.details,
            "accounted": accounted_to_dict(settings.promise(data.n, charged.steps)),
            "std": settings.thermal_std,
            "charged_steps": charged.steps,
            "stopping_times": charged.stopping_times,
        },
    )


def require_own_batches(settings: Chain, data: Objective) -> None:
    """Refuse an objective whose gradients are not those that the settings' accounting is about.

    Raises:
        ValueError: another clip norm or batch size.
    """
    if (data.clip_norm, data.batch_size) != (settings.clip_norm, settings.batch_size):
        raise ValueError(
            f"expected an objective with clip_norm={settings.clip_norm} and batch_size={settings.batch_size}, which "
            f"the accounting is about, got {data.clip_norm} and {data.batch_size}"
        )
