"""PAC-Bayes bounds, each written once: the formula here, where its prior came from as ``price``.

Everywhere: n independent examples, a loss in [0, 1], ``risk`` = R̂(Q) the mean loss of the posterior Q on those
examples, ``kl_nats`` = KL(Q‖P) in nats, ``failure_prob`` the probability over the sample (and, at another price, over
the mechanism) that the bound fails. ``price`` says what pays for the prior: by default it is independent of the sample,
and Λ below is ln(1/failure_prob); the prices of ``bounds.prices`` serve priors that a private mechanism learnt from the
same examples. With people as records, n counts people and the loss is a person's mean loss. Examples that the prior was
trained on without privacy do not count. Arguments out of range raise ValueError.

Formal guarantee (of each, unless it says more): for a prior fixed before the sample was seen, or one that is a function
of what the price's mechanism released, R(Q) ≤ value for all posteriors Q simultaneously with probability at least
1 - failure_prob. Free parameters must be fixed before the sample was seen. Proofs: docs/guarantees.md.

Two bounds are of one draw of the posterior, the network that is deployed, rather than of the mean over fresh draws. For
a draw w ~ Q both have the form kl(R̂(w)‖R(w)) ≤ [divergence + ln ξ(n) + k ln(1/(s δ)) + Λ((1-s) δ)] / n: a share s of
the failure probability δ pays k times for the draw, the rest for the prior, by ``price``. The share is the best of a
short list; the choice sees the price, n and δ alone. Prices that bound an exponential moment pay for a draw by
themselves (s = 0 in the first form), or have s = 1/2 fixed (in the second). "One draw" in docs/guarantees.md.
"""

from collections.abc import Callable, Sequence
from math import inf, log, nextafter, sqrt, ulp

from bounds._arithmetic import inward, log_inverse, outward, total
from bounds._check import above_minus_infinity, door, positive, reals
from bounds.certificate import Certificate
from bounds.kl import binary_kl_upper, log_two_sqrt, log_xi
from bounds.prices import (
    INDEPENDENT,
    Price,
    billed,
    catoni_value,
    check_price,
    of_posterior,
    pinsker_value,
    quadratic_value,
    settled,
    within,
)

# Shares of the failure probability that may pay for the draw itself under a private prior.
_SHARES = (0.5, 0.2, 0.05, 0.01)


@door()
def maurer(*, risk: float, kl_nats: float, n: int, failure_prob: float, price: Price = INDEPENDENT) -> Certificate:
    """The PAC-Bayes-kl bound with Maurer's exact constant: the largest R with

        kl(R̂(Q) ‖ R) ≤ [ KL(Q‖P) + ln ξ(n) + Λ ] / n

    Langford and Seeger 2001; Maurer 2004, Theorem 5, whose 2√n is replaced by ξ(n) ≤ 2√n (see ``log_xi``).

    Formal guarantee: R(Q) ≤ value for all Q simultaneously with probability at least 1 - failure_prob, for a prior
    fixed before the sample was seen, or released by the price's mechanism (over sample and mechanism).
    """
    reference = "Maurer 2004, arXiv cs/0411099, Theorem 5, with the exact xi(n)"
    return _of_kl("maurer", binary_kl_upper, reference, risk, kl_nats, n, failure_prob, price)


@door()
def langford_seeger(
    *, risk: float, kl_nats: float, n: int, failure_prob: float, price: Price = INDEPENDENT
) -> Certificate:
    """The PAC-Bayes-kl bound as most papers print it: ``maurer`` with ln(2√n) in place of ln ξ(n).

    Langford and Seeger 2001; Maurer 2004, Theorem 5. About 0.47 nats dearer than ``maurer``; kept to reproduce numbers.

    Formal guarantee: as for ``maurer``.
    """
    bill = billed("langford_seeger", price, n, failure_prob, kl=kl_nats, log_two_sqrt_n=log_two_sqrt(n))
    reference = "Langford and Seeger 2001; Maurer 2004, arXiv cs/0411099, Theorem 5"
    return of_posterior(bill, binary_kl_upper(risk, bill.total_per_example), risk, kl_nats, reference)


