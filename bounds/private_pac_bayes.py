"""Bounds for a prior, or for weights, that any accounted private mechanism learnt from the same examples.

Each is a bound for a fixed prior in which ``transfer_cost`` takes the place of ln(1/failure_prob). ``privacy`` is the
guarantee of all that the mechanism released; the prior may be any function of that, and the posterior may use the
examples freely. Certificates are rigorous when the record is proved ("exact mechanism" or "accounted") and optimistic
otherwise. Arguments out of range raise ValueError. Proofs: docs/guarantees.md.
"""

from collections.abc import Mapping
from typing import Any

from bounds import _check
from bounds._assemble import catoni_value, kl_budget, kl_certificate
from bounds.certificate import Certificate
from bounds.pac_bayes import log_xi
from bounds.privacy import PrivacyClaim
from bounds.privacy_loss import PrivacyLossDistribution
from bounds.transfer import TransferCost, transfer_cost

_REFERENCE = 'docs/guarantees.md, "Bounds by the general transfer"'


def private_pac_bayes(
    *, risk: float, kl_nats: float, n: int, privacy: PrivacyClaim, failure_prob: float
) -> Certificate:
    """The PAC-Bayes-kl bound for a prior that a private mechanism released.

        kl(R̂(Q)‖R(Q)) ≤ [ KL(Q‖P_Y) + ln ξ(n) + Λ ] / n,    Λ = ``transfer_cost`` (privacy, n, failure_prob)

    "Bounds by the general transfer" in docs/guarantees.md. For pure privacy it is ``dp_pac_bayes``.

    Formal guarantee: if P_Y is a function of what a mechanism with this privacy released, then R(Q) ≤ value for all
    posteriors Q simultaneously with probability at least 1 - failure_prob over sample and mechanism.

    Args:
        risk: R̂(Q), mean loss of the posterior on the n examples, in [0, 1].
        kl_nats: KL(Q‖P_Y) in nats.
        n: number of independent examples, all of which the mechanism may have seen.
        privacy: what the mechanism promises, about all that it released.
        failure_prob: probability over sample and mechanism that the bound fails.
    """
    return _posterior("private_pac_bayes", "n", risk, kl_nats, n, privacy, failure_prob)


def hybrid_pac_bayes(
    *, risk: float, kl_nats: float, n_bound: int, privacy: PrivacyClaim, failure_prob: float
) -> Certificate:
    """The PAC-Bayes-kl bound for a prior that saw one part of the data freely, and the rest only privately.

        kl(R̂₂(Q)‖R(Q)) ≤ [ KL(Q‖P) + ln ξ(n₂) + Λ ] / n₂,    Λ = ``transfer_cost`` (privacy, n₂, failure_prob)

    "Bounds by the general transfer" in docs/guarantees.md.

    Formal guarantee: let P be a function of S₁ and of what a mechanism released whose privacy, for every value of S₁,
    holds for the records of S₂. Then R(Q) ≤ value for all posteriors Q simultaneously with probability at least
    1 - failure_prob over samples and mechanism.

    Args:
        risk: R̂₂(Q), mean loss of the posterior on S₂ alone, in [0, 1].
        kl_nats: KL(Q‖P) in nats.
        n_bound: number n₂ of examples in S₂.
        privacy: what the mechanism promises to the records of S₂.
        failure_prob: probability over samples and mechanism that the bound fails.
    """
    _check.count(n_bound=n_bound)
    return _posterior("hybrid_pac_bayes", "n_bound", risk, kl_nats, n_bound, privacy, failure_prob)


