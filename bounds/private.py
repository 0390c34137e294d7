"""What a bound costs when the prior, or the weights themselves, came from a pure differentially private mechanism.

The sample S has n independent records, the loss lies in [0, 1], and the mechanism is epsilon-DP under replace-one
adjacency. ``*_nats`` functions give what takes the place of ln(1/failure_prob) in a bound for a fixed prior; the
prior may then be any function of all that the mechanism released. Arguments out of range raise ValueError.
epsilon = 0 gives the bound for independent data back, epsilon = inf gives 1. Proofs: docs/guarantees.md.
"""

import math

from bounds import _check
from bounds._assemble import kl_certificate
from bounds._rounding import log_inverse, outward, total
from bounds.certificate import Certificate
from bounds.kl import binary_kl_upper
from bounds.pac_bayes import log_two_sqrt, log_xi


def transfer_nats(*, epsilon: float, n: int, failure_prob: float) -> float:
    """The sharp transfer, (√ln(1/failure_prob) + epsilon √(n/8))² nats, rounded up.

    "Sharp pure-DP transfer" in docs/guarantees.md: if E_S exp f(y, S) ≤ 1 for every fixed y, and Y is released by an
    epsilon-DP mechanism that saw S, then f(Y, S) exceeds this with probability at most ``failure_prob``.

    Formal guarantee: at least the stated expression. 20.787 nats at n = 60000, epsilon = 8/√n, failure_prob = 0.05.

    Args:
        epsilon: replace-one privacy loss in nats, zero or more.
        n: number of independent records.
        failure_prob: probability that the transferred statement fails.
    """
    _check_privacy(epsilon, n, failure_prob)
    root = math.sqrt(log_inverse(failure_prob)) + epsilon * math.sqrt(n / 8.0)
    return outward(root * root) if root < 1e150 else math.inf


def max_information_nats(*, epsilon: float, n: int, failure_prob: float) -> float:
    """The transfer by max-information, ln(2/δ) + n ε²/2 + ε √(n ln(4/δ)/2) nats with δ = failure_prob, rounded up.

    Dwork et al. (NeurIPS 2015), "Generalization in adaptive data analysis and holdout reuse", Theorem 20 (an
    epsilon-DP mechanism on n independent records has β-approximate max-information at most
    n ε²/2 + ε √(n ln(2/β)/2) nats), with β = δ/2, as used by Dziugaite and Roy (NeurIPS 2018).

    Formal guarantee: at least the stated expression. 47.531 nats at n = 60000, epsilon = 8/√n, failure_prob = 0.05.
    """
    _check_privacy(epsilon, n, failure_prob)
    log_inv = log_inverse(failure_prob)
    information = epsilon * math.sqrt(n * total(math.log(4.0), log_inv) / 2.0)
    return total(math.log(2.0), log_inv, _n_epsilon_squared(n, epsilon) / 2.0, information)


def transfer_nats_2018(*, epsilon: float, n: int, failure_prob: float) -> float:
    """The transfer of the Entropy-SGLD paper, 2 max{ln(3/failure_prob), n epsilon²} nats, rounded up.

    Dziugaite and Roy (ICML 2018), Theorem 4.3, from Dwork et al. (STOC 2015), Theorem 11: an event of probability at
    most β for every fixed y has probability at most 3√β for the released one if epsilon ≤ √(ln(1/β)/(2n)).

    Formal guarantee: at least the stated expression. 128 nats at n = 60000, epsilon = 8/√n, failure_prob = 0.05.
    """
    _check_privacy(epsilon, n, failure_prob)
    log_term = total(math.log(3.0), log_inverse(failure_prob))
    return outward(2.0 * max(log_term, _n_epsilon_squared(n, epsilon)))