@door()
def mcallester(*, risk: float, kl_nats: float, n: int, failure_prob: float, price: Price = INDEPENDENT) -> Certificate:
    """R(Q) ≤ R̂(Q) + √(c/2) with c the right-hand side of ``maurer``, by Pinsker's inequality.

    McAllester 1999 with Maurer's constant. Never below ``maurer``; linear in the risk, so fit for training.

    Formal guarantee: as for ``maurer``.
    """
    reference = "McAllester 1999; Maurer 2004"
    return _of_kl("mcallester", pinsker_value, reference, risk, kl_nats, n, failure_prob, price)


@door()
def quadratic(*, risk: float, kl_nats: float, n: int, failure_prob: float, price: Price = INDEPENDENT) -> Certificate:
    """R(Q) ≤ (√(R̂ + c/2) + √(c/2))² with c the right-hand side of ``maurer``.

    From kl(q‖p) ≥ (p-q)²/(2p). Rivasplata et al. 2019 and Pérez-Ortiz et al. 2021 ("f_quad").

    Formal guarantee: as for ``maurer``.
    """
    reference = "Perez-Ortiz, Rivasplata, Shawe-Taylor and Szepesvari, JMLR 2021, Theorem 1; Maurer 2004"
    return _of_kl("quadratic", quadratic_value, reference, risk, kl_nats, n, failure_prob, price)


@door()
def tolstikhin_seldin(
    *, risk: float, kl_nats: float, n: int, failure_prob: float, price: Price = INDEPENDENT
) -> Certificate:
    """R(Q) ≤ R̂ + √(2R̂c) + 2c with c the right-hand side of ``maurer``.

    Tolstikhin and Seldin 2013, "PAC-Bayes-empirical-Bernstein inequality", where the kl bound is put so. Never below
    ``quadratic``, as √(c² + 2cR̂) ≤ c + √(2cR̂).

    Formal guarantee: as for ``maurer``.
    """

    def value(r: float, c: float) -> float:
        return total(r, 2.0 * c, sqrt(2.0 * r) * sqrt(c))

    reference = "Tolstikhin and Seldin, NeurIPS 2013; Maurer 2004"
    return _of_kl("tolstikhin_seldin", value, reference, risk, kl_nats, n, failure_prob, price)


@door()
def thiemann(
    *, risk: float, kl_nats: float, n: int, failure_prob: float, lam: float | None = None, price: Price = INDEPENDENT
) -> Certificate:
    """R(Q) ≤ (R̂ + c/λ) / (1 - λ/2), for all λ in (0, 2) at once, with c the right-hand side of ``maurer``.

    Thiemann, Igel, Wintenberger and Seldin 2017, Theorem 3 ("f_lambda"), with Maurer's exact constant. As it holds
    for all λ together, ``lam=None`` takes the best, 2/(√(2R̂/c + 1) + 1), where it equals ``quadratic``.

    Formal guarantee: as for ``maurer``, and for every λ simultaneously: it may be chosen on the sample.
    """
    if lam is not None and not lam < 2.0:
        raise ValueError(f"lam must be below 2, got {lam!r}; leave it out for the best value.")
    bill = billed("thiemann", price, n, failure_prob, kl=kl_nats, log_xi=log_xi(n))
    given, c = {"risk": risk, "kl_nats": kl_nats}, bill.total_per_example
    if lam is None:
        value, best = quadratic_value(risk, c), 2.0 / (sqrt(2.0 * risk / c + 1.0) + 1.0)
    else:
        value, best = outward(total(risk, outward(c / lam)) / inward((2.0 - lam) / 2.0)), lam
        given["lam"] = lam
    reference = "Thiemann, Igel, Wintenberger and Seldin 2017, Theorem 3; Maurer 2004"
    return settled(bill, value, terms={"empirical_risk": risk, "lam": best}, inputs=given, reference=reference)


@door()
def catoni(
    *, risk: float, kl_nats: float, n: int, failure_prob: float, inverse_temperature: float, price: Price = INDEPENDENT
) -> Certificate:
    """Catoni's bound at a fixed inverse temperature C, in nats per unit of mean loss.

        R(Q) ≤ [1 - exp(-(C R̂(Q) + KL(Q‖P) + Λ) / n)] / (1 - exp(-C/n))

    Catoni 2007, "PAC-Bayesian supervised classification", Theorem 1.2.1. It is smallest for Q ∝ P exp(-C R̂).

    Formal guarantee: as for ``maurer``, provided that C was fixed before the sample was seen; for C chosen from a
    finite list on the sample there is ``catoni_grid``.
    """
    bill, reference = (
        billed("catoni", price, n, failure_prob, kl=kl_nats),
        "Catoni 2007, IMS Lecture Notes 56, Theorem 1.2.1",
    )
    value = catoni_value(risk, inverse_temperature, bill.total_per_example, n)
    return of_posterior(bill, value, risk, kl_nats, reference, inverse_temperature=inverse_temperature)


