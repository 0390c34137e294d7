"""The bounds for private priors under the names that papers and users know: a formula at a price, a line each.

The sample S has n independent records, the loss lies in [0, 1]. ``dp_*`` are for a prior (or weights) that an
epsilon-DP mechanism released under replace-one adjacency; epsilon = 0 gives a bound for independent data back,
epsilon = inf gives 1. ``private_*`` are for any accounted mechanism: ``privacy`` is the promise about all that it
released, and certificates are optimistic when its record is not proved. The prior may be any function of the release,
and the posterior may use the examples freely. Arguments out of range raise ValueError. Proofs: docs/guarantees.md.
"""

from dataclasses import replace

from bounds import _check
from bounds.certificate import Certificate
from bounds.pac_bayes import catoni, langford_seeger, maurer
from bounds.prices import Accounted, MaxInformation, Printed2018, Sharp
from bounds.privacy import PrivacyClaim


def dp_pac_bayes(*, risk: float, kl_nats: float, n: int, epsilon: float, failure_prob: float) -> Certificate:
    """The PAC-Bayes-kl bound for an epsilon-DP prior, with the sharp transfer: ``maurer`` at the price ``Sharp``.

        kl(R̂(Q)‖R(Q)) ≤ [ KL(Q‖P_S) + ln ξ(n) + (√ln(1/failure_prob) + epsilon √(n/8))² ] / n

    Formal guarantee: if the prior is a function of what an epsilon-DP mechanism (replace-one) released, then
    R(Q) ≤ value for all posteriors Q simultaneously with probability at least 1 - failure_prob over sample and
    mechanism. Q may use the same n examples.

    Args:
        risk: R̂(Q), mean loss of the posterior on the n examples, in [0, 1].
        kl_nats: KL(Q‖P_S) in nats.
        n: number of independent examples, all of which the mechanism may have seen.
        epsilon: replace-one privacy loss of the prior, in nats.
        failure_prob: probability over sample and mechanism that the bound fails.
    """
    return maurer(risk=risk, kl_nats=kl_nats, n=n, failure_prob=failure_prob, price=Sharp(epsilon=epsilon))


def dp_pac_bayes_max_information(
    *, risk: float, kl_nats: float, n: int, epsilon: float, failure_prob: float
) -> Certificate:
    """The PAC-Bayes-kl bound for an epsilon-DP prior, by max-information.

        kl(R̂(Q)‖R(Q)) ≤ [ KL(Q‖P_S) + ln(2√n) + ln(2/δ) + n ε²/2 + ε √(n ln(4/δ)/2) ] / n,    δ = failure_prob

    Dziugaite and Roy (NeurIPS 2018), "Data-dependent PAC-Bayes priors via differential privacy", Theorem 4.2.

    Formal guarantee and arguments: as for ``dp_pac_bayes``.
    """
    price = MaxInformation(epsilon=epsilon)
    return langford_seeger(risk=risk, kl_nats=kl_nats, n=n, failure_prob=failure_prob, price=price)


def dp_pac_bayes_2018(*, risk: float, kl_nats: float, n: int, epsilon: float, failure_prob: float) -> Certificate:
    """The PAC-Bayes-kl bound for an epsilon-DP prior as the Entropy-SGLD paper prints it.

        kl(R̂(Q)‖R(Q)) ≤ [ KL(Q‖P_S) + ln(2√n) + 2 max{ln(3/failure_prob), n epsilon²} ] / n

    Dziugaite and Roy (ICML 2018), "Entropy-SGD optimizes the prior of a PAC-Bayes bound", Theorem 4.3.

    Formal guarantee and arguments: as for ``dp_pac_bayes``.
    """
    price = Printed2018(epsilon=epsilon)
    return langford_seeger(risk=risk, kl_nats=kl_nats, n=n, failure_prob=failure_prob, price=price)


def private_pac_bayes(
    *, risk: float, kl_nats: float, n: int, privacy: PrivacyClaim, failure_prob: float
) -> Certificate:
    """The PAC-Bayes-kl bound for a prior that a private mechanism released: ``maurer`` at the price ``Accounted``.

        kl(R̂(Q)‖R(Q)) ≤ [ KL(Q‖P_Y) + ln ξ(n) + Λ ] / n,    Λ = ``transfer_cost`` (privacy, n, failure_prob)

    For pure privacy it is ``dp_pac_bayes``.

    Formal guarantee: if P_Y is a function of what a mechanism with this privacy released, then R(Q) ≤ value for all
    posteriors Q simultaneously with probability at least 1 - failure_prob over sample and mechanism.

    Args:
        risk: R̂(Q), mean loss of the posterior on the n examples, in [0, 1].
        kl_nats: KL(Q‖P_Y) in nats.
        n: number of independent examples, all of which the mechanism may have seen; people, if the promise is to them.
        privacy: what the mechanism promises, about all that it released.
        failure_prob: probability over sample and mechanism that the bound fails.
    """
    return maurer(risk=risk, kl_nats=kl_nats, n=n, failure_prob=failure_prob, price=Accounted(privacy=privacy))


def hybrid_pac_bayes(
    *, risk: float, kl_nats: float, n_bound: int, privacy: PrivacyClaim, failure_prob: float
) -> Certificate:
    """The PAC-Bayes-kl bound for a prior that saw one part of the data freely, and the rest only privately.

        kl(R̂₂(Q)‖R(Q)) ≤ [ KL(Q‖P) + ln ξ(n₂) + Λ ] / n₂,    Λ = ``transfer_cost`` (privacy, n₂, failure_prob)

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
    made = private_pac_bayes(risk=risk, kl_nats=kl_nats, n=n_bound, privacy=privacy, failure_prob=failure_prob)
    return replace(made, name="hybrid_pac_bayes")


def private_catoni(
    *, risk: float, kl_nats: float, n: int, privacy: PrivacyClaim, failure_prob: float, inverse_temperature: float
) -> Certificate:
    """Catoni's bound at a fixed inverse temperature C, for a prior that a private mechanism released.

        R(Q) ≤ [1 - exp(-(C R̂(Q) + KL(Q‖P_Y) + Λ) / n)] / (1 - exp(-C/n)),    Λ = ``transfer_cost`` (...)

    Formal guarantee and other arguments: as for ``private_pac_bayes``, provided that C was fixed before the sample was
    seen.

    Args:
        inverse_temperature: C, nats per unit of mean loss.
    """
    price = Accounted(privacy=privacy)
    return catoni(
        risk=risk,
        kl_nats=kl_nats,
        n=n,
        failure_prob=failure_prob,
        inverse_temperature=inverse_temperature,
        price=price,
    )