def dp_pac_bayes(*, risk: float, kl_nats: float, n: int, epsilon: float, failure_prob: float) -> Certificate:
    """The PAC-Bayes-kl bound for an epsilon-DP prior, with the sharp transfer.

        kl(R̂(Q)‖R(Q)) ≤ [ KL(Q‖P_S) + ln ξ(n) + (√ln(1/failure_prob) + epsilon √(n/8))² ] / n

    "PAC-Bayes with a private prior" in docs/guarantees.md (proved there from ``transfer_nats`` and Maurer's lemma).

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
    _check.posterior(risk, kl_nats)
    transfer = transfer_nats(epsilon=epsilon, n=n, failure_prob=failure_prob)
    return kl_certificate(
        name="dp_pac_bayes",
        risk=risk,
        nats={"kl_nats": kl_nats, "log_xi_nats": log_xi(n), "transfer_nats": transfer},
        n=n,
        failure_prob=failure_prob,
        reference='docs/guarantees.md, "PAC-Bayes with a private prior" (sharp pure-DP transfer)',
        inputs=_inputs(risk=risk, kl_nats=kl_nats, n=n, epsilon=epsilon, failure_prob=failure_prob),
    )


def dp_pac_bayes_max_information(
    *, risk: float, kl_nats: float, n: int, epsilon: float, failure_prob: float
) -> Certificate:
    """The PAC-Bayes-kl bound for an epsilon-DP prior, by max-information.

        kl(R̂(Q)‖R(Q)) ≤ [ KL(Q‖P_S) + ln(2√n) + ln(2/δ) + n ε²/2 + ε √(n ln(4/δ)/2) ] / n,    δ = failure_prob

    Dziugaite and Roy (NeurIPS 2018), "Data-dependent PAC-Bayes priors via differential privacy", Theorem 4.2.

    Formal guarantee and arguments: as for ``dp_pac_bayes``.
    """
    _check.posterior(risk, kl_nats)
    transfer = max_information_nats(epsilon=epsilon, n=n, failure_prob=failure_prob)
    return kl_certificate(
        name="dp_pac_bayes_max_information",
        risk=risk,
        nats={"kl_nats": kl_nats, "log_two_sqrt_n_nats": log_two_sqrt(n), "transfer_nats": transfer},
        n=n,
        failure_prob=failure_prob,
        reference="Dziugaite and Roy, NeurIPS 2018, arXiv 1802.09583, Theorem 4.2",
        inputs=_inputs(risk=risk, kl_nats=kl_nats, n=n, epsilon=epsilon, failure_prob=failure_prob),
    )


def dp_pac_bayes_2018(*, risk: float, kl_nats: float, n: int, epsilon: float, failure_prob: float) -> Certificate:
    """The PAC-Bayes-kl bound for an epsilon-DP prior as the Entropy-SGLD paper prints it.

        kl(R̂(Q)‖R(Q)) ≤ [ KL(Q‖P_S) + ln(2√n) + 2 max{ln(3/failure_prob), n epsilon²} ] / n

    Dziugaite and Roy (ICML 2018), "Entropy-SGD optimizes the prior of a PAC-Bayes bound", Theorem 4.3.

    Formal guarantee and arguments: as for ``dp_pac_bayes``.
    """
    _check.posterior(risk, kl_nats)
    transfer = transfer_nats_2018(epsilon=epsilon, n=n, failure_prob=failure_prob)
    return kl_certificate(
        name="dp_pac_bayes_2018",
        risk=risk,
        nats={"kl_nats": kl_nats, "log_two_sqrt_n_nats": log_two_sqrt(n), "transfer_nats": transfer},
        n=n,
        failure_prob=failure_prob,
        reference="Dziugaite and Roy, ICML 2018, arXiv 1712.09376, Theorem 4.3",
        inputs=_inputs(risk=risk, kl_nats=kl_nats, n=n, epsilon=epsilon, failure_prob=failure_prob),
    )


def dp_kl_chernoff(*, risk: float, n: int, epsilon: float, failure_prob: float) -> Certificate:
    """The risk of private weights w = A(S): R(w) ≤ kl⁻¹(R̂(w), c), c = (ε/√8 + √(ln(1/failure_prob)/n))².

    "Private weights" in docs/guarantees.md: the sharp transfer of the Chernoff bound.

    Formal guarantee: if A is epsilon-DP under replace-one adjacency, R(w) ≤ value with probability at least
    1 - failure_prob over sample and mechanism, for the one w that was released.

    Args:
        risk: R̂(w), mean loss in [0, 1] of the released weights on the n examples that A saw.
        n: number of independent examples.
        epsilon: replace-one privacy loss of A, in nats.
        failure_prob: probability over sample and mechanism that the bound fails.
    """
    c, terms = _private_weights(risk, n, epsilon, failure_prob)
    return _weights_certificate(
        "dp_kl_chernoff",
        float(binary_kl_upper(risk, c)),
        terms,
        'docs/guarantees.md, "Private weights"',
        _inputs(risk=risk, n=n, epsilon=epsilon, failure_prob=failure_prob),
    )


def dp_chernoff(*, risk: float, n: int, epsilon: float, failure_prob: float) -> Certificate:
    """The explicit form of ``dp_kl_chernoff``: R(w) ≤ R̂ + c + √(c² + 2cR̂), from kl(q‖p) ≥ (p-q)²/(2p).

    Formal guarantee and arguments: as for ``dp_kl_chernoff``, of which this is a relaxation.
    """
    c, terms = _private_weights(risk, n, epsilon, failure_prob)
    return _weights_certificate(
        "dp_chernoff",
        total(risk, c, math.sqrt(c) * math.sqrt(c + 2.0 * risk)) if c < 1.0 else 1.0,
        terms,
        'docs/guarantees.md, "Private weights"',
        _inputs(risk=risk, n=n, epsilon=epsilon, failure_prob=failure_prob),
    )


def dp_hoeffding(*, risk: float, n: int, epsilon: float, failure_prob: float) -> Certificate:
    """The linear form of ``dp_kl_chernoff``: R(w) ≤ R̂ + ε/4 + √(ln(1/failure_prob)/(2n)), by Pinsker's inequality.

    Formal guarantee and arguments: as for ``dp_kl_chernoff``, of which this is a relaxation.
    """
    _, terms = _private_weights(risk, n, epsilon, failure_prob)
    return _weights_certificate(
        "dp_hoeffding",
        total(risk, epsilon / 4.0, math.sqrt(log_inverse(failure_prob) / (2.0 * n))),
        terms,
        'docs/guarantees.md, "Private weights"',
        _inputs(risk=risk, n=n, epsilon=epsilon, failure_prob=failure_prob),
    )


def dp_hoeffding_2018(*, risk: float, n: int, epsilon: float, failure_prob: float) -> Certificate:
    """As printed in 2018: R(w) ≤ R̂ + ε̄ + n^(-1/2), with ε̄ = max{ε, √(ln(3/failure_prob)/n)}.

    Dziugaite and Roy (ICML 2018), Theorem 4.2, first part; valid and loose (docs/guarantees.md, "Private weights").

    Formal guarantee and arguments: as for ``dp_kl_chernoff``.
    """
    bar, terms = _private_weights_2018(risk, n, epsilon, failure_prob)
    return _weights_certificate(
        "dp_hoeffding_2018",
        total(risk, bar, 1.0 / math.sqrt(n)),
        terms,
        "Dziugaite and Roy, ICML 2018, arXiv 1712.09376, Theorem 4.2 (Hoeffding part)",
        _inputs(risk=risk, n=n, epsilon=epsilon, failure_prob=failure_prob),
    )


def dp_chernoff_2018(*, risk: float, n: int, epsilon: float, failure_prob: float) -> Certificate:
    """As printed in 2018: R(w) ≤ R̂ + √(6R̂) (ε̄ + n^(-1/2)) + 6 (ε̄² + 1/n), ε̄ = max{ε, √(ln(3/failure_prob)/n)}.

    Dziugaite and Roy (ICML 2018), Theorem 4.2, second part; valid and loose (docs/guarantees.md, "Private weights").

    Formal guarantee and arguments: as for ``dp_kl_chernoff``.
    """
    bar, terms = _private_weights_2018(risk, n, epsilon, failure_prob)
    slope = 0.0 if risk == 0.0 else math.sqrt(6.0 * risk) * (bar + 1.0 / math.sqrt(n))
    return _weights_certificate(
        "dp_chernoff_2018",
        total(risk, slope, 6.0 * bar * bar, 6.0 / n) if bar < 1.0 else 1.0,
        terms,
        "Dziugaite and Roy, ICML 2018, arXiv 1712.09376, Theorem 4.2 (Chernoff part)",
        _inputs(risk=risk, n=n, epsilon=epsilon, failure_prob=failure_prob),
    )


def _private_weights(risk: float, n: int, epsilon: float, failure_prob: float) -> tuple[float, dict[str, float]]:
    _check.probability(risk=risk)
    transfer = transfer_nats(epsilon=epsilon, n=n, failure_prob=failure_prob)
    c = outward(transfer / n)
    terms = {
        "empirical_risk": risk,
        "confidence_nats": log_inverse(failure_prob),
        "transfer_nats": transfer,
        "transfer_per_example": c,
    }
    return c, terms


def _private_weights_2018(risk: float, n: int, epsilon: float, failure_prob: float) -> tuple[float, dict[str, float]]:
    _check.probability(risk=risk)
    _check_privacy(epsilon, n, failure_prob)
    log_term = total(math.log(3.0), log_inverse(failure_prob))
    bar = max(epsilon, outward(math.sqrt(log_term / n)))
    return bar, {"empirical_risk": risk, "log_three_nats": log_term, "epsilon_bar": bar}


def _weights_certificate(
    name: str, value: float, terms: dict[str, float], reference: str, inputs: dict[str, float | int | str]
) -> Certificate:
    failure_prob = float(inputs["failure_prob"])
    return Certificate(
        name=name,
        value=value,
        failure_prob=failure_prob,
        status="rigorous",
        terms=terms,
        budget={"bound": failure_prob},
        reference=reference,
        inputs=inputs,
    )


def _inputs(**values: float) -> dict[str, float | int | str]:
    return dict(values)


def _check_privacy(epsilon: float, n: int, failure_prob: float) -> None:
    _check.nonnegative(epsilon=epsilon)
    _check.count(n=n)
    _check.open_probability(failure_prob=failure_prob)


def _n_epsilon_squared(n: int, epsilon: float) -> float:
    return outward(n * epsilon * epsilon) if epsilon < 1e150 else math.inf
