"""Bounds for one draw of the posterior: the network that is deployed, rather than the mean over fresh draws."""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bounds import _check
from bounds._assemble import billed, kl_value
from bounds._rounding import log_inverse, outward
from bounds.certificate import Certificate
from bounds.pac_bayes import INDEPENDENT
from bounds.prices import Independent, Price
from bounds.xi import log_xi

# Sums of squares and of logarithms over coordinates, each within some ulp (see bounds.divergence).
_OUTWARD = 2.0**-46
# Shares of the failure probability that may pay for the draw itself under a private prior.
_SHARES = (0.5, 0.25, 0.1, 0.05, 0.02, 0.01)


def disintegrated(
    *, risk: float, log_density_ratio: float, n: int, failure_prob: float, price: Price = INDEPENDENT
) -> Certificate:
    """The risk of one draw w ~ Q, by the density of Q against P at that draw.

        kl(R̂(w) ‖ R(w)) ≤ [ ln (dQ/dP)(w) + ln ξ(n) + Λ ] / n

    Rivasplata, Kuzborskij, Szepesvári and Shawe-Taylor 2020, "PAC-Bayes analysis beyond the usual bounds", with
    Maurer's constant. For an independent prior Λ = ln(1/failure_prob). For a prior that a private mechanism released
    it is ln(1/(s δ)) plus the price at (1 - s) δ, δ = failure_prob: the first pays for the draw, the second for the
    prior, at the best share s of a short list, which depends on the price, n and δ alone. "One draw" in
    docs/guarantees.md.

    Formal guarantee: for a prior P fixed before the sample was seen (or a function of what the price's mechanism
    released) and w drawn once from a posterior Q that depends on the sample in any fixed way, R(w) ≤ value with
    probability at least 1 - failure_prob over sample, mechanism and draw. A draw picked among several as the best on
    the sample is not such a draw.

    Args:
        risk: R̂(w), mean loss in [0, 1] of that draw on the n examples.
        log_density_ratio: ln (dQ/dP)(w) in nats, as from ``gaussian_log_density_ratio``; it may be negative.
        n: number of independent examples.
        failure_prob: probability over the sample and the draw that the bound fails.
        price: where the prior came from.
    """
    _check.above_minus_infinity(log_density_ratio=log_density_ratio)
    return _one_draw(
        "disintegrated",
        risk,
        {"log_density_ratio": log_density_ratio},
        n,
        failure_prob,
        price,
        reference="Rivasplata, Kuzborskij, Szepesvari and Shawe-Taylor, NeurIPS 2020, arXiv 2006.13057; Maurer 2004",
        inputs={"log_density_ratio": log_density_ratio},
    )


def disintegrated_renyi(
    *, risk: float, renyi_nats: float, n: int, failure_prob: float, price: Price = INDEPENDENT
) -> Certificate:
    """The risk of one draw w ~ Q, by the Rényi divergence of order 2: it does not depend on the draw.

        kl(R̂(w) ‖ R(w)) ≤ [ D₂(Q‖P) + ln ξ(n) + ln(8/failure_prob³) ] / n

    Viallard, Germain, Habrard and Morvant 2023, "A general framework for the practical disintegration of PAC-Bayesian
    bounds", at order 2. For Gaussians N(w, s² I) and N(v, s² I) D₂ is ‖w - v‖²/s², twice the KL. For a prior that a
    private mechanism released, ln(2/δ) pays for ln (dQ/dP)(w) ≤ D₂ + ln(2/δ), by Markov's inequality, and the rest is
    ``disintegrated`` at δ/2, δ = failure_prob.

    Formal guarantee: as for ``disintegrated``.

    Args:
        risk: R̂(w), mean loss in [0, 1] of that draw on the n examples.
        renyi_nats: D₂(Q‖P) = ln E_Q dQ/dP in nats, as from ``gaussian_renyi``.
        n: number of independent examples.
        failure_prob: probability over the sample and the draw that the bound fails.
        price: where the prior came from.
    """
    _check.divergence(renyi_nats=renyi_nats)
    return _one_draw(
        "disintegrated_renyi",
        risk,
        {"renyi": renyi_nats},
        n,
        failure_prob,
        price,
        reference="Viallard, Germain, Habrard and Morvant 2023, arXiv 2102.08649, at order 2; Maurer 2004",
        inputs={"renyi_nats": renyi_nats},
    )


