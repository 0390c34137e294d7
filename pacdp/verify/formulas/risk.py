"""Bounds on a risk: PAC-Bayes bounds, those of Gibbs posteriors, and counts; c.share is the sum of all costs over n."""

from itertools import pairwise

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import (
    LEAST_TAIL,
    ONE,
    ZERO,
    ball,
    binary_kl,
    binomial_upper,
    kl_upper,
    largest,
    least,
    log_xi,
    total,
    zero_of,
)
from pacdp.verify.claim import (
    Claim,
    Price,
    about,
    exactly,
    number,
    parsed,
    require,
)
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
        require(c.lam < 2, f"lam is {c.inputs.lam!r}, of below 2")
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
    require(2 * c.lam > 1, f"lam is {c.inputs.lam!r}, of above 1/2")
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
    require(
        mean**2 <= square + ball(1e-9),
        f"no mean square is {float(square)!r} where the mean is {float(mean)!r}",
    )
    bounds = []
    for eta in map(ball, etas):
        slope = -eta - (1 - eta).log()
        bounds.append(mean + slope / eta * square + c.share / eta)
    return least(bounds)


def split_kl(c: Claim) -> arb:
    """b_0 + Σ_j (b_j - b_(j-1)) kl⁻¹ of the mean of g_j, at ln K nats for all K together ("Split kl")."""
    levels = c.numbered("level_", 0)
    shares = c.numbered("share_", 1)
    mean = _between(levels, shares)
    c.terms_are(empirical_risk=mean.min(ONE))
    return split(levels, shares, c.share)


def split(levels: list[arb], shares: list[arb], nats: arb) -> arb:
    """One bound for each level, and their sum; levels rise ("Split kl")."""
    rising = pairwise(levels)
    require(
        all(a < b for a, b in rising),
        f"the levels {levels} do not rise",
    )
    return _between(
        levels, [kl_upper(share, nats) for share in shares]
    )


def _between(levels: list[arb], shares: list[arb]) -> arb:
    steps = zip(levels[1:], levels[:-1], shares, strict=True)
    return levels[0] + total(
        (b - a) * share for b, a, share in steps
    )


def recursive(c: Claim) -> arb:
    """R(π_t) = E[ℓ(w) - γ ℓ(w')] + γ R(π_(t-1)); B_1 is `maurer` on all examples ("Recursive PAC-Bayes")."""
    bound = inverse_kl(c)
    earlier = c.n
    c.terms_are(bound_1=bound)
    for step in range(2, 2 + len(c.numbered("n_", 2))):
        size = c.inputs[f"n_{step}"]
        why = f"n_{step} is {size}, of {earlier} records"
        require(size < earlier, why)
        excess = _excess(c, step, size)
        bound = (excess + c.gamma * bound).max(ZERO).min(ONE)
        c.terms_are(**{f"bound_{step}": bound})
        earlier = size
    return bound


def _excess(c: Claim, step: int, size: int) -> arb:
    """The split kl of the excess, with the levels -γ, 0, 1-γ, 1, at KL, ln ξ(n_t), ln 3 of each step, and the price."""
    price = "transfer" if "transfer" in c.costs else "confidence"
    paid = f"{price}_nats_{step}"
    claimed = number(c.terms[paid])
    check_price(
        Price(c, f"terms.{paid}", claimed, size, f"_{step}")
    )
    costs = {
        f"kl_nats_{step}": c[f"kl_nats_{step}"],
        f"log_xi_nats_{step}": log_xi(size),
        f"levels_nats_{step}": arb(3).log(),
    }
    nats = (total(costs.values()) + ball(claimed)) / size
    shares = [c[f"share_{step}_{level}"] for level in (1, 2, 3)]
    gamma = c.gamma
    excess = split([-gamma, ZERO, 1 - gamma, ONE], shares, nats)
    costs[f"total_per_example_{step}"] = nats
    c.terms_are(**costs, **{f"excess_{step}": excess})
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
    c.terms_are(epsilon_bar=bar)
    return bar, (ONE / c.n).sqrt()


SUMMED = {"free_energy", "log_partition_lower_nats"}
"""The cost that is a sum of ln Z, τa and τb, and the input that says so."""


