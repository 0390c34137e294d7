"""PAC-Bayes bounds for a prior that is independent of the sample: one function each.

Everywhere: n independent examples, a loss in [0, 1], ``risk`` = R̂(Q) the mean loss of the posterior Q on those
examples, ``kl_nats`` = KL(Q‖P). Each bound holds, with probability 1 - ``failure_prob`` over the sample, for all
posteriors Q at once, however Q was found. Arguments out of range raise ValueError. Proofs: docs/guarantees.md.
"""

import math
from functools import lru_cache

import numpy as np

from bounds import _check
from bounds._assemble import catoni_value, kl_budget, kl_certificate, posterior_nats
from bounds._rounding import inward, outward, total
from bounds.certificate import Certificate

_EXACT_UP_TO = 10**10


@lru_cache(maxsize=256)
def log_xi(n: int) -> float:
    """ln ξ(n) in nats, rounded up, with ξ(n) = Σ_k C(n,k) (k/n)^k (1-k/n)^(n-k).

    ξ(n) bounds E exp(n kl(R̂‖R)) for any mean R̂ of n independent losses in [0, 1] of mean R (Maurer 2004, "A note on
    the PAC-Bayesian theorem", Theorem 1). ξ(n) ≤ 2√n, but ξ(n) ≈ √(πn/2) is 0.47 nats smaller.

    Evaluated as 1 + Σ_{1≤k≤n} Π_{j<k} (1 - j/n). As 1 - x ≤ e^(-x), the terms after the K-th sum to at most
    (n/K) e^(-K²/(2n)), and ξ(n) ≤ 2 + √(πn/2), which replaces the sum above n = 10¹⁰.

    Formal guarantee: at least ln ξ(n).

    Raises ValueError when n is not a whole number of at least 1.
    """
    _check.count(n=n)
    n = int(n)
    if n > _EXACT_UP_TO:
        return outward(math.log(2.0 + math.sqrt(math.pi * n / 2.0)))
    last = min(n, math.ceil(10.0 * math.sqrt(n)))
    products = np.cumprod(1.0 - np.arange(last, dtype=np.float64) / n)
    tail = n / last * math.exp(-(last**2) / (2.0 * n)) if last < n else 0.0
    xi = 1.0 + float(products.sum()) + tail
    # three roundings a factor, and those of the sum
    return outward(math.log(xi) + (4.0 * last + 64.0) * 2.0**-53)


def log_two_sqrt(n: int) -> float:
    """ln(2√n) in nats, rounded up: the constant that most papers have in place of ``log_xi``."""
    _check.count(n=n)
    return outward(math.log(2.0) + 0.5 * math.log(n))


def maurer(*, risk: float, kl_nats: float, n: int, failure_prob: float) -> Certificate:
    """The PAC-Bayes-kl bound with Maurer's exact constant.

        kl(R̂(Q) ‖ R(Q)) ≤ [ KL(Q‖P) + ln ξ(n) + ln(1/failure_prob) ] / n

    and ``value`` is the largest R that satisfies it. Langford and Seeger 2001; Maurer 2004, Theorem 5, whose 2√n is
    replaced by ξ(n) ≤ 2√n (see ``log_xi``).

    Formal guarantee: for a prior fixed before the sample was seen, R(Q) ≤ value for all Q simultaneously with
    probability at least 1 - failure_prob.

    Args:
        risk: R̂(Q), mean loss of the posterior on the n examples, in [0, 1].
        kl_nats: KL(Q‖P) in nats.
        n: number of independent examples; those the prior was trained on do not count.
        failure_prob: probability over the sample that the bound fails.
    """
    return kl_certificate(
        name="maurer",
        risk=risk,
        nats=posterior_nats(risk, kl_nats, n, failure_prob, {"log_xi_nats": log_xi(n)}),
        n=n,
        failure_prob=failure_prob,
        reference="Maurer 2004, arXiv cs/0411099, Theorem 5, with the exact xi(n)",
        inputs={"risk": risk, "kl_nats": kl_nats, "n": n, "failure_prob": failure_prob},
    )


