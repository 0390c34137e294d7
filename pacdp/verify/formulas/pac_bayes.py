"""PAC-Bayes bounds and their relatives; c.share is the sum of all costs over n, at whatever price."""

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import (
    ONE,
    ZERO,
    ball,
    kl_upper,
    least,
    log_xi,
    total,
)
from pacdp.verify.claim import Claim, Price, number, require
from pacdp.verify.formulas.prices import check_price

ETAS = [0.5 * 0.8**k for k in range(20)]
"""The grid of the un-expected Bernstein inequality, paid for with ln 20."""


def inverse_kl(c: Claim) -> arb:
    """kl(R̂(Q)‖R(Q)) ≤ c ("PAC-Bayes with an independent prior", "Averages of independent draws")."""
    return kl_upper(c.risk, c.share)


def mcallester(c: Claim) -> arb:
    """McAllester: R̂ + √(c/2), by Pinsker ("PAC-Bayes with an independent prior")."""
    return c.risk + (c.share / 2).sqrt()


def quadratic(c: Claim) -> arb:
    """(√(R̂ + c/2) + √(c/2))² = R̂ + c + √(c² + 2cR̂) ("PAC-Bayes with an independent prior")."""
    square = c.share * (c.share + 2 * c.risk)
    return c.risk + c.share + square.sqrt()


def tolstikhin_seldin(c: Claim) -> arb:
    """Tolstikhin and Seldin's R̂ + √(2cR̂) + 2c ("PAC-Bayes with an independent prior")."""
    square = 2 * c.risk * c.share
    return c.risk + square.sqrt() + 2 * c.share


def thiemann(c: Claim) -> arb:
    """(R̂ + c/λ)/(1 - λ/2); the best λ gives the quadratic form ("PAC-Bayes with an independent prior")."""
    if "lam" in c.inputs:
        above = c.risk + c.share / c.lam
        return above / (1 - c.lam / 2)
    root = (2 * c.risk / c.share + 1).sqrt()
    c.terms_are(lam=2 / (root + 1))
    return quadratic(c)


def catoni(c: Claim) -> arb:
    """[1 - exp(-(C R̂ + costs)/n)] / (1 - e^(-C/n)) ("PAC-Bayes with an independent prior")."""
    return _catoni_at(c, c.inverse_temperature)


def catoni_grid(c: Claim) -> arb:
    """Catoni's bound at the best of J values fixed beforehand, at ln J nats ("Grids")."""
    grid = c.listed("inverse_temperatures")
    taken = c.term("inverse_temperature")
    require(
        any(taken == one for one in grid),
        f"terms.inverse_temperature is {float(taken)!r}, which is not of the grid",
    )
    return least(_catoni_at(c, one) for one in grid)


def _catoni_at(c: Claim, temperature: arb) -> arb:
    exponent = temperature * c.risk + c.nats
    above = (-exponent / c.n).expm1()
    below = (-temperature / c.n).expm1()
    return (above / below).max(c.risk)


def linear(c: Claim) -> arb:
    """[R̂(Q) + λ c] / (1 - 1/(2λ)), λ > 1/2 ("PAC-Bayes with an independent prior")."""
    above = c.risk + c.lam * c.share
    return above / (1 - 1 / (2 * c.lam))


def unexpected_bernstein(c: Claim) -> arb:
    """R̂ + (c_η/η) mean(ℓ²) + c/η at the best η of a fixed grid ("Un-expected Bernstein")."""
    return bernstein(c, c.risk, c.second_moment)


def bernstein(c: Claim, mean: arb, square: arb) -> arb:
    """E Z̄ ≤ Z̄ + (c_η/η)·mean(Z²) + costs/(ηn), c_η = -η - ln(1-η), at the terms' η ("Un-expected Bernstein")."""
    etas = [c.terms["eta"]] if "eta" in c.terms else ETAS
    require(
        set(etas) <= set(ETAS),
        f"terms.eta is {etas}, not of the grid",
    )
    bounds = list[arb]()
    for eta in map(ball, etas):
        slope = -eta - (1 - eta).log()
        bounds.append(mean + slope / eta * square + c.share / eta)
    return least(bounds)