def _one_draw(
    formula: str,
    risk: float,
    nats: dict[str, float],
    n: int,
    failure_prob: float,
    price: Price,
    *,
    reference: str,
    inputs: dict[str, float],
) -> Certificate:
    _check.probability(risk=risk)
    _check.count(n=n)
    _check.open_probability(failure_prob=failure_prob)
    renyi = formula == "disintegrated_renyi"
    if isinstance(price, Independent):
        if renyi:  # ln(8/δ³) = ln(8/δ²) + ln(1/δ)
            nats = {**nats, "order": outward(3.0 * math.log(2.0) + 2.0 * log_inverse(failure_prob))}
        bill = billed(formula, price, n=n, failure_prob=failure_prob, **nats, log_xi=log_xi(n))
        budget = bill.budget
    else:
        left = 0.5 * failure_prob if renyi else failure_prob
        if renyi:
            nats = {**nats, "order": log_inverse(0.5 * failure_prob)}
        bills = [
            billed(
                formula,
                price,
                n=n,
                failure_prob=math.nextafter((1.0 - share) * left, 0.0),
                **nats,
                log_xi=log_xi(n),
                draw=log_inverse(share * left),
            )
            for share in _SHARES
        ]
        bill, share = min(zip(bills, _SHARES, strict=True), key=lambda pair: pair[0].total_nats)
        budget = {**bill.budget, "draw": share * left, **({"order": 0.5 * failure_prob} if renyi else {})}
    bill = replace(bill, budget=budget, failure_prob=failure_prob, inputs={**bill.inputs, "failure_prob": failure_prob})
    return bill.certificate(
        kl_value(risk, bill.per_example),
        of="one draw",
        terms={"empirical_risk": risk},
        inputs={"risk": risk, **inputs},
        reference=reference,
    )


def gaussian_renyi(mean_q: ArrayLike, mean_p: ArrayLike, std: ArrayLike, *, order: float = 2.0) -> float:
    """D_order(Q‖P) = order · Σ_i (mean_q_i - mean_p_i)²/(2 std_i²) in nats for Gaussians of equal spread, rounded up.

    Formal guarantee: at least the divergence of the Gaussians that the float arguments name.

    Raises ValueError when shapes differ, a value is not finite, or a standard deviation or the order is not positive.
    """
    _check.positive(order=order)
    mean_q, mean_p, std = _coordinates(mean_q=mean_q, mean_p=mean_p, std=std)
    with np.errstate(over="ignore", under="ignore"):
        return float(0.5 * order * np.sum(((mean_q - mean_p) / std) ** 2)) * (1.0 + _OUTWARD)


def gaussian_log_density_ratio(
    weights: ArrayLike, mean_q: ArrayLike, std_q: ArrayLike, mean_p: ArrayLike, std_p: ArrayLike
) -> float:
    """ln (dQ/dP)(weights) in nats between Gaussians with independent coordinates, rounded up.

        Σ_i [ ln(std_p_i/std_q_i) + (w_i - mean_p_i)²/(2 std_p_i²) - (w_i - mean_q_i)²/(2 std_q_i²) ]

    Formal guarantee: at least the ratio for the float arguments. Weights and means have one shape; standard deviations
    too, or they are numbers.

    Raises ValueError when shapes differ, a value is not finite, or a standard deviation is not positive.
    """
    w, mean_q, std_q, mean_p, std_p = _coordinates(
        weights=weights, mean_q=mean_q, std_q=std_q, mean_p=mean_p, std_p=std_p
    )
    wide, narrow = (np.broadcast_to(np.log(std), w.shape) for std in (std_p, std_q))
    with np.errstate(over="ignore", under="ignore"):
        far, near = 0.5 * ((w - mean_p) / std_p) ** 2, 0.5 * ((w - mean_q) / std_q) ** 2
        parts = [float(np.sum(part)) for part in (wide, -narrow, far, -near)]
        slack = _OUTWARD * float(np.sum(np.abs(wide)) + np.sum(np.abs(narrow)) + np.sum(far) + np.sum(near))
    return math.fsum((*parts, slack)) if math.isfinite(slack) else math.inf


def _coordinates(**arrays: ArrayLike) -> list[NDArray[np.float64]]:
    made = {name: np.asarray(value, dtype=np.float64) for name, value in arrays.items()}
    shapes = {name: array.shape for name, array in made.items() if array.ndim or not name.startswith("std")}
    if len(set(shapes.values())) > 1:
        raise ValueError(f"arrays must have one shape, got {shapes}; only standard deviations may be single numbers.")
    for name, array in made.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite, got a NaN or an infinity in it; has the training diverged?")
        if name.startswith("std") and not (array > 0.0).all():
            raise ValueError(f"{name} must be positive, got {array.min()!r}; pass standard deviations.")
    return list(made.values())