def langford_seeger(*, risk: float, kl_nats: float, n: int, failure_prob: float) -> Certificate:
    """The PAC-Bayes-kl bound as most papers print it: ``maurer`` with ln(2√n) in place of ln ξ(n).

        kl(R̂(Q) ‖ R(Q)) ≤ [ KL(Q‖P) + ln(2√n/failure_prob) ] / n

    Langford and Seeger 2001; Maurer 2004, Theorem 5. About 0.47 nats dearer than ``maurer``; kept to reproduce numbers.

    Formal guarantee: as for ``maurer``.
    """
    return kl_certificate(
        name="langford_seeger",
        risk=risk,
        nats=posterior_nats(risk, kl_nats, n, failure_prob, {"log_two_sqrt_n_nats": log_two_sqrt(n)}),
        n=n,
        failure_prob=failure_prob,
        reference="Langford and Seeger 2001; Maurer 2004, arXiv cs/0411099, Theorem 5",
        inputs={"risk": risk, "kl_nats": kl_nats, "n": n, "failure_prob": failure_prob},
    )


def mcallester(*, risk: float, kl_nats: float, n: int, failure_prob: float) -> Certificate:
    """R(Q) ≤ R̂(Q) + √(c/2) with c the right-hand side of ``maurer``, by Pinsker's inequality.

    McAllester 1999 with Maurer's constant. Never below ``maurer``; linear in the risk, so fit for training.

    Formal guarantee: as for ``maurer``.
    """
    return _relaxed("mcallester", "McAllester 1999; Maurer 2004", risk, kl_nats, n, failure_prob)


def quadratic(*, risk: float, kl_nats: float, n: int, failure_prob: float) -> Certificate:
    """R(Q) ≤ (√(R̂ + c/2) + √(c/2))² with c the right-hand side of ``maurer``.

    From kl(q‖p) ≥ (p-q)²/(2p). Rivasplata et al. 2019 and Pérez-Ortiz et al. 2021 ("f_quad").

    Formal guarantee: as for ``maurer``.
    """
    reference = "Perez-Ortiz, Rivasplata, Shawe-Taylor and Szepesvari, JMLR 2021, Theorem 1; Maurer 2004"
    return _relaxed("quadratic", reference, risk, kl_nats, n, failure_prob)


def tolstikhin_seldin(*, risk: float, kl_nats: float, n: int, failure_prob: float) -> Certificate:
    """R(Q) ≤ R̂ + √(2R̂c) + 2c with c the right-hand side of ``maurer``.

    Tolstikhin and Seldin 2013, "PAC-Bayes-empirical-Bernstein inequality", where the kl bound is put so. Never below
    ``quadratic``, as √(c² + 2cR̂) ≤ c + √(2cR̂).

    Formal guarantee: as for ``maurer``.
    """
    reference = "Tolstikhin and Seldin, NeurIPS 2013; Maurer 2004"
    return _relaxed("tolstikhin_seldin", reference, risk, kl_nats, n, failure_prob)


def thiemann(*, risk: float, kl_nats: float, n: int, failure_prob: float, lam: float | None = None) -> Certificate:
    """R(Q) ≤ (R̂ + c/λ) / (1 - λ/2), for all λ in (0, 2) at once, with c the right-hand side of ``maurer``.

    Thiemann, Igel, Wintenberger and Seldin 2017, Theorem 3 ("f_lambda"), with Maurer's exact constant. As it holds
    for all λ together, ``lam=None`` takes the best, 2/(√(2R̂/c + 1) + 1), where it equals ``quadratic``.

    Formal guarantee: as for ``maurer``, and for every λ simultaneously: it may be chosen on the sample.
    """
    if lam is not None:
        _check.positive(lam=lam)
        if not lam < 2.0:
            raise ValueError(f"lam must be below 2, got {lam!r}; leave it out for the best value.")
    reference = "Thiemann, Igel, Wintenberger and Seldin 2017, Theorem 3; Maurer 2004"
    return _relaxed("thiemann", reference, risk, kl_nats, n, failure_prob, lam)


