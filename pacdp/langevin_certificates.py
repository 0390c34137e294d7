"""Certificates of clipped Langevin chains: rigorous ones by their accounted privacy, beside the optimistic ones.

Nothing here asks whether the chain has converged. Its weights w are released by mechanisms whose privacy loss is
accounted for (:mod:`pacdp.langevin_privacy`), and the general transfer pays Λ nats for using them on the same examples:

    R(w) ≤ kl⁻¹(R̂(w), Λ/n)                                        the weights themselves
    R(Q) ≤ kl⁻¹(R̂(Q), (KL(Q‖P) + ln ξ(n) + Λ)/n)                  any Q, with P = N(w, s² I) as prior

The second holds for all Q at once, also for one that was trained on from w without any noise or clipping.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from jaxtyping import Float
from torch import Tensor

import bounds
from pacdp.certify import Assessment
from pacdp.langevin_privacy import Claim, accounted_privacy, spent
from pacdp.losses import zero_one
from pacdp.objective import Objective, Risks
from pacdp.posterior import GaussianPosterior
from pacdp.samplers import SGLD, EntropySGD
from pacdp.single_networks import error_share
from pacdp.stochastic import MonteCarloRisk, mean_risk, passes_for

UNCLIPPED = (
    "clipping changed no gradient of the run, so that the chain had the Gibbs distribution as its target (unproved; "
    "the certificates labelled rigorous do not use it)"
)
_MONTE_CARLO_SHARE = 0.02
_SLACK_NATS = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianRisk:
    """A Gaussian classifier's 0-1 losses under fresh weights for every example."""

    std: float
    """Standard deviation of the prior's weights."""
    kl_nats: float
    """KL(Q‖P), rounded up."""
    train: MonteCarloRisk
    test: MonteCarloRisk | None

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "std": self.std, "kl_nats": self.kl_nats, "train": self.train.to_dict(),
            "test": self.test.to_dict() if self.test else None,
        }  # fmt: skip


def released_weights_certificate(risks: Risks, *, privacy: Claim, failure_prob: float) -> bounds.Certificate:
    """The 0-1 risk of weights that a mechanism with this privacy released: R(w) ≤ kl⁻¹(errors/n, Λ/n).

    Formal guarantee: as for :func:`bounds.private_kl_chernoff`; the count of errors is exact.
    """
    return bounds.private_kl_chernoff(
        risk=error_share(risks.errors, risks.n), n=risks.n, privacy=privacy, failure_prob=failure_prob
    )


def gaussian_certificate(
    data: Objective, posterior: GaussianPosterior, *, prior: GaussianPosterior, privacy: Claim, failure_prob: float,
    seed: int, passes: int | None = None,
) -> tuple[bounds.Certificate, MonteCarloRisk]:  # fmt: skip
    """The 0-1 risk of a Gaussian classifier, its prior a function of what a private mechanism released.

    Formal guarantee: R(Q) ≤ value for all Q whose Monte Carlo is paid for, with probability at least 1 - failure_prob
    over sample, mechanism and draws, if ``prior`` is a function of what a mechanism with this privacy released, and
    ``seed`` and ``passes`` do not depend on a result. Both standard deviations count: those of the prior must not be
    chosen by looking at the examples.

    Args:
        data: all n examples that the mechanism saw.
        privacy: of all that it released.
        failure_prob: 2 % of it pay for the Monte Carlo.
        passes: over the examples, each with fresh weights; by default as many as keep the Monte Carlo error below 1e-4
            nats an example.
    """
    ledger = bounds.FailureBudget.split(failure_prob, **{"Monte Carlo": _MONTE_CARLO_SHARE,
                                                         "PAC step": 1.0 - _MONTE_CARLO_SHARE})  # fmt: skip
    share = ledger.spent["Monte Carlo"]
    passes = passes or passes_for(slack_nats=_SLACK_NATS, n=data.n, failure_prob=share)
    counted = gaussian_risk(data, posterior, passes=passes, seed=seed)
    step = partial(bounds.private_pac_bayes, kl_nats=posterior.kl_nats(prior), n=data.n, privacy=privacy)
    made = bounds.overall_certificate(risk=counted.upper(share), bound=step, budget=ledger)
    return replace(made, name="private_pac_bayes"), counted


