"""Bounds for one draw of the posterior: the network that is deployed, rather than the mean over fresh draws.

For a draw w ~ Q both have the form kl(R̂(w)‖R(w)) ≤ [divergence + ln ξ(n) + k ln(1/(s δ)) + Λ((1-s) δ)] / n: a share s
of the failure probability δ pays k times for the draw, the rest for the prior, by ``price``. The share is the best of a
short list; the choice sees the price, n and δ alone. "One draw" in docs/guarantees.md.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bounds import _check
from bounds._assemble import billed, check_price, kl_value
from bounds._rounding import log_inverse, outward, total
from bounds.certificate import Certificate
from bounds.prices import INDEPENDENT, Independent, Price
from bounds.xi import log_xi

# Sums of squares and of logarithms over coordinates, each within some ulp (see bounds.divergence).
_OUTWARD = 2.0**-46
# Shares of the failure probability that may pay for the draw itself under a private prior.
_SHARES = (0.5, 0.2, 0.05, 0.01)


def disintegrated(
    *, risk: float, log_density_ratio: float, n: int, failure_prob: float, price: Price = INDEPENDENT
) -> Certificate:
    """The risk of one draw w ~ Q, by the density of Q against P at that draw.

        kl(R̂(w) ‖ R(w)) ≤ [ ln (dQ/dP)(w) + ln ξ(n) + ln(1/(s δ)) + Λ((1-s) δ) ] / n

    Rivasplata, Kuzborskij, Szepesvári and Shawe-Taylor 2020, "PAC-Bayes analysis beyond the usual bounds", with
    Maurer's constant: for an independent prior one step pays for prior and draw, ln(1/δ) in place of the last two.

    Formal guarantee: for a prior P fixed before the sample was seen (or a function of what the price's mechanism
    released) and w drawn once from a posterior Q that depends on the sample in any fixed way, R(w) ≤ value with
    probability at least 1 - failure_prob over sample, mechanism and draw. A draw picked among several as the best on
    the sample is not such a draw. ``risk`` is R̂(w); the density ratio, as from ``gaussian_log_density_ratio``, may be
    negative.
    """
    _check.above_minus_infinity(log_density_ratio=log_density_ratio)
    reference = "Rivasplata, Kuzborskij, Szepesvari and Shawe-Taylor, NeurIPS 2020, arXiv 2006.13057; Maurer 2004"
    given = {"log_density_ratio": float(log_density_ratio)}
    shares = () if isinstance(price, Independent) else _SHARES
    return _one_draw("disintegrated", risk, given, given, 1.0, shares, n, failure_prob, price, reference)


def disintegrated_renyi(
    *, risk: float, renyi_nats: float, n: int, failure_prob: float, price: Price = INDEPENDENT
) -> Certificate:
    """The risk of one draw w ~ Q, by the Rényi divergence of order 2: it does not depend on the draw.

        kl(R̂(w) ‖ R(w)) ≤ [ D₂(Q‖P) + ln ξ(n) + 2 ln(1/(s δ)) + Λ((1-s) δ) ] / n

    Viallard, Germain, Habrard and Morvant 2023, "A general framework for the practical disintegration of PAC-Bayesian
    bounds", at order 2: for an independent prior s = 1/2, and the last two are ln(8/δ³). For Gaussians N(w, s² I) and
    N(v, s² I) D₂ = ln E_Q dQ/dP is ‖w - v‖²/s², twice the KL (``gaussian_renyi``).

    Formal guarantee: as for ``disintegrated``.
    """
    _check.divergence(renyi_nats=renyi_nats)
    reference = "Viallard, Germain, Habrard and Morvant 2023, arXiv 2102.08649, at order 2; Maurer 2004"
    divergence, given = {"renyi": float(renyi_nats)}, {"renyi_nats": float(renyi_nats)}
    shares = _SHARES[:1] if isinstance(price, Independent) else _SHARES
    return _one_draw("disintegrated_renyi", risk, divergence, given, 2.0, shares, n, failure_prob, price, reference)


def _one_draw(
    formula: str,
    risk: float,
    divergence: dict[str, float],
    given: dict[str, float],
    times: float,
    shares: tuple[float, ...],
    n: int,
    failure_prob: float,
    price: Price,
    reference: str,
) -> Certificate:
    """The bound whose draw is paid for ``times`` times, at the best of ``shares``; at once with the prior, if none."""
    check_price(price)
    _check.probability(risk=risk)
    _check.open_probability(failure_prob=failure_prob)
    whole, risk, nats = float(failure_prob), float(risk), {**divergence, "log_xi": log_xi(n)}
    terms = {"empirical_risk": risk}
    if not shares:
        bill = billed(formula, price, n=n, failure_prob=whole, **nats)
    else:
        share = min(shares, key=lambda share: _cost(price, n, whole, share, times))
        part, rest = _split(whole, share)
        bill = billed(formula, price, n=n, failure_prob=rest, **nats, draw=total(times * log_inverse(part)))
        inputs = {**bill.inputs, "failure_prob": whole}
        bill = replace(bill, failure_prob=whole, budget={**bill.budget, "draw": part}, inputs=inputs)
        terms["draw_prob"] = part
    return bill.needing("draws independent").certificate(
        kl_value(risk, bill.per_example),
        of="one draw",
        terms=terms,
        inputs={"risk": risk, **given},
        reference=reference,
    )


def _split(whole: float, share: float) -> tuple[float, float]:
    """``share`` of a failure probability, and a positive rest; together no more than the whole."""
    part = share * whole
    rest = whole - part
    return part, rest if share == 0.5 else max(math.ulp(0.0), math.nextafter(rest, 0.0))


def _cost(price: Price, n: int, whole: float, share: float, times: float) -> float:
    """What draw and prior cost at this share; infinite where the price refuses what is left for it."""
    part, rest = _split(whole, share)
    try:
        return total(times * log_inverse(part), price.charge(n=n, failure_prob=rest).nats)
    except ValueError:
        return math.inf


def gaussian_renyi(mean_q: ArrayLike, mean_p: ArrayLike, std: ArrayLike, *, order: float = 2.0) -> float:
    """D_order(Q‖P) = order · Σ_i (mean_q_i - mean_p_i)²/(2 std_i²) in nats for Gaussians of equal spread, rounded up.

    Formal guarantee: at least the divergence of the Gaussians that the float arguments name.

    Raises ValueError when shapes differ, a value is not finite, or a standard deviation or the order is not positive.
    """
    _check.positive(order=order)
    mean_q, mean_p, std = _coordinates(mean_q=mean_q, mean_p=mean_p, std=std)
    with np.errstate(over="ignore", under="ignore"):
        half = outward(0.5 * float(np.sum(((mean_q - mean_p) / std) ** 2)) * (1.0 + _OUTWARD))
    return outward(float(order) * half)


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
    made = {name: _check.array(name, value) for name, value in arrays.items()}
    shapes = {name: array.shape for name, array in made.items() if array.ndim or not name.startswith("std")}
    if len(set(shapes.values())) > 1:
        raise ValueError(f"arrays must have one shape, got {shapes}; only standard deviations may be single numbers.")
    for name, array in made.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite, got a NaN or an infinity in it; has the training diverged?")
        if name.startswith("std") and not (array > 0.0).all():
            raise ValueError(f"{name} must be positive, got {array.min()!r}; pass standard deviations.")
    return list(made.values())