def catoni(*, risk: float, kl_nats: float, n: int, failure_prob: float, inverse_temperature: float) -> Certificate:
    """Catoni's bound at a fixed inverse temperature C.

        R(Q) ≤ [1 - exp(-(C R̂(Q) + KL(Q‖P) + ln(1/failure_prob)) / n)] / (1 - exp(-C/n))

    Catoni 2007, "PAC-Bayesian supervised classification", Theorem 1.2.1.

    Formal guarantee: as for ``maurer``, provided that C was fixed before the sample was seen; for C chosen from a
    finite list on the sample there is ``catoni_grid``.

    Args:
        risk: R̂(Q) in [0, 1].
        kl_nats: KL(Q‖P) in nats.
        n: number of independent examples.
        failure_prob: probability over the sample that the bound fails.
        inverse_temperature: C, nats per unit of mean loss; the bound is smallest for Q ∝ P exp(-C R̂).
    """
    _check.positive(inverse_temperature=inverse_temperature)
    nats = posterior_nats(risk, kl_nats, n, failure_prob, {})
    _, terms = kl_budget(nats, n)
    return Certificate(
        name="catoni",
        value=catoni_value(risk, inverse_temperature, terms["total_nats"], n),
        failure_prob=failure_prob,
        status="rigorous",
        terms={"empirical_risk": risk, "inverse_temperature": inverse_temperature, **terms},
        budget={"bound": failure_prob},
        reference="Catoni 2007, IMS Lecture Notes 56, Theorem 1.2.1",
        inputs={
            "risk": risk,
            "kl_nats": kl_nats,
            "n": n,
            "failure_prob": failure_prob,
            "inverse_temperature": inverse_temperature,
        },
    )


def linear(*, risk: float, kl_nats: float, n: int, failure_prob: float, lam: float) -> Certificate:
    """The linear bound that Gibbs posteriors minimise.

        R(Q) ≤ [ R̂(Q) + (λ/n) (KL(Q‖P) + ln(1/failure_prob)) ] / (1 - 1/(2λ)),    λ > 1/2

    McAllester 2013, "A PAC-Bayesian tutorial with a dropout bound", Theorem 2; restated as Theorem 2.1 of Dziugaite
    and Roy (ICML 2018). For a loss in [0, L] divide the risk by L and multiply the value.

    Formal guarantee: as for ``maurer``, provided that λ was fixed before the sample was seen.

    Args:
        risk: R̂(Q) in [0, 1].
        kl_nats: KL(Q‖P) in nats.
        n: number of independent examples.
        failure_prob: probability over the sample that the bound fails.
        lam: λ above 1/2; the minimiser over Q is Q ∝ P exp(-(n/λ) R̂).
    """
    _check.positive(lam=lam)
    if not lam > 0.5:
        raise ValueError(f"lam must be above 1/2, got {lam!r}; pass n divided by the inverse temperature.")
    nats = posterior_nats(risk, kl_nats, n, failure_prob, {})
    per_example, terms = kl_budget(nats, n)
    return Certificate(
        name="linear",
        value=outward(total(risk, lam * per_example) / inward(1.0 - 0.5 / lam)),
        failure_prob=failure_prob,
        status="rigorous",
        terms={"empirical_risk": risk, "lam": lam, **terms},
        budget={"bound": failure_prob},
        reference="McAllester 2013, arXiv 1307.2118, Theorem 2; Dziugaite and Roy, ICML 2018, Theorem 2.1",
        inputs={"risk": risk, "kl_nats": kl_nats, "n": n, "failure_prob": failure_prob, "lam": lam},
    )


def _relaxed(
    name: str, reference: str, risk: float, kl_nats: float, n: int, failure_prob: float, lam: float | None = None
) -> Certificate:
    """The closed forms above the inverse kl, at the same cost c per example."""
    nats = posterior_nats(risk, kl_nats, n, failure_prob, {"log_xi_nats": log_xi(n)})
    c, terms = kl_budget(nats, n)
    inputs: dict[str, float | int | str] = {
        "risk": risk,
        "kl_nats": kl_nats,
        "n": n,
        "failure_prob": failure_prob,
    }
    if math.isinf(c):
        value = 1.0
    elif name == "mcallester":
        value = total(risk, math.sqrt(c / 2.0))
    elif name == "tolstikhin_seldin":
        value = total(risk, 2.0 * c, math.sqrt(2.0 * risk) * math.sqrt(c))
    elif name == "thiemann" and lam is not None:
        value = outward(total(risk, c / lam) / inward(1.0 - lam / 2.0))
        inputs["lam"] = lam
    else:
        value = total(risk, c, math.sqrt(c) * math.sqrt(c + 2.0 * risk))
    if name == "thiemann":
        terms["lam"] = lam if lam is not None else 2.0 / (math.sqrt(2.0 * risk / c + 1.0) + 1.0)
    return Certificate(
        name=name,
        value=value,
        failure_prob=failure_prob,
        status="rigorous",
        terms={"empirical_risk": risk, **terms},
        budget={"bound": failure_prob},
        reference=reference,
        inputs=inputs,
    )