def private_catoni(
    *, risk: float, kl_nats: float, n: int, privacy: PrivacyClaim, failure_prob: float, inverse_temperature: float
) -> Certificate:
    """Catoni's bound at a fixed inverse temperature C, for a prior that a private mechanism released.

        R(Q) ≤ [1 - exp(-(C R̂(Q) + KL(Q‖P_Y) + Λ) / n)] / (1 - exp(-C/n)),    Λ = ``transfer_cost`` (...)

    "Bounds by the general transfer" in docs/guarantees.md.

    Formal guarantee and other arguments: as for ``private_pac_bayes``, provided that C was fixed before the sample was
    seen.

    Args:
        inverse_temperature: C, nats per unit of mean loss.
    """
    _check.positive(inverse_temperature=inverse_temperature)
    _check.posterior(risk, kl_nats)
    cost = transfer_cost(privacy=privacy, n=n, failure_prob=failure_prob)
    _, terms = kl_budget({"kl_nats": kl_nats, "transfer_nats": cost.nats}, n)
    return Certificate(
        name="private_catoni",
        value=catoni_value(risk, inverse_temperature, terms["total_nats"], n),
        failure_prob=failure_prob,
        status="optimistic" if privacy.assumptions else "rigorous",
        assumptions=privacy.assumptions,
        terms={"empirical_risk": risk, "inverse_temperature": inverse_temperature, **terms, **cost_terms(cost)},
        budget=cost.budget,
        reference=_REFERENCE,
        inputs={
            "risk": risk,
            "kl_nats": kl_nats,
            "n": n,
            "failure_prob": failure_prob,
            "inverse_temperature": inverse_temperature,
            **privacy_inputs(privacy),
        },
    )


def private_kl_chernoff(*, risk: float, n: int, privacy: PrivacyClaim, failure_prob: float) -> Certificate:
    """The risk of weights w that a private mechanism released: R(w) ≤ kl⁻¹(R̂(w), Λ/n), Λ = ``transfer_cost`` (...).

    "Bounds by the general transfer" in docs/guarantees.md. For pure privacy it is ``dp_kl_chernoff``.

    Formal guarantee: if w is a function of what a mechanism with this privacy released, R(w) ≤ value with probability
    at least 1 - failure_prob over sample and mechanism.

    Args:
        risk: R̂(w), mean loss in [0, 1] of the released weights on the n examples that the mechanism saw.
        n: number of independent examples.
        privacy: what the mechanism promises, about all that it released.
        failure_prob: probability over sample and mechanism that the bound fails.
    """
    _check.probability(risk=risk)
    cost = transfer_cost(privacy=privacy, n=n, failure_prob=failure_prob)
    return kl_certificate(
        name="private_kl_chernoff",
        risk=risk,
        nats={"transfer_nats": cost.nats},
        n=n,
        failure_prob=failure_prob,
        reference=_REFERENCE,
        inputs={"risk": risk, "n": n, "failure_prob": failure_prob, **privacy_inputs(privacy)},
        budget=cost.budget,
        assumptions=privacy.assumptions,
        details=cost_terms(cost),
    )


def _posterior(
    name: str, size: str, risk: float, kl_nats: float, n: int, privacy: PrivacyClaim, failure_prob: float
) -> Certificate:
    _check.posterior(risk, kl_nats)
    cost = transfer_cost(privacy=privacy, n=n, failure_prob=failure_prob)
    return kl_certificate(
        name=name,
        risk=risk,
        nats={"kl_nats": kl_nats, "log_xi_nats": log_xi(n), "transfer_nats": cost.nats},
        n=n,
        failure_prob=failure_prob,
        reference=_REFERENCE,
        inputs={"risk": risk, "kl_nats": kl_nats, size: n, "failure_prob": failure_prob, **privacy_inputs(privacy)},
        budget=cost.budget,
        assumptions=privacy.assumptions,
        details=cost_terms(cost),
    )


def cost_terms(cost: TransferCost) -> Mapping[str, float]:
    """Where the optimum of the cost lies, for a certificate's terms."""
    return {"transfer_alpha": cost.alpha, "transfer_level": cost.a}


def privacy_inputs(privacy: PrivacyClaim) -> dict[str, float | int | str]:
    """The record in numbers and words; the masses of a distribution by their digest."""
    record: dict[str, Any] = dict(privacy.to_dict())
    if isinstance(privacy, PrivacyLossDistribution):
        del record["with_record"], record["without_record"]
        record["digest"] = privacy.digest
    return {f"privacy_{name}": value for name, value in record.items()}