def split_kl(c: Claim) -> arb:
    """b_0 + Σ_j (b_j - b_(j-1)) kl⁻¹ of the mean of g_j, at ln K nats for all K together ("Split kl")."""
    levels = c.numbered("level_", 0)
    shares = c.numbered("share_", 1)
    mean = _between(levels, shares)
    c.term_agrees("empirical_risk", mean.min(ONE))
    return split(levels, shares, c.share)


def split(levels: list[arb], shares: list[arb], nats: arb) -> arb:
    """One bound for each level, and their sum ("Split kl")."""
    return _between(
        levels, [kl_upper(share, nats) for share in shares]
    )


def _between(levels: list[arb], shares: list[arb]) -> arb:
    steps = zip(levels[1:], levels[:-1], shares, strict=True)
    return levels[0] + total((b - a) * share for b, a, share in steps)


def recursive(c: Claim) -> arb:
    """R(π_t) = E[ℓ(w) - γ ℓ(w')] + γ R(π_(t-1)); B_1 is `maurer` on all examples ("Recursive PAC-Bayes")."""
    bound = inverse_kl(c)
    earlier = c.n
    c.term_agrees("bound_1", bound)
    for step in range(2, 2 + len(c.numbered("n_", 2))):
        size = c.inputs[f"n_{step}"]
        why = f"n_{step} is {size}, of {earlier} records"
        require(size < earlier, why)
        excess = _excess(c, step, size)
        bound = (excess + c.gamma * bound).max(ZERO).min(ONE)
        c.term_agrees(f"bound_{step}", bound)
        earlier = size
    return bound


def _excess(c: Claim, step: int, size: int) -> arb:
    """The split kl of the excess, with the levels -γ, 0, 1-γ, 1, at KL, ln ξ(n_t), ln 3 of each step, and the price."""
    price = "transfer" if "transfer" in c.costs else "confidence"
    c.term_agrees(f"kl_nats_{step}", c[f"kl_nats_{step}"])
    c.term_agrees(f"log_xi_nats_{step}", log_xi(size))
    c.term_agrees(f"levels_nats_{step}", arb(3).log())
    paid = f"{price}_nats_{step}"
    claimed = number(c.terms[paid])
    check_price(Price(c, f"terms.{paid}", claimed, size, f"_{step}"))
    names = ("kl", "log_xi", "levels", price)
    nats = (
        total(c.term(f"{name}_nats_{step}") for name in names) / size
    )
    c.term_agrees(f"total_per_example_{step}", nats)
    shares = [c[f"share_{step}_{level}"] for level in (1, 2, 3)]
    gamma = c.gamma
    excess = split([-gamma, ZERO, 1 - gamma, ONE], shares, nats)
    c.term_agrees(f"excess_{step}", excess)
    return excess


def dp_hoeffding_2018(c: Claim) -> arb:
    """R̂ + ε̄ + n^(-1/2) ("Private weights", the printed forms of 2018)."""
    bar, root = _bar_2018(c)
    return c.risk + bar + root


def dp_chernoff_2018(c: Claim) -> arb:
    """R̂ + √(6R̂)(ε̄ + n^(-1/2)) + 6(ε̄² + 1/n) ("Private weights", the printed forms of 2018)."""
    bar, root = _bar_2018(c)
    slope = (6 * c.risk).sqrt()
    square = bar**2 + root**2
    return c.risk + slope * (bar + root) + 6 * square


def _bar_2018(c: Claim) -> tuple[arb, arb]:
    """ε̄ = max{ε, √(ln(3/δ)/n)}, and n^(-1/2)."""
    nats = (3 / c.failure_prob).log()
    bar = c.epsilon.max((nats / c.n).sqrt())
    c.term_agrees("epsilon_bar", bar)
    return bar, (ONE / c.n).sqrt()