def gaussian_risk(data: Objective, posterior: GaussianPosterior, *, passes: int, seed: int) -> MonteCarloRisk:
    """0-1 losses of the Gaussian classifier on all examples, with fresh weights for each."""
    inputs, labels = data.examples
    return mean_risk(data.model, posterior, inputs=inputs, labels=labels, loss=zero_one(), passes=passes, seed=seed,
                     device=data.device)  # fmt: skip


def around(data: Objective, weights: Float[Tensor, " dim"], *, std: float) -> GaussianPosterior:
    """N(weights, std² I)."""
    means = {name: view.detach().clone() for name, view in data.layout.views(weights).items()}
    return GaussianPosterior(means=means, stds={name: mean.new_tensor(std) for name, mean in means.items()})


def thermal_std(settings: SGLD | EntropySGD) -> float:
    """(γτ)^-½, the standard deviation of Entropy-SG(L)D's local prior; with γ = 1 for SGLD."""
    return settings.prior_std if isinstance(settings, EntropySGD) else settings.tau**-0.5


def with_accounted(
    found: Assessment, *, settings: SGLD | EntropySGD, weights: Float[Tensor, " dim"], steps: int, data: Objective,
    test: Objective | None, seed: int, stopping_times: int = 1,
) -> Assessment:  # fmt: skip
    """The assessment of a clipped chain with its rigorous certificates in front, and what the chain spent.

    The optimistic certificates of ``found`` are about the chain without clipping, and are labelled so. The Gaussian
    classifier is the prior itself, N(weights, :func:`thermal_std`² I), at no divergence.

    Args:
        steps: that are accounted for, fixed before the chain began (:mod:`pacdp.steps`).
        stopping_times: at which the run may have ended; the rigorous certificates hold for all of them together.

    Raises:
        ValueError: the data's batches or clipping are not those of the settings.
    """
    require_own_batches(settings, data)
    privacy = accounted_privacy(settings, n=data.n, steps=steps)
    std = thermal_std(settings)
    prior = around(data, weights, std=std)
    share = found.failure_prob / stopping_times
    mixed, counted = gaussian_certificate(data, prior, prior=prior, privacy=privacy, failure_prob=share, seed=seed)
    rigorous = mixed, released_weights_certificate(found.train, privacy=privacy, failure_prob=share)
    if stopping_times > 1:
        others = found.failure_prob - share
        rigorous = tuple(one.charged("other stopping times", others) for one in rigorous)
    optimistic = (
        c.with_assumptions(UNCLIPPED) if c.status == "optimistic" else c for c in found.certificates
    )  # fmt: skip
    tested = gaussian_risk(test, prior, passes=1, seed=seed + 1) if test else None
    gaussian = GaussianRisk(std=std, kl_nats=mixed.terms["kl_nats"], train=counted, test=tested)
    return replace(
        found, certificates=(*rigorous, *optimistic), gaussian=gaussian.to_dict(),
        accounted=spent(settings, n=data.n, steps=steps).to_dict(),
    )  # fmt: skip


def require_own_batches(settings: SGLD | EntropySGD, data: Objective) -> None:
    """Refuse an objective whose gradients are not those that the settings' accounting is about.

    Raises:
        ValueError: another clip norm or batch size.
    """
    if (data.clip_norm, data.batch_size) != (settings.clip_norm, settings.batch_size):
        raise ValueError(
            f"expected an objective with clip_norm={settings.clip_norm} and batch_size={settings.batch_size}, which "
            f"the accounting is about, got {data.clip_norm} and {data.batch_size}"
        )
