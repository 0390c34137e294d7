"""The bounds at a price under the names that papers and users know: one line each.

The sample S has n independent records, the loss lies in [0, 1]. ``dp_*`` are for a prior, or for weights, that an
epsilon-DP mechanism released under replace-one adjacency, ``epsilon`` in nats; epsilon = 0 gives a bound for
independent data back, epsilon = inf gives 1. ``private_*`` are for any accounted mechanism: ``privacy`` is the promise
about all that it released; for people as records, n counts people and the promise must be to people. The prior may be
any function of the release, and the posterior may use the examples freely. All other arguments are those of the
formula. Arguments out of range raise ValueError.

Formal guarantee (of each): that of the formula named, at the price named, over sample and mechanism; the certificate is
optimistic when the record of the privacy is not proved. Proofs: docs/guarantees.md, "Prices".
"""

from dataclasses import replace

from bounds import _check
from bounds.certificate import Certificate
from bounds.gibbs_posterior import gibbs_pac_bayes
from bounds.pac_bayes import catoni, langford_seeger, maurer
from bounds.prices import Accounted, MaxInformation, Printed2018, Sharp
from bounds.privacy import PrivacyClaim
from bounds.released import chernoff, hoeffding, kl_chernoff
from bounds.reliability import ece_pac_bayes


def dp_pac_bayes(*, risk: float, kl_nats: float, n: int, epsilon: float, failure_prob: float) -> Certificate:
    """``maurer`` at the price ``Sharp``: the PAC-Bayes-kl bound for an epsilon-DP prior.

        kl(R̂(Q)‖R(Q)) ≤ [ KL(Q‖P_S) + ln ξ(n) + (√ln(1/failure_prob) + epsilon √(n/8))² ] / n

    Formal guarantee: if the prior is a function of what an epsilon-DP mechanism released, R(Q) ≤ value for all
    posteriors Q simultaneously with probability at least 1 - failure_prob over sample and mechanism.
    """
    return maurer(risk=risk, kl_nats=kl_nats, n=n, failure_prob=failure_prob, price=Sharp(epsilon=epsilon))


def dp_pac_bayes_max_information(
    *, risk: float, kl_nats: float, n: int, epsilon: float, failure_prob: float
) -> Certificate:
    """``langford_seeger`` at the price ``MaxInformation``.

        kl(R̂(Q)‖R(Q)) ≤ [ KL(Q‖P_S) + ln(2√n) + ln(2/δ) + n ε²/2 + ε √(n ln(4/δ)/2) ] / n,    δ = failure_prob

    Dziugaite and Roy (NeurIPS 2018), "Data-dependent PAC-Bayes priors via differential privacy", Theorem 4.2.

    Formal guarantee: as for ``dp_pac_bayes``.
    """
    price = MaxInformation(epsilon=epsilon)
    return langford_seeger(risk=risk, kl_nats=kl_nats, n=n, failure_prob=failure_prob, price=price)


def dp_pac_bayes_2018(*, risk: float, kl_nats: float, n: int, epsilon: float, failure_prob: float) -> Certificate:
    """``langford_seeger`` at the price ``Printed2018``, as the Entropy-SGLD paper prints it.

        kl(R̂(Q)‖R(Q)) ≤ [ KL(Q‖P_S) + ln(2√n) + 2 max{ln(3/failure_prob), n epsilon²} ] / n

    Dziugaite and Roy (ICML 2018), "Entropy-SGD optimizes the prior of a PAC-Bayes bound", Theorem 4.3.

    Formal guarantee: as for ``dp_pac_bayes``.
    """
    price = Printed2018(epsilon=epsilon)
    return langford_seeger(risk=risk, kl_nats=kl_nats, n=n, failure_prob=failure_prob, price=price)


def private_pac_bayes(
    *, risk: float, kl_nats: float, n: int, privacy: PrivacyClaim, failure_prob: float
) -> Certificate:
    """``maurer`` at the price ``Accounted``: the PAC-Bayes-kl bound for a prior that a private mechanism released.

        kl(R̂(Q)‖R(Q)) ≤ [ KL(Q‖P_Y) + ln ξ(n) + Λ ] / n,    Λ = ``transfer_cost`` (privacy, n, failure_prob)

    Formal guarantee: if P_Y is a function of what a mechanism with this privacy released, R(Q) ≤ value for all
    posteriors Q simultaneously with probability at least 1 - failure_prob over sample and mechanism.
    """
    return maurer(risk=risk, kl_nats=kl_nats, n=n, failure_prob=failure_prob, price=Accounted(privacy=privacy))


def hybrid_pac_bayes(
    *, risk: float, kl_nats: float, n_bound: int, privacy: PrivacyClaim, failure_prob: float
) -> Certificate:
    """``private_pac_bayes`` for a prior that saw one part of the data freely, and the rest only privately.

        kl(R̂₂(Q)‖R(Q)) ≤ [ KL(Q‖P) + ln ξ(n₂) + Λ ] / n₂,    Λ = ``transfer_cost`` (privacy, n₂, failure_prob)

    Formal guarantee: let P be a function of S₁ and of what a mechanism released whose privacy, for every value of S₁,
    holds for the n₂ = ``n_bound`` records of S₂. Then R(Q) ≤ value for all posteriors Q simultaneously with probability
    at least 1 - failure_prob over samples and mechanism; ``risk`` is the mean loss on S₂ alone.
    """
    _check.count(n_bound=n_bound)
    made = private_pac_bayes(risk=risk, kl_nats=kl_nats, n=n_bound, privacy=privacy, failure_prob=failure_prob)
    return replace(made, name="hybrid_pac_bayes")


