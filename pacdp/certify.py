"""Posterior x prior x data -> certificates: the one place where torch meets bounds.

Today every route rests on a prior that SGLD would have drawn had it converged (Dziugaite and Roy 2018). Nothing shows
that it did, so what rests on it is labelled optimistic. The test-set bound beside it rests on nothing.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch

import bounds
from pacdp.chains import CERTIFY, Diagnosis, Keys
from pacdp.gibbs import GibbsEstimate, GibbsSettings, Progress, estimate_gibbs
from pacdp.losses import Loss
from pacdp.objective import Objective, Risks
from pacdp.posterior import LocalGibbs, Point
from pacdp.prior import GaussianPrior, NoPrivacy

STATIONARITY = (
    "SGLD has converged: the trained weights are an exact draw from their private target distribution (unproved; "
    "if their law is at total variation distance v from it, add v to the failure probability)"
)
MONTE_CARLO = (
    "the Gibbs posterior's risk and KL divergence are averages along one finite SGLD run and over finitely many prior "
    "draws, taken without a correction for Monte Carlo error"
)
_PARTITION_SHARE = 0.1  # of the failure probability, for the bound on the log-partition function


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A certificate that does not apply, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """Everything known about one posterior: measured risks, certificates, and what was refused."""

    failure_prob: float
    """Of each certificate by itself: to quote the smallest of k of them, divide it by k first."""
    train: Risks
    """The mean weights on the training set."""
    test: Risks | None
    """The mean weights on the test set."""
    gibbs: GibbsEstimate | None
    privacy: bounds.PureDP | None
    certificates: tuple[bounds.Certificate, ...]
    refusals: tuple[Refusal, ...]
    diagnosis: Diagnosis | None = None
    """What the chains' own traces say of the stationarity that certificates assume; it can only refute it."""
    accounted: dict[str, Any] | None = None
    """What a chain of private steps spent, as JSON values; see :mod:`pacdp.langevin_certificates`."""
    gaussian: dict[str, Any] | None = None
    """The Gaussian classifier that its PAC-Bayes certificate is about, likewise."""

    def to_dict(self) -> dict[str, Any]:
        """JSON values, in the form ``pacdp-certificates/1``."""
        test_risk = self.gibbs.test_error if self.gibbs else (self.test.error if self.test else None)
        return {
            "format": "pacdp-certificates/1",
            "n": self.train.n,
            "failure_prob": self.failure_prob,
            "empirical_risk": self.gibbs.error if self.gibbs else self.train.error,
            "test_risk": test_risk,
            "kl_nats": self.gibbs.kl_nats if self.gibbs else None,
            "privacy": self.privacy.to_dict() if self.privacy else None,
            "mean_classifier": {"train": self.train._asdict(), "test": self.test._asdict() if self.test else None},
            "gibbs_classifier": asdict(self.gibbs) if self.gibbs else None,
            "certificates": [certificate.to_dict() for certificate in self.certificates],
            "not_applicable": [asdict(refusal) for refusal in self.refusals],
            "diagnosis": self.diagnosis.to_dict() if self.diagnosis else None,
            "accounted_privacy": self.accounted,
            "gaussian_classifier": self.gaussian,
        }


