"""Certificates of what a chain or a private mechanism released: its Gibbs classifier, and its weights as they are.

Where the promise of privacy is that of the target distribution of SGLD (Dziugaite and Roy 2018), everything rests on
the chain having reached it; nothing shows that it did, so what rests on it is labelled optimistic. Where the steps
themselves are accounted for, nothing is assumed of convergence.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict

import torch

import bounds
from bounds.prices import Accounted
from pacdp.certify.gibbs import GibbsEstimate, GibbsSettings, estimate_gibbs
from pacdp.certify.networks import Question, released_certificate
from pacdp.certify.outputs import error_share, require_logits
from pacdp.certify.priors import privacy_to_dict
from pacdp.chains import CERTIFY, Keys
from pacdp.losses import Loss
from pacdp.objective import Objective, Risks
from pacdp.posterior import LocalGibbs
from pacdp.predictions.bounding import about, clopper_pearson
from pacdp.predictions.report import Measured, Refusal, Report
from pacdp.step.event import NoPrivacy
from pacdp.store.record import Values

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
MIXED = bounds.unproved(
    "losses one an example",
    "the network normalises over the batch, so that the loss of an example depends on the others of its batch: the "
    "empirical risk is no mean over examples, and no theorem is about it",
)
EXAMPLES = bounds.unproved(
    "records independent",
    "the data set says whose its examples are, and a chain's certificates count examples, not people: "
    "train_certified counts people",
    "example",
)
_PARTITION_SHARE = 0.1  # of the failure probability, for the bound on the log-partition function
_OF_GIBBS = (
    bounds.printed.dp_pac_bayes_2018,
    bounds.printed.dp_pac_bayes_max_information,
    bounds.printed.dp_pac_bayes,
)
_OF_WEIGHTS: tuple[Callable[..., bounds.Certificate], ...] = (
    bounds.printed.dp_hoeffding_2018,
    bounds.printed.dp_chernoff_2018,
    bounds.printed.dp_hoeffding,
    bounds.printed.dp_chernoff,
    bounds.printed.dp_kl_chernoff,
)


def gibbs_certificates(
    gibbs: GibbsEstimate, *, n: int, loss: Loss, privacy: bounds.PureDP, failure_prob: float
) -> list[bounds.Certificate]:
    """PAC-Bayes bounds on the Gibbs classifier's 0-1 risk: the paper's, max-information, sharp transfer, and, for a
    loss that bounds the 0-1 loss, the one that needs no draw of the posterior.

    An estimate of the divergence that its own run refutes gives no bound (:func:`refuted`).

    Raises:
        ValueError: the promise is about other neighbours than the bounds need.
    """
    of, found = "Gibbs classifier", list[bounds.Certificate]()
    at: Values = {"n": n, "epsilon": privacy.epsilon}
    if not refuted(gibbs):
        at_run = {"risk": gibbs.error, "kl_nats": gibbs.kl_nats, "failure_prob": failure_prob, **at}
        found += _resting((form(**at_run) for form in _OF_GIBBS), privacy, AVERAGES, of=of)
    if loss.error_loss is not None:
        partition = failure_prob * _PARTITION_SHARE
        interval = {"tau": gibbs.tau, "loss_low": loss.low, "loss_high": loss.high}
        lower = bounds.partition.log_partition_best(
            # single precision may step over the interval's ends; both clamps are on the safe side
            log_mean_exp=min(gibbs.log_partition_nats, -gibbs.tau * loss.low),
            mean_loss=min(max(gibbs.prior_loss, loss.low), loss.high),
            draws=gibbs.prior_draws,
            failure_prob=partition,
            **interval,
        )
        made = bounds.printed.dp_gibbs_pac_bayes(
            log_partition_lower_nats=lower.nats,
            error_loss=loss.error_loss,
            failure_prob=failure_prob - partition,
            log_partition_failure_prob=partition,
            **interval,
            **at,
        )
        found += _resting([made], privacy, of=of)
    return found


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


def weights_certificates(
    risks: Risks, *, privacy: bounds.PureDP, failure_prob: float
) -> list[bounds.Certificate]:
    """H-, C- (the paper's and the sharp forms) and kl-Chernoff bounds on the risk of the weights themselves.

    The loss is the ramp, a continuous upper bound on the 0-1 loss, so each value bounds the 0-1 risk too.

    Raises:
        ValueError: as for :func:`gibbs_certificates`.
    """
    at: Values = {
        "risk": risks.ramp,
        "n": risks.n,
        "epsilon": privacy.epsilon,
        "failure_prob": failure_prob,
    }
    return _resting((form(**at) for form in _OF_WEIGHTS), privacy, of="weights")


def released_weights_certificate(
    risks: Risks, *, privacy: bounds.PrivacyClaim, failure_prob: float
) -> bounds.Certificate:
    """As :func:`released_certificate`, from exact counts on the training set."""
    risk, price = error_share(risks.errors, risks.n), Accounted(privacy=privacy)
    return released_certificate(risk, n=risks.n, price=price, failure_prob=failure_prob)


def _resting(
    made: Iterable[bounds.Certificate], privacy: bounds.PureDP, *more: bounds.Hypothesis, of: str
) -> list[bounds.Certificate]:
    """Certificates of a predictor with what is known of the promise, which must be about replaced records."""
    if privacy.adjacency != "replace-one":
        raise ValueError(
            f"expected privacy for replace-one adjacency, which the bounds need, got {privacy.adjacency}: replacing a "
            "record is removing one and adding one, so double epsilon"
        )
    known = (*privacy.hypotheses, *more)
    return [about(one.resting_on(*known) if known else one, of=of) for one in made]


def assess(asked: Question) -> Report:
    """The Gibbs classifier around a chain's weights and the weights themselves."""
    law, prior, (data, test) = asked.law, asked.prior, asked.given
    if not isinstance(prior, bounds.PrivacyClaim | NoPrivacy):
        raise ValueError(
            "the weights of a chain need prior=, what it promises: a privacy claim or NoPrivacy"
        )
    for each in filter(None, (data, test)):
        own = each.weights()[0]
        if (law.weights.shape, law.weights.dtype) != (own.shape, own.dtype):
            raise ValueError(
                f"law.weights must be one vector of {own.dtype} for the network's {each.dim} weights, got "
                f"{law.weights.dtype} {tuple(law.weights.shape)}: give those of a network like the Objective's"
            )
        turned = (law.weights, -law.weights)  # of logits few lie from 0 to 1 at both
        require_logits(torch.cat([each.logits(weights) for weights in turned]))
    fixed = [dict(one.model.named_buffers()) for one in (data, test or data)]
    same = fixed[0].keys() == fixed[1].keys() and all(
        torch.equal(one.cpu(), fixed[1][name].cpu()) for name, one in fixed[0].items()
    )
    if test and not (same and repr(test.model) == repr(data.model)):
        raise ValueError(
            "test must be an Objective of the network that data is one of, which the weights are of, got another: "
            "build it with a copy of that network"
        )
    if isinstance(law, LocalGibbs) and data.loss.compiled is None and not _has_slope(data, law):
        raise ValueError(
            f"the loss of data must have a slope, by which a LocalGibbs is sampled, and {data.loss.name} has none: "
            "give bounded_cross_entropy, or certify a Point"
        )
    (train,) = data.risks(law.weights[None])
    tested = test.risks(law.weights[None])[0] if test else None
    gibbs = None
    if isinstance(law, LocalGibbs):
        keys, effort = Keys.derive([asked.seed], purpose=CERTIFY), asked.gibbs or GibbsSettings()
        (gibbs,) = estimate_gibbs([law], data, test, effort, keys, asked.progress)
    found = asked.report(
        "gibbs" if gibbs else "released",
        [
            *_measured(train, tested, gibbs),
            *chain_certificates(data, prior, train, gibbs, asked.failure_prob),
            clopper_pearson(tested.errors, tested.n, asked.failure_prob, of="weights")
            if tested
            else Refusal(name="test-set bound", reason="no examples were kept from training"),
        ],
        privacy=None if isinstance(prior, NoPrivacy) else privacy_to_dict(prior),
        gibbs=asdict(gibbs) if gibbs else None,
        details={"weights": {"train": train._asdict(), "test": tested and tested._asdict()}},
    )
    if any(each and each.people for each in (data, test)):
        found = found.resting_on(EXAMPLES, beside=EXAMPLES.name)
    return found.each(lambda made: made.resting_on(MIXED)) if data.mixes else found


def _has_slope(data: Objective, law: LocalGibbs) -> bool:
    """Whether autograd can take the loss's derivative by the outputs."""
    outputs = data.logits(law.weights)
    with torch.inference_mode(False), torch.enable_grad():
        return data.loss(outputs.clone().requires_grad_(), data.labels[0].clone()).requires_grad


def _measured(
    train: Risks, tested: Risks | None, gibbs: GibbsEstimate | None
) -> Iterator[Measured]:
    yield Measured(of="weights", on="bound", mean=train.error, errors=train.errors, n=train.n)
    if gibbs:
        of = "Gibbs classifier"
        yield Measured(of=of, on="bound", mean=gibbs.error, n=train.n)
        if gibbs.test_error is not None and tested:
            yield Measured(of=of, on="test", mean=gibbs.test_error, n=tested.n)
    if tested:
        yield Measured(of="weights", on="test", mean=tested.error, errors=tested.errors, n=tested.n)


def chain_certificates(
    data: Objective,
    prior: bounds.PrivacyClaim | NoPrivacy,
    train: Risks,
    gibbs: GibbsEstimate | None,
    failure_prob: float,
) -> Iterator[bounds.Certificate | Refusal]:
    """What the promise of the chain certifies on the bound's examples, or why it does not."""
    if isinstance(prior, NoPrivacy):
        for name in (*(("DP-PAC-Bayes bounds",) if gibbs else ()), "H-, C- and kl-Chernoff bounds"):
            yield Refusal(name=name, reason=prior.reason)
    elif isinstance(prior, bounds.PureDP):
        if gibbs:
            if reason := refuted(gibbs):
                yield Refusal(name="DP-PAC-Bayes bounds", reason=reason)
            yield from gibbs_certificates(
                gibbs, n=data.n, loss=data.loss, privacy=prior, failure_prob=failure_prob
            )
        yield from weights_certificates(train, privacy=prior, failure_prob=failure_prob)
    else:
        yield released_weights_certificate(train, privacy=prior, failure_prob=failure_prob)