def private_catoni(
    *, risk: float, kl_nats: float, n: int, privacy: PrivacyClaim, failure_prob: float, inverse_temperature: float
) -> Certificate:
    """``catoni`` at the price ``Accounted``.

        R(Q) ≤ [1 - exp(-(C R̂(Q) + KL(Q‖P_Y) + Λ) / n)] / (1 - exp(-C/n)),    Λ = ``transfer_cost`` (...)

    Formal guarantee: as for ``private_pac_bayes``, provided that C was fixed before the sample was seen.
    """
    price, scale = Accounted(privacy=privacy), inverse_temperature
    return catoni(risk=risk, kl_nats=kl_nats, n=n, failure_prob=failure_prob, inverse_temperature=scale, price=price)


def dp_kl_chernoff(*, risk: float, n: int, epsilon: float, failure_prob: float) -> Certificate:
    """``kl_chernoff`` at the price ``Sharp``: R(w) ≤ kl⁻¹(R̂(w), c), c = (ε/√8 + √(ln(1/failure_prob)/n))².

    Formal guarantee: if w is a function of what an epsilon-DP mechanism released, R(w) ≤ value with probability at
    least 1 - failure_prob over sample and mechanism, for the one w that was released.
    """
    return kl_chernoff(risk=risk, n=n, failure_prob=failure_prob, price=Sharp(epsilon=epsilon))


def dp_chernoff(*, risk: float, n: int, epsilon: float, failure_prob: float) -> Certificate:
    """``chernoff`` at the price ``Sharp``, the explicit form of ``dp_kl_chernoff``: R(w) ≤ R̂ + c + √(c² + 2cR̂).

    Formal guarantee: as for ``dp_kl_chernoff``, of which this is a relaxation.
    """
    return chernoff(risk=risk, n=n, failure_prob=failure_prob, price=Sharp(epsilon=epsilon))


def dp_hoeffding(*, risk: float, n: int, epsilon: float, failure_prob: float) -> Certificate:
    """``hoeffding`` at the price ``Sharp``: R(w) ≤ R̂ + ε/4 + √(ln(1/failure_prob)/(2n)), which is R̂ + √(Λ/(2n)).

    Formal guarantee: as for ``dp_kl_chernoff``, of which this is a relaxation.
    """
    return hoeffding(risk=risk, n=n, failure_prob=failure_prob, price=Sharp(epsilon=epsilon))


def private_kl_chernoff(*, risk: float, n: int, privacy: PrivacyClaim, failure_prob: float) -> Certificate:
    """``kl_chernoff`` at the price ``Accounted``: R(w) ≤ kl⁻¹(R̂(w), Λ/n), Λ = ``transfer_cost`` (...).

    Formal guarantee: if w is a function of what a mechanism with this privacy released, R(w) ≤ value with probability
    at least 1 - failure_prob over sample and mechanism.
    """
    return kl_chernoff(risk=risk, n=n, failure_prob=failure_prob, price=Accounted(privacy=privacy))


def dp_ece_pac_bayes(
    *, calibration_error: float, mean_squared_gap: float, kl_nats: float, n: int, epsilon: float, failure_prob: float
) -> Certificate:
    """``ece_pac_bayes`` at the price ``Sharp``.

    Formal guarantee: if the prior is a function of what an epsilon-DP mechanism released, E_Q ECE ≤ value for all
    posteriors Q simultaneously with probability at least 1 - failure_prob over sample and mechanism.
    """
    return ece_pac_bayes(
        calibration_error=calibration_error,
        mean_squared_gap=mean_squared_gap,
        kl_nats=kl_nats,
        n=n,
        failure_prob=failure_prob,
        price=Sharp(epsilon=epsilon),
    )


def private_ece_pac_bayes(
    *,
    calibration_error: float,
    mean_squared_gap: float,
    kl_nats: float,
    n: int,
    privacy: PrivacyClaim,
    failure_prob: float,
) -> Certificate:
    """``ece_pac_bayes`` at the price ``Accounted``.

    Formal guarantee: if P_Y is a function of what a mechanism with this privacy released, E_Q ECE ≤ value for all
    posteriors Q simultaneously with probability at least 1 - failure_prob over sample and mechanism.
    """
    return ece_pac_bayes(
        calibration_error=calibration_error,
        mean_squared_gap=mean_squared_gap,
        kl_nats=kl_nats,
        n=n,
        failure_prob=failure_prob,
        price=Accounted(privacy=privacy),
    )


def dp_gibbs_pac_bayes(
    *,
    log_partition_lower_nats: float,
    tau: float,
    loss_low: float,
    loss_high: float,
    error_loss: float,
    n: int,
    epsilon: float,
    failure_prob: float,
    log_partition_failure_prob: float,
) -> Certificate:
    """``gibbs_pac_bayes`` at the price ``Sharp``, ln Z being that of the released prior.

    Formal guarantee: as for ``gibbs_pac_bayes``, if the prior is a function of what an epsilon-DP mechanism released,
    over sample, mechanism and the prior draws; those must be fresh given sample and release.
    """
    return gibbs_pac_bayes(
        log_partition_lower_nats=log_partition_lower_nats,
        tau=tau,
        loss_low=loss_low,
        loss_high=loss_high,
        error_loss=error_loss,
        n=n,
        failure_prob=failure_prob,
        log_partition_failure_prob=log_partition_failure_prob,
        price=Sharp(epsilon=epsilon),
    )
