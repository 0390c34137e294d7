"""Certificates of what a chain or a private mechanism released: its Gibbs classifier, and its weights as they are.

Where the promise of privacy is that of the target distribution of SGLD (Dziugaite and Roy 2018), everything rests on
the chain having reached it; nothing shows that it did, so what rests on it is labelled optimistic. Where the steps
themselves are accounted for, nothing is assumed of convergence.
"""

from collections.abc import Callable
from dataclasses import asdict

import bounds
from bounds.prices import Accounted
from pacdp.certify.assessment import Assessment, Measured, Refusal
from pacdp.certify.networks import about, clopper_pearson, error_share
from pacdp.certify.priors import NoPrivacy, privacy_to_dict
from pacdp.chains import CERTIFY, Diagnosis, Keys
from pacdp.gibbs import GibbsEstimate, GibbsSettings, Progress, estimate_gibbs
from pacdp.losses import Loss
from pacdp.objective import Objective, Risks
from pacdp.posterior import LocalGibbs, Point

AVERAGES = bounds.unproved(
    "averages exact",
    "the Gibbs posterior's risk and divergence are averages along one finite SGLD run and over finitely many prior "
    "draws, without a correction for Monte Carlo error",
)
UNCLIPPED = bounds.unproved(
    "clipping inactive",
    "nothing shows that clipping changed no gradient of the run, so that the chain had the Gibbs distribution as its "
    "target",
)
_PARTITION_SHARE = 0.1  # of the failure probability, for the bound on the log-partition function


def gibbs_certificates(
    gibbs: GibbsEstimate, *, n: int, loss: Loss, privacy: bounds.PureDP, failure_prob: float
) -> list[bounds.Certificate]:
    """PAC-Bayes bounds on the Gibbs classifier's 0-1 risk: the paper's, max-information, sharp transfer, and, for a
    loss that bounds the 0-1 loss, the one that needs no draw of the posterior.

    An estimate of the divergence that its own run refutes gives no bound (:func:`refuted`).
    """
    require_replace_one(privacy)
    found: list[bounds.Certificate] = []
    if not refuted(gibbs):
        forms = (bounds.dp_pac_bayes_2018, bounds.dp_pac_bayes_max_information, bounds.dp_pac_bayes)
        found += [
            form(
                risk=gibbs.error, kl_nats=gibbs.kl_nats, n=n, epsilon=privacy.epsilon, failure_prob=failure_prob
            ).resting_on(*privacy.hypotheses, AVERAGES)
            for form in forms
        ]
    if loss.error_loss is not None:
        partition = failure_prob * _PARTITION_SHARE
        interval = {"tau": gibbs.tau, "loss_low": loss.low, "loss_high": loss.high}
        lower = bounds.log_partition_best(
            # single precision may step over the interval's ends; both clamps are on the safe side
            log_mean_exp=min(gibbs.log_partition_nats, -gibbs.tau * loss.low),
            mean_loss=min(max(gibbs.prior_loss, loss.low), loss.high),
            draws=gibbs.prior_draws,
            failure_prob=partition,
            **interval,
        )
        certificate = bounds.dp_gibbs_pac_bayes(
            log_partition_lower_nats=lower.nats,
            error_loss=loss.error_loss,
            n=n,
            epsilon=privacy.epsilon,
            failure_prob=failure_prob - partition,
            log_partition_failure_prob=partition,
            **interval,
        )
        found.append(_resting(certificate, privacy.hypotheses))
    return [about(made, of="Gibbs classifier", measures="0-1 risk") for made in found]


def refuted(gibbs: GibbsEstimate) -> str:
    """Why the run's estimate of the divergence cannot be one, or the empty string.

    A divergence is never negative. An estimate further below zero than its own sampling error explains says that the
    run did not sample the posterior, and then its average risk is not the posterior's either.
    """
    if gibbs.kl_raw_nats >= -3.0 * gibbs.kl_error_nats:
        return ""
    return (
        f"the run's estimate of the divergence is {gibbs.kl_raw_nats:.4g} nats, with a standard error of "
        f"{gibbs.kl_error_nats:.2g}, and a divergence is never negative: the run did not sample the posterior"
    )


def weights_certificates(risks: Risks, *, privacy: bounds.PureDP, failure_prob: float) -> list[bounds.Certificate]:
    """H-, C- (the paper's and the sharp forms) and kl-Chernoff bounds on the risk of the weights themselves.

    The loss is the ramp, a continuous upper bound on the 0-1 loss, so each value bounds the 0-1 risk too.
    """
    require_replace_one(privacy)
    forms: tuple[Callable[..., bounds.Certificate], ...] = (
        bounds.dp_hoeffding_2018,
        bounds.dp_chernoff_2018,
        bounds.dp_hoeffding,
        bounds.dp_chernoff,
        bounds.dp_kl_chernoff,
    )
    made = [form(risk=risks.ramp, n=risks.n, epsilon=privacy.epsilon, failure_prob=failure_prob) for form in forms]
    return [about(_resting(one, privacy.hypotheses), of="weights", measures="0-1 risk") for one in made]


