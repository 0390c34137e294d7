"""PAC-Bayes bounds and their relatives; c.share is the sum of all costs over n, at whatever price."""

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import ONE, ZERO, ball, kl_upper, least
from pacdp.verify.claim import Claim, Wrong

ETAS = [0.5 * 0.8**k for k in range(20)]
"""The grid of the un-expected Bernstein inequality, paid for with ln 20."""


def inverse_kl(c: Claim) -> arb:
    """kl(R̂(Q)‖R(Q)) ≤ c ("PAC-Bayes with an independent prior", "Averages of independent draws")."""
    return kl_upper(c["risk"], c.share)


def mcallester(c: Claim) -> arb:
    """McAllester: R̂ + √(c/2), by Pinsker ("PAC-Bayes with an independent prior")."""
    return c["risk"] + (c.share / 2).sqrt()


def quadratic(c: Claim) -> arb:
    """(√(R̂ + c/2) + √(c/2))² = R̂ + c + √(c² + 2cR̂) ("PAC-Bayes with an independent prior")."""
    square = c.share * (c.share + 2 * c["risk"])
    return c["risk"] + c.share + square.sqrt()


def tolstikhin_seldin(c: Claim) -> arb:
    """Tolstikhin and Seldin's R̂ + √(2cR̂) + 2c ("PAC-Bayes with an independent prior")."""
    square = 2 * c["risk"] * c.share
    return c["risk"] + square.sqrt() + 2 * c.share


def thiemann(c: Claim) -> arb:
    """(R̂ + c/λ)/(1 - λ/2); the best λ gives the quadratic form ("PAC-Bayes with an independent prior")."""
    if "lam" in c.inputs:
        lam = c["lam"]
        above = c["risk"] + c.share / lam
        return above / (1 - lam / 2)
    root = (2 * c["risk"] / c.share + 1).sqrt()
    c.term_is_about("lam", 2 / (root + 1))
    return quadratic(c)


def catoni(c: Claim) -> arb:
    """[1 - exp(-(C R̂ + costs)/n)] / (1 - e^(-C/n)) ("PAC-Bayes with an independent prior")."""
    return _catoni_at(c, c["inverse_temperature"])


def catoni_grid(c: Claim) -> arb:
    """Catoni's bound at the best of J values fixed beforehand, at ln J nats ("Grids")."""
    grid = c.listed("inverse_temperatures")
    taken = c.term("inverse_temperature")
    if not any(taken == one for one in grid):
        raise Wrong(
            f"terms.inverse_temperature is {c.terms['inverse_temperature']!r}, which is not of the grid"
        )
    return least(_catoni_at(c, one) for one in grid)


def _catoni_at(c: Claim, temperature: arb) -> arb:
    exponent = temperature * c["risk"] + c.nats
    above = (-exponent / c.n).expm1()
    below = (-temperature / c.n).expm1()
    return (above / below).max(c["risk"])


def linear(c: Claim) -> arb:
    """[R̂(Q) + λ c] / (1 - 1/(2λ)), λ > 1/2 ("PAC-Bayes with an independent prior")."""
    lam = c["lam"]
    above = c["risk"] + lam * c.share
    return above / (1 - 1 / (2 * lam))


def unexpected_bernstein(c: Claim) -> arb:
    """R̂ + (c_η/η) mean(ℓ²) + c/η at the best η of a fixed grid ("Un-expected Bernstein")."""
    return bernstein(c, c["risk"], c["second_moment"])


def bernstein(c: Claim, mean: arb, square: arb) -> arb:
    """E Z̄ ≤ Z̄ + (c_η/η)·mean(Z²) + costs/(ηn), c_η = -η - ln(1-η) ("Un-expected Bernstein")."""
    bounds = list[arb]()
    for eta in _etas(c):
        slope = -eta - (1 - eta).log()
        bounds.append(mean + slope / eta * square + c.share / eta)
    return least(bounds)


def _etas(c: Claim) -> list[arb]:
    """The grid, or the one of it that the terms name ("Un-expected Bernstein")."""
    if "eta" not in c.terms:
        return [ball(eta) for eta in ETAS]
    eta = c.terms["eta"]
    if eta not in ETAS:
        raise Wrong(f"terms.eta is {eta!r}, which is not of the grid")
    return [ball(eta)]


def split_kl(c: Claim) -> arb:
    """b_0 + Σ_j (b_j - b_(j-1)) kl⁻¹ of the mean of g_j, at ln K nats for all K together ("Split kl")."""
    levels = c.numbered("level_", 0)
    shares = c.numbered("share_", 1)
    mean = _between(levels, shares)
    c.term_agrees("empirical_risk", mean.min(ONE))
    return split(levels, shares, c.share)


def split(
    levels: list[arb],
    shares: list[arb],
    per_example: arb,
) -> arb:
    """One bound for each level, and their sum ("Split kl")."""
    return _between(levels, [kl_upper(share, per_example) for share in shares])


def _between(levels: list[arb], shares: list[arb]) -> arb:
    whole = levels[0]
    for place, share in enumerate(shares):
        whole += (levels[place + 1] - levels[place]) * share
    return whole


def dp_hoeffding_2018(c: Claim) -> arb:
    """R̂ + ε̄ + n^(-1/2) ("Private weights", the printed forms of 2018)."""
    bar, root = _bar_2018(c)
    return c["risk"] + bar + root


def dp_chernoff_2018(c: Claim) -> arb:
    """R̂ + √(6R̂)(ε̄ + n^(-1/2)) + 6(ε̄² + 1/n) ("Private weights", the printed forms of 2018)."""
    bar, root = _bar_2018(c)
    slope = (6 * c["risk"]).sqrt()
    square = bar**2 + root**2
    return c["risk"] + slope * (bar + root) + 6 * square


def _bar_2018(c: Claim) -> tuple[arb, arb]:
    """ε̄ = max{ε, √(ln(3/δ)/n)}, and n^(-1/2)."""
    nats = (3 / c["failure_prob"]).log()
    bar = c["epsilon"].max((nats / c.n).sqrt())
    c.term_agrees("epsilon_bar", bar)
    return bar, (ONE / c.n).sqrt()


def free_energy(c: Claim) -> arb:
    """-ln Z - τa, at most τ(b - a) ("Divergence of a Gibbs posterior")."""
    tau, low = c["tau"], c["loss_low"]
    spread = tau * (c["loss_high"] - low)
    if "log_partition_lower_nats" not in c.inputs:
        return spread
    nats = -c["log_partition_lower_nats"] - tau * low
    return nats.max(ZERO).min(spread)


def gibbs_catoni(c: Claim) -> arb:
    """[1 - exp(-(-v - τa + Λ)/n)]/(1 - e^(-C/n)), C = τ(b - a) ("Certificates without draws of the posterior")."""
    spread = c["tau"] * (c["loss_high"] - c["loss_low"])
    c.term_is_about("inverse_temperature", spread)
    above = (-c.nats / c.n).expm1()
    below = (-spread / c.n).expm1()
    return above / below