@door()
def catoni_grid(
    *,
    risk: float,
    kl_nats: float,
    n: int,
    failure_prob: float,
    inverse_temperatures: Sequence[float],
    price: Price = INDEPENDENT,
) -> Certificate:
    """The smallest of Catoni's bounds over a grid of J inverse temperatures, paid for with ln J nats.

        R(Q) ≤ min_C [1 - exp(-(C R̂(Q) + KL(Q‖P) + ln J + Λ) / n)] / (1 - exp(-C/n))

    Catoni 2007, Theorem 1.2.1, and a mixture over the list ("Grids" in docs/guarantees.md); n·2^(-k/2), k = -4, ...,
    16, covers most needs. Without the ln J, the minimum over all C would be the inverse kl at KL + Λ, below ``maurer``
    and with nothing proved of it.

    Formal guarantee: as for ``maurer``, provided that the list, all numbers different, was fixed before the sample was
    seen; which of its members is used may depend on the sample.
    """
    grid = reals("inverse_temperatures", inverse_temperatures, positive)
    if not grid or len(set(grid)) < len(grid):
        raise ValueError(f"inverse_temperatures must be different numbers, at least one, got {grid!r}.")
    bill = billed("catoni_grid", price, n, failure_prob, kl=kl_nats, grid=outward(log(len(grid))))
    value, best = min((catoni_value(risk, scale, bill.total_per_example, n), scale) for scale in grid)
    return settled(
        bill,
        value,
        terms={"empirical_risk": risk, "inverse_temperature": best},
        inputs={"risk": risk, "kl_nats": kl_nats, "inverse_temperatures": ", ".join(map(repr, grid))},
        reference="Catoni 2007, IMS Lecture Notes 56, Theorem 1.2.1, and a mixture over the grid",
    )


@door()
def linear(
    *, risk: float, kl_nats: float, n: int, failure_prob: float, lam: float, price: Price = INDEPENDENT
) -> Certificate:
    """The linear bound that Gibbs posteriors minimise.

        R(Q) ≤ [ R̂(Q) + (λ/n) (KL(Q‖P) + Λ) ] / (1 - 1/(2λ)),    λ = lam > 1/2

    McAllester 2013, "A PAC-Bayesian tutorial with a dropout bound", Theorem 2; restated as Theorem 2.1 of Dziugaite
    and Roy (ICML 2018). For a loss in [0, L] divide the risk by L and multiply the value. The minimiser over Q is
    Q ∝ P exp(-(n/λ) R̂).

    Formal guarantee: as for ``maurer``, provided that λ was fixed before the sample was seen.
    """
    if not lam > 0.5:
        raise ValueError(f"lam must be above 1/2, got {lam!r}; pass n divided by the inverse temperature.")
    bill = billed("linear", price, n, failure_prob, kl=kl_nats)
    value = outward(total(risk, outward(lam * bill.total_per_example)) / inward((lam - 0.5) / lam))
    reference = "McAllester 2013, arXiv 1307.2118, Theorem 2; Dziugaite and Roy, ICML 2018, Theorem 2.1"
    return of_posterior(bill, value, risk, kl_nats, reference, lam=lam)


def _of_kl(
    name: str,
    value: Callable[[float, float], float],
    reference: str,
    risk: float,
    kl_nats: float,
    n: int,
    failure_prob: float,
    price: Price,
) -> Certificate:
    """The inverse kl at the cost c per example, or a closed form above it: ``value`` of the risk and c."""
    bill = billed(name, price, n, failure_prob, kl=kl_nats, log_xi=log_xi(n))
    return of_posterior(bill, value(risk, bill.total_per_example), risk, kl_nats, reference)


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
        binary_kl_upper(risk, bill.total_per_example),
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