def released_certificate(
    risk: float, *, n: int, privacy: bounds.PrivacyClaim, failure_prob: float, of: str = "weights"
) -> bounds.Certificate:
    """The 0-1 risk of what a mechanism with this privacy released, used as it is: R ≤ kl⁻¹(risk, Λ/n).

    Formal guarantee: as for :func:`bounds.private_kl_chernoff`.
    """
    made = bounds.kl_chernoff(risk=risk, n=n, failure_prob=failure_prob, price=Accounted(privacy=privacy))
    return about(made, of=of, measures="0-1 risk")


def released_weights_certificate(
    risks: Risks, *, privacy: bounds.PrivacyClaim, failure_prob: float
) -> bounds.Certificate:
    """The same from exact counts on the training set."""
    risk = error_share(risks.errors, risks.n)
    return released_certificate(risk, n=risks.n, privacy=privacy, failure_prob=failure_prob)


def require_replace_one(privacy: bounds.PureDP) -> None:
    """Refuse a promise about other neighbours than the bounds need.

    Raises:
        ValueError: the adjacency is add-remove.
    """
    if privacy.adjacency != "replace-one":
        raise ValueError(
            f"expected privacy for replace-one adjacency, which the bounds need, got {privacy.adjacency}: replacing a "
            "record is removing one and adding one, so double epsilon"
        )


def _resting(made: bounds.Certificate, hypotheses: tuple[bounds.Hypothesis, ...]) -> bounds.Certificate:
    return made.resting_on(*hypotheses) if hypotheses else made


def of_chain(
    law: LocalGibbs | Point,
    data: Objective,
    prior: bounds.PrivacyClaim | NoPrivacy,
    test: Objective | None,
    failure_prob: float,
    effort: GibbsSettings | None,
    seed: int,
    progress: Progress | None,
    diagnosis: Diagnosis | None,
) -> Assessment:
    """The Gibbs classifier around a chain's weights and the weights themselves."""
    (train,) = data.risks(law.weights[None])
    tested = test.risks(law.weights[None])[0] if test else None
    measured = [Measured(of="weights", on="bound", loss="zero-one", mean=train.error, errors=train.errors, n=train.n)]
    certificates: list[bounds.Certificate] = []
    refusals: list[Refusal] = []
    estimate = None
    if isinstance(law, LocalGibbs):
        keys = Keys.derive([seed], purpose=CERTIFY)
        (estimate,) = estimate_gibbs([law], data, test, effort or GibbsSettings(), keys, progress)
        measured.append(
            Measured(of="Gibbs classifier", on="bound", loss="zero-one", mean=estimate.error, errors=None, n=data.n)
        )
        if estimate.test_error is not None and test is not None:
            mean = estimate.test_error
            measured.append(
                Measured(of="Gibbs classifier", on="test", loss="zero-one", mean=mean, errors=None, n=test.n)
            )
    if isinstance(prior, NoPrivacy):
        names = ("DP-PAC-Bayes bounds", "H-, C- and kl-Chernoff bounds")[0 if estimate else 1 :]
        refusals += [Refusal(name=name, reason=prior.reason) for name in names]
    elif isinstance(prior, bounds.PureDP):
        if estimate:
            reason = refuted(estimate)
            refusals += [Refusal(name="DP-PAC-Bayes bounds", reason=reason)] if reason else []
            certificates += gibbs_certificates(
                estimate, n=data.n, loss=data.loss, privacy=prior, failure_prob=failure_prob
            )
        certificates += weights_certificates(train, privacy=prior, failure_prob=failure_prob)
    else:
        certificates.append(released_weights_certificate(train, privacy=prior, failure_prob=failure_prob))
    if tested and test:
        measured.append(
            Measured(of="weights", on="test", loss="zero-one", mean=tested.error, errors=tested.errors, n=tested.n)
        )
        made = clopper_pearson(tested.errors, tested.n, failure_prob)
        certificates.append(about(made, of="weights", measures="0-1 risk"))
    else:
        refusals.append(Refusal(name="test-set bound", reason="no examples were kept from training"))
    assumed = any(one.name == "chain stationary" for made in certificates for one in made.unproved)
    return Assessment(
        route="gibbs" if estimate else "released",
        n=data.n,
        examples=data.n,
        failure_prob=failure_prob,
        certificates=tuple(certificates),
        refusals=tuple(refusals),
        measured=tuple(measured),
        privacy=None if isinstance(prior, NoPrivacy) else privacy_to_dict(prior),
        gibbs=asdict(estimate) if estimate else None,
        diagnosis=diagnosis.to_dict() if diagnosis and assumed else None,
        details={"weights": {"train": train._asdict(), "test": tested._asdict() if tested else None}},
    )
