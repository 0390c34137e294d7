"""Bounds for one draw of the posterior: the network that is deployed, rather than the mean over fresh draws.

For a draw w ~ Q both have the form kl(R̂(w)‖R(w)) ≤ [divergence + ln ξ(n) + k ln(1/(s δ)) + Λ((1-s) δ)] / n: a share s
of the failure probability δ pays k times for the draw, the rest for the prior, by ``price``. The share is the best of a
short list; the choice sees the price, n and δ alone. Prices that bound an exponential moment pay for a draw by
themselves (s = 0 in the first form), or have s = 1/2 fixed (in the second). "One draw" in docs/guarantees.md.
"""

from math import inf, nextafter, ulp

from bounds._assemble import billed, check_price, kl_value, settled, within
from bounds._check import above_minus_infinity, door
from bounds._rounding import log_inverse, total
from bounds.certificate import Certificate
from bounds.prices import INDEPENDENT, Price
from bounds.xi import log_xi

# Shares of the failure probability that may pay for the draw itself under a private prior.
_SHARES = (0.5, 0.2, 0.05, 0.01)


@door(log_density_ratio=above_minus_infinity)
def disintegrated(
    *, risk: float, log_density_ratio: float, n: int, failure_prob: float, price: Price = INDEPENDENT
) -> Certificate:
    """The risk of one draw w ~ Q, by the density of Q against P at that draw.

        kl(R̂(w) ‖ R(w)) ≤ [ ln (dQ/dP)(w) + ln ξ(n) + ln(1/(s δ)) + Λ((1-s) δ) ] / n

    Rivasplata, Kuzborskij, Szepesvári and Shawe-Taylor 2020, "PAC-Bayes analysis beyond the usual bounds", with
    Maurer's constant: for an independent prior, and one made from noisy sums, one step pays for prior and draw, Λ(δ) in
    place of the last two.

    Formal guarantee: for a prior P fixed before the sample was seen (or a function of what the price's mechanism
    released) and w drawn once from a posterior Q that depends on the sample in any fixed way, R(w) ≤ value with
    probability at least 1 - failure_prob over sample, mechanism and draw. A draw picked among several as the best on
    the sample is not such a draw. ``risk`` is R̂(w); the density ratio, as from ``gaussian_log_density_ratio``, may be
    negative.
    """
    reference = "Rivasplata, Kuzborskij, Szepesvari and Shawe-Taylor, NeurIPS 2020, arXiv 2006.13057; Maurer 2004"
    given = {"log_density_ratio": log_density_ratio}
    check_price(price)
    shares = () if price.pays_for_a_draw else _SHARES
    return _one_draw("disintegrated", risk, given, given, 1.0, shares, n, failure_prob, price, reference)


@door()
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
    reference = "Viallard, Germain, Habrard and Morvant 2023, arXiv 2102.08649, at order 2; Maurer 2004"
    divergence, given = {"renyi": renyi_nats}, {"renyi_nats": renyi_nats}
    check_price(price)
    shares = _SHARES[:1] if price.pays_for_a_draw else _SHARES
    return _one_draw("disintegrated_renyi", risk, divergence, given, 2.0, shares, n, failure_prob, price, reference)


def _one_draw(
    formula: str,
    risk: float,
    divergence: dict[str, float],
    given: dict[str, float],
    times: float,
    shares: tuple[float, ...],
    n: int,
    whole: float,
    price: Price,
    reference: str,
) -> Certificate:
    """The bound whose draw is paid for ``times`` times, at the best of ``shares``; at once with the prior, if none."""
    nats, terms = {**divergence, "log_xi": log_xi(n)}, {"empirical_risk": risk}
    if not shares:
        bill = billed(formula, price, n, whole, **nats)
    else:
        share = min(shares, key=lambda share: _cost(price, n, whole, share, times))
        part, rest = _split(whole, share)
        bill = billed(formula, price, n, rest, **nats, draw=total(times * log_inverse(part)))
        bill = within(bill, whole, **bill.budget, draw=part)
        terms["draw_prob"] = part
    return settled(
        bill,
        kl_value(risk, bill.total_per_example),
        of="one draw",
        terms=terms,
        inputs={"risk": risk, **given},
        reference=reference,
    )


def _split(whole: float, share: float) -> tuple[float, float]:
    """``share`` of a failure probability, and a positive rest; together no more than the whole."""
    part = share * whole
    rest = whole - part
    return part, rest if share == 0.5 else max(ulp(0.0), nextafter(rest, 0.0))


def _cost(price: Price, n: int, whole: float, share: float, times: float) -> float:
    """What draw and prior cost at this share; infinite where the price refuses what is left for it."""
    part, rest = _split(whole, share)
    try:
        return total(times * log_inverse(part), price.charge(n=n, failure_prob=rest).nats)
    except ValueError:
        return inf