def certify(
    posterior: LocalGibbs | Point,
    data: Objective,
    *,
    prior: GaussianPrior | bounds.PureDP | NoPrivacy,
    failure_prob: float = 0.05,
    test: Objective | None = None,
    settings: GibbsSettings | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[bounds.Certificate]:
    """Every certificate that applies to ``posterior``, the optimistic ones labelled so.

    Args:
        data: the examples that the bound may use, with network and training loss.
        prior: for a local Gibbs posterior, its Gaussian prior; for a point, the privacy of what learnt it.
        failure_prob: of each certificate by itself.
        test: examples that training never saw, with the same network; adds a Clopper-Pearson bound that assumes
            nothing but independence.
        settings: effort spent on a Gibbs posterior.
        seed: of the randomness of that effort.

    Raises:
        ValueError: ``prior`` is not the prior of which a local Gibbs ``posterior`` is the posterior, or its privacy is
            not for replace-one adjacency.
    """
    return list(
        assess(posterior, data, prior=prior, failure_prob=failure_prob, test=test, settings=settings,
               seed=seed, progress=progress).certificates
    )  # fmt: skip


def assess(
    posterior: LocalGibbs | Point,
    data: Objective,
    *,
    prior: GaussianPrior | bounds.PureDP | NoPrivacy,
    failure_prob: float = 0.05,
    test: Objective | None = None,
    settings: GibbsSettings | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    diagnosis: Diagnosis | None = None,
) -> Assessment:
    """As :func:`certify`, with the measured risks and the refusals beside the certificates.

    ``diagnosis`` is of the chains that learnt the weights; it is reported where a certificate assumes stationarity.
    """
    if isinstance(posterior, LocalGibbs):
        _require_own_prior(posterior, prior)
    privacy = prior.privacy if isinstance(prior, GaussianPrior) else prior
    if isinstance(privacy, bounds.PureDP):
        _require_replace_one(privacy)
    (train_risks,) = data.risks(posterior.weights[None])
    test_risks = test.risks(posterior.weights[None])[0] if test else None
    gibbs = None
    if isinstance(posterior, LocalGibbs):
        keys = Keys.derive([seed], purpose=CERTIFY)
        (gibbs,) = estimate_gibbs([posterior], data, test, settings or GibbsSettings(), keys, progress)
    certificates: list[bounds.Certificate] = []
    refusals: list[Refusal] = []
    if isinstance(privacy, bounds.PureDP):
        if gibbs:
            certificates += gibbs_certificates(
                gibbs, n=data.n, loss=data.loss, privacy=privacy, failure_prob=failure_prob
            )
        certificates += weights_certificates(train_risks, privacy=privacy, failure_prob=failure_prob)
    else:
        names = ("DP-PAC-Bayes bounds", "H-, C- and kl-Chernoff bounds")[0 if gibbs else 1 :]
        refusals += [Refusal(name=name, reason=privacy.reason) for name in names]
    if test_risks:
        certificates.append(held_out_certificate(test_risks, failure_prob=failure_prob))
    else:
        refusals.append(Refusal(name="test-set bound", reason="no examples were kept from training"))
    return Assessment(
        failure_prob=failure_prob, train=train_risks, test=test_risks, gibbs=gibbs,
        privacy=privacy if isinstance(privacy, bounds.PureDP) else None,
        certificates=tuple(certificates), refusals=tuple(refusals),
        diagnosis=diagnosis if any(STATIONARITY in c.assumptions for c in certificates) else None,
    )  # fmt: skip


def gibbs_certificates(
    gibbs: GibbsEstimate, *, n: int, loss: Loss, privacy: bounds.PureDP, failure_prob: float
) -> list[bounds.Certificate]:
    """PAC-Bayes bounds on the Gibbs classifier's 0-1 risk: the paper's, max-information, sharp transfer, and, for a
    loss that bounds the 0-1 loss, the one that needs no draw of the posterior.
    """
    stationarity = _assumptions(privacy)
    forms = (bounds.dp_pac_bayes_2018, bounds.dp_pac_bayes_max_information, bounds.dp_pac_bayes)
    found = [
        form(
            risk=gibbs.error, kl_nats=gibbs.kl_nats, n=n, epsilon=privacy.epsilon, failure_prob=failure_prob
        ).with_assumptions(*stationarity, MONTE_CARLO)
        for form in forms
    ]
    if loss.error_loss is not None:
        partition = failure_prob * _PARTITION_SHARE
        interval = {"tau": gibbs.tau, "loss_low": loss.low, "loss_high": loss.high}
        lower = bounds.log_partition_best(
            # single precision may step over the interval's ends; both clamps are on the safe side
            log_mean_exp=min(gibbs.log_partition_nats, -gibbs.tau * loss.low),
            mean_loss=min(max(gibbs.prior_loss, loss.low), loss.high), draws=gibbs.prior_draws,
            failure_prob=partition, **interval,
        )  # fmt: skip
        certificate = bounds.dp_gibbs_pac_bayes(
            log_partition_lower_nats=lower.nats, error_loss=loss.error_loss, n=n, epsilon=privacy.epsilon,
            failure_prob=failure_prob - partition, log_partition_failure_prob=partition, **interval,
        )  # fmt: skip
        found.append(_labelled(certificate, *stationarity))
    return found


def weights_certificates(risks: Risks, *, privacy: bounds.PureDP, failure_prob: float) -> list[bounds.Certificate]:
    """H-, C- (the paper's and the sharp forms) and kl-Chernoff bounds on the risk of the weights themselves.

    The loss is the ramp, a continuous upper bound on the 0-1 loss, so each value bounds the 0-1 risk too.
    """
    forms = (bounds.dp_hoeffding_2018, bounds.dp_chernoff_2018,
             bounds.dp_hoeffding, bounds.dp_chernoff, bounds.dp_kl_chernoff)  # fmt: skip
    assumptions = _assumptions(privacy)
    return [
        _labelled(form(risk=risks.ramp, n=risks.n, epsilon=privacy.epsilon, failure_prob=failure_prob), *assumptions)
        for form in forms
    ]


def held_out_certificate(risks: Risks, *, failure_prob: float) -> bounds.Certificate:
    """Clopper-Pearson on examples that training never saw, for the weights themselves; assumes nothing else."""
    return new_examples_certificate(risks.errors, risks.n, failure_prob=failure_prob)


def new_examples_certificate(errors: int, n: int, *, failure_prob: float) -> bounds.Certificate:
    """Clopper and Pearson's bound on the 0-1 risk of a predictor that errs on ``errors`` of ``n`` examples new to it.

    Formal guarantee: see :func:`bounds.clopper_pearson_upper`.
    """
    return bounds.Certificate(
        name="test_set_clopper_pearson", value=bounds.clopper_pearson_upper(errors, n, failure_prob),
        failure_prob=failure_prob, status="rigorous", terms={"empirical_risk": errors / n},
        budget={"test set": failure_prob}, reference="Clopper and Pearson (1934)",
        inputs={"k": errors, "n": n, "failure_prob": failure_prob},
    )  # fmt: skip


def _require_own_prior(posterior: LocalGibbs, prior: GaussianPrior | bounds.PureDP | NoPrivacy) -> None:
    if not (
        isinstance(prior, GaussianPrior)
        and math.isclose(prior.std, posterior.prior_std, rel_tol=1e-12)
        and torch.equal(prior.mean, posterior.weights)
    ):
        raise ValueError(
            "expected prior to be GaussianPrior with the posterior's weights as mean and its prior_std as std: the KL "
            "estimate of a local Gibbs posterior is against that Gaussian alone"
        )


def _require_replace_one(privacy: bounds.PureDP) -> None:
    if privacy.adjacency != "replace-one":
        raise ValueError(
            f"expected privacy for replace-one adjacency, which the bounds need, got {privacy.adjacency}: replacing a "
            "record is removing one and adding one, so double epsilon"
        )


def _labelled(certificate: bounds.Certificate, *assumptions: str) -> bounds.Certificate:
    return certificate.with_assumptions(*assumptions) if assumptions else certificate


def _assumptions(privacy: bounds.PureDP) -> tuple[str, ...]:
    _require_replace_one(privacy)
    return (STATIONARITY,) if privacy.status == "assumes stationarity" else privacy.assumptions