class Gibbs:
    """A Gibbs posterior at the inverse temperature τ whose mean loss x lies between a and b ("Conventions").

    Attributes:
        cap: KL(Q‖P) ≤ min{-ln Z - τa, τΔ, (τΔ)²/8} ("Divergence of a Gibbs posterior").
        floor: what doubles make of a sum of ln Z, τa and τb, which may be large where it is small.
        room: by how much a certificate may lie above what is recomputed.
        most: the largest x that there may be, -v/τ or b, where v ≤ ln Z.
    """

    def __init__(self, c: Claim) -> None:
        self.c = c
        self.nats = -c.log_partition_lower_nats
        sizes = abs(self.nats) + c.tau * (
            abs(c.loss_low) + abs(c.loss_high)
        )
        self.floor = 1e-12 + 2.0**-46 * float(sizes)
        self.room = ball(1e-9 + self.floor)
        spread = c.tau * (c.loss_high - c.loss_low)
        self.cap = free_energy(c).min(spread**2 / 8)
        most = self.nats / c.tau
        self.most = most.max(c.loss_low).min(c.loss_high)

    def at(self, x: arb) -> tuple[arb, arb]:
        """u(x) = min{1, (x - a)/(e - a)} and c(x) = max{0, -v - τx}, capped."""
        c = self.c
        risk = (x - c.loss_low) / (c.error_loss - c.loss_low)
        kl = (self.nats - c.tau * x).max(ZERO)
        return risk.min(ONE), kl.min(self.cap)

    def margin(self, value: arb) -> arb:
        """n kl(u(x)‖value) - c(x) - T at the x where it is least, for it is convex; below 0 where a risk is above."""
        c = self.c
        if self.at(self.most)[0] > value:
            return arb(-1)
        first = (self.nats - self.cap) / c.tau  # the cap ends there
        scale = c.error_loss - c.loss_low
        odds = (value / (1 - value)).log() - c.tau * scale / c.n
        flat = c.loss_low + scale / (1 + (-odds).exp())
        x = flat.max(first).max(c.loss_low).min(self.most)
        risk, kl = self.at(x)
        return c.n * binary_kl(risk, value) - kl - c.nats


def gibbs_pac_bayes(c: Claim) -> arb:
    """max {kl⁻¹(u(x), (c(x) + T)/n) : a ≤ x ≤ min{b, -v/τ}} ("Certificates without draws of the posterior")."""
    law = Gibbs(c)
    value = zero_of(law.margin, 0, 1)
    worst = c.term("worst_mean_loss")
    risk, kl = law.at(worst)
    c.terms_are(law.floor, kl_cap_nats=law.cap, worst_kl_nats=kl)
    attained = kl_upper(risk, (kl + c.nats) / c.n)
    there = c.loss_low <= worst <= law.most + ball(1e-9)
    require(
        there and abs(attained - value) < ball(1e-6),
        f"terms.worst_mean_loss is {float(worst)!r}, which is not the worst one",
    )
    said = exactly(c.record.value)
    return said if value <= said <= value + law.room else value


def free_energy(c: Claim) -> arb:
    """-ln Z - τa, at most τ(b - a) ("Divergence of a Gibbs posterior")."""
    tau = c.tau
    low = c.loss_low
    spread = tau * (c.loss_high - low)
    if "log_partition_lower_nats" not in c.inputs:
        return spread
    nats = -c.log_partition_lower_nats - tau * low
    return nats.max(ZERO).min(spread)


def gibbs_catoni(c: Claim) -> arb:
    """[1 - exp(-(-v - τa + Λ)/n)]/(1 - e^(-C/n)), C = τ(b - a) ("Certificates without draws of the posterior")."""
    spread = c.tau * (c.loss_high - c.loss_low)
    c.terms_are(inverse_temperature=spread)
    return (-c.nats / c.n).expm1() / (-spread / c.n).expm1()


def auc(c: Claim) -> arb:
    """kl(U‖p) = ln(1/δ)/m, m the records of the smaller class, U the share of pairs ("Area under the curve")."""
    return kl_upper(c.risk, -c.failure_prob.log() / c.n)


def clopper_pearson(c: Claim) -> arb:
    """Clopper and Pearson: p ≤ sup{p : P(Bin(n, p) ≤ k) ≥ δ} ("Averages of independent draws")."""
    exact = _counted(c, c.failure_prob)
    if c.failure_prob > LEAST_TAIL:
        return exact
    most = kl_upper(c.k / c.n, -c.failure_prob.log() / c.n)
    said = exactly(c.record.value)
    return (
        said if exact <= said <= most * (1 + ball(1e-9)) else exact
    )


def _counted(c: Claim, failure_prob: arb) -> arb:
    return binomial_upper(c.whole("k", c.n), c.n, failure_prob)


def one_of_finitely_many(c: Claim) -> arb:
    """R(j) ≤ the Clopper-Pearson limit of k_j at δ/K, for all K networks at once ("Finitely many networks")."""
    networks = c.whole("networks")
    require(networks, "networks is 0")
    about("inputs.tail", c.inputs.tail, c.failure_prob / networks)
    return _counted(c, c.tail)


def disagreement(c: Claim) -> arb:
    """R(f) ≤ R(h) + P(f ≠ h), the second by Clopper and Pearson's bound ("Untouched networks")."""
    other = exactly(parsed(c.inputs.surrogate).value)
    apart = _counted(c, c.failure_prob)
    c.terms_are(surrogate_risk=other, disagreement=apart)
    return other + apart


def largest_gap(c: Claim) -> arb:
    """max over g ≠ h of |p_g - p_h| ≤ max over g ≠ h of (u_g - l_h) ("The largest gap between groups")."""
    uppers = c.listed("uppers")
    lowers = c.listed("lowers")
    require(
        len(uppers) == len(lowers) > 1,
        "its groups have no two ends each",
    )
    gaps = [
        high - low
        for g, high in enumerate(uppers)
        for h, low in enumerate(lowers)
        if g != h
    ]
    return largest(gaps).max(ZERO)
