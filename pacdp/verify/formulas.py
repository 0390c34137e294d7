"""Every bound as one line: which costs it has, and what its value is at their sum (docs/guarantees.md).

c is the claim, c["x"] its input x, c.share the sum of its costs over n, c.n the number of independent records.
"""

from collections.abc import Callable
from typing import NamedTuple

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import (
    ball,
    binary_kl,
    binomial_lower,
    binomial_upper,
    kl_upper,
    log_two_sqrt,
    log_xi,
    zero_of,
)
from pacdp.verify.claim import Claim, Unchecked, Wrong, about, agree, number

ETAS = [0.5 * 0.8**k for k in range(20)]
"""The grid of the un-expected Bernstein inequality, paid for with ln 20."""


def _quadratic(c: Claim) -> arb:
    return c["risk"] + c.share + (c.share * (c.share + 2 * c["risk"])).sqrt()


def _thiemann(c: Claim) -> arb:
    if "lam" in c.inputs:
        return (c["risk"] + c.share / c["lam"]) / (1 - c["lam"] / 2)
    about("terms.lam", c.terms["lam"], 2 / ((2 * c["risk"] / c.share + 1).sqrt() + 1))
    return _quadratic(c)


def _catoni(c: Claim, temperature: arb) -> arb:
    value = -(-(temperature * c["risk"] + c.nats) / c.n).expm1() / -(-temperature / c.n).expm1()
    return value.max(c["risk"])


def _catoni_grid(c: Claim) -> arb:
    values = [_catoni(c, temperature) for temperature in c.listed("inverse_temperatures")]
    chosen = ball(number(c.terms["inverse_temperature"]))
    if not any(chosen == one for one in c.listed("inverse_temperatures")):
        raise Wrong(f"terms.inverse_temperature is {c.terms['inverse_temperature']!r}, which is not of the grid")
    return min(values, key=lambda value: float(value.mid()))


def _bernstein(c: Claim, mean: arb, square: arb) -> arb:
    if c.terms["eta"] not in ETAS:
        raise Wrong(f"terms.eta is {c.terms['eta']!r}, which is not of the grid")
    eta = ball(c.terms["eta"])
    return mean + (-eta - (1 - eta).log()) / eta * square + c.share / eta


def _best_bernstein(c: Claim, mean: arb, square: arb) -> arb:
    found = [mean + (-eta - (1 - eta).log()) / eta * square + c.share / eta for eta in map(ball, ETAS)]
    return min(found, key=lambda value: float(value.mid()))


def _split(c: Claim, levels: list[arb], shares: list[arb], per_example: arb) -> arb:
    steps = [high - low for low, high in zip(levels, levels[1:], strict=False)]
    if len(steps) != len(shares):
        raise Wrong(f"{len(steps)} steps between levels and {len(shares)} shares")
    return levels[0] + sum((s * kl_upper(q, per_example) for s, q in zip(steps, shares, strict=True)), arb(0))


def _numbered(c: Claim, stem: str, first: int) -> list[arb]:
    found = [name for name in c.inputs if name.startswith(stem) and name[len(stem) :].isdigit()]
    return [c[f"{stem}{j}"] for j in range(first, first + len(found))]


def _split_kl(c: Claim) -> arb:
    levels, shares = _numbered(c, "level_", 0), _numbered(c, "share_", 1)
    mean = levels[0] + sum(((b - a) * q for a, b, q in zip(levels, levels[1:], shares, strict=False)), arb(0))
    agree("terms.empirical_risk", c.terms["empirical_risk"], mean.min(arb(1)))
    return _split(c, levels, shares, c.share)


def _recursive(c: Claim) -> arb:
    bound, gamma, steps = kl_upper(c["risk"], c.share), c["gamma"], sum(name.startswith("n_") for name in c.inputs)
    agree("terms.bound_1", c.terms["bound_1"], bound)
    earlier = c.n
    for t in range(2, steps + 2):
        size, said = c.raw(f"n_{t}"), {name: number(value) for name, value in c.terms.items()}
        if not size < earlier:
            raise Wrong(f"n_{t} is {size}, of {earlier} records")
        earlier = size
        own = {"kl": c[f"kl_nats_{t}"], "log_xi": log_xi(size), "levels": arb(3).log()}
        price = next(name for name in ("confidence", "transfer") if name in c.costs)
        c.price(f"terms.{price}_nats_{t}", said[f"{price}_nats_{t}"], size, f"_{t}")
        for name, nats in own.items():
            agree(f"terms.{name}_nats_{t}", said[f"{name}_nats_{t}"], nats)
        share = sum((ball(said[f"{name}_nats_{t}"]) for name in (*own, price)), arb(0)) / size
        agree(f"terms.total_per_example_{t}", said[f"total_per_example_{t}"], share)
        excess = _split(c, [-gamma, arb(0), 1 - gamma, arb(1)], [c[f"share_{t}_{j}"] for j in (1, 2, 3)], share)
        agree(f"terms.excess_{t}", said[f"excess_{t}"], excess)
        bound = (excess + gamma * bound).max(arb(0)).min(arb(1))
        agree(f"terms.bound_{t}", said[f"bound_{t}"], bound)
    return bound


def _gibbs(c: Claim) -> arb:
    """The V at which n kl(u(x)‖V) = KL(x) + costs for the worst x; for given V the difference is convex in x."""
    tau, low, high, v = c["tau"], c["loss_low"], c["loss_high"], c["log_partition_lower_nats"]
    scale, spread = c["error_loss"] - low, tau * (high - low)
    cap = (-v - tau * low).max(arb(0)).min(spread).min(spread**2 / 8)
    about("terms.kl_cap_nats", c.terms["kl_cap_nats"], cap)
    worst = ball(number(c.terms["worst_mean_loss"]))
    about("terms.worst_kl_nats", c.terms["worst_kl_nats"], (-v - tau * worst).max(arb(0)).min(cap))
    top = (-v / tau).max(low).min(high)
    first = ((-v - cap) / tau).max(low).min(top)  # below it the divergence is at its cap, and larger x are worse

    def margin(value: arb) -> arb:
        if ((top - low) / scale).min(arb(1)) > value:
            return arb(-1)
        odds = (value / (1 - value)).log() - tau * scale / c.n
        x = (low + scale / (1 + (-odds).exp())).max(first).min(top)
        return c.n * binary_kl((x - low) / scale, value) - (-v - tau * x).max(arb(0)).min(cap) - c.nats

    value = zero_of(margin, 0, 1)
    at_worst = kl_upper(((worst - low) / scale).min(arb(1)), ((-v - tau * worst).max(arb(0)).min(cap) + c.nats) / c.n)
    if not (low <= worst <= top + ball(1e-9) and abs(at_worst - value) < ball(1e-6)):
        raise Wrong(f"terms.worst_mean_loss is {float(worst)!r}, which is not the worst one")
    return value


def _gibbs_catoni(c: Claim) -> arb:
    spread = c["tau"] * (c["loss_high"] - c["loss_low"])
    about("terms.inverse_temperature", c.terms["inverse_temperature"], spread)
    return -(-c.nats / c.n).expm1() / -(-spread / c.n).expm1()


def _free_energy(c: Claim) -> arb:
    spread = c["tau"] * (c["loss_high"] - c["loss_low"])
    if "log_partition_lower_nats" not in c.inputs:
        return spread
    return (-c["log_partition_lower_nats"] - c["tau"] * c["loss_low"]).max(arb(0)).min(spread)


def _bar(c: Claim) -> arb:
    bar = c["epsilon"].max(((3 / c["failure_prob"]).log() / c.n).sqrt())
    agree("terms.epsilon_bar", c.terms["epsilon_bar"], bar)
    return bar


def _chernoff_2018(c: Claim) -> arb:
    bar, one = _bar(c), 1 / arb(c.n)
    return c["risk"] + (6 * c["risk"]).sqrt() * (bar + one.sqrt()) + 6 * (bar**2 + one)


def _bins(c: Claim, kind: str) -> arb:
    """The largest bound on a bin's gap, among those with enough examples."""
    whole = {name: c.listed(name) for name in ("lows", "highs", "counts", "corrects", "mean_confidences")}
    bins = list(zip(*whole.values(), strict=True))
    kept = [one for one in bins if one[2] >= c.raw("min_count")]
    about("terms.bins", c.terms["bins"], arb(len(bins)))
    about("terms.bins_certified", c.terms["bins_certified"], arb(len(kept)))
    counted = sum((one[2] for one in bins), arb(0)).max(arb(1))
    about("terms.share_certified", c.terms["share_certified"], sum((one[2] for one in kept), arb(0)) / counted)
    gaps, seen, delta = [arb(0)], [arb(0)], c["failure_prob"] / max(1, len(kept))
    for place, (low, high, n, right, mean) in enumerate(bins):
        bound, gap = arb(1), (abs(right / n - mean) if n > 0 else arb(0))
        if n >= c.raw("min_count"):
            seen.append(gap)
            if kind == "hoeffding":
                bound = gap + (1 + high - low) * (-delta.log() / (2 * n)).sqrt()
            else:
                reach = (high - low) * (-(delta / 2).log() / (2 * n)).sqrt()
                k, m = int(float(right)), int(float(n))
                above = binomial_upper(k, m, delta / 2) - (mean - reach).max(low)
                bound = above.max((mean + reach).min(high) - binomial_lower(k, m, delta / 2))
            gaps.append(bound.min(arb(1)))
        agree(f"terms.gap_{place}", c.terms[f"gap_{place}"], bound.min(arb(1)))
    about("terms.largest_empirical_gap", c.terms["largest_empirical_gap"], max(seen, key=float))
    return max(gaps, key=float) if len(gaps) > 1 else arb(1)


def _counted(c: Claim, delta: arb) -> arb:
    errors, n = c.raw("k"), c.n
    if not isinstance(errors, int) or not 0 <= errors <= n:
        raise Wrong(f"k is {errors!r}, of {n}")
    return binomial_upper(errors, n, delta)


def _one_of_many(c: Claim) -> arb:
    share = c["failure_prob"] / c["networks"]
    if abs(c["tail"] / share - 1) > 1e-9:
        if 0 < c["tail"] < c["failure_prob"]:
            raise Unchecked("the weights of the networks are not in the file, and they are not equal")
        raise Wrong(f"inputs.tail is {c.raw('tail')!r}, of {c.raw('failure_prob')!r}")
    return _counted(c, c["tail"])


def sampled(c: Claim, prefix: str = "") -> arb:
    """kl⁻¹(mean, ln(1/δ)/draws): the empirical risk of a randomised predictor, from draws."""
    mean, draws = c[f"{prefix}mean"], ball(number(c.terms["monte_carlo_draws"]))
    for name in (f"{prefix}{kind}" for kind in ("draws", "terms", "kept_steps")):
        if name in c.inputs and (draws != c[name] if name.endswith("draws") else not 1 <= draws <= c[name] + 1e-6):
            raise Wrong(f"terms.monte_carlo_draws is {float(draws)!r} and inputs.{name} {c.raw(name)!r}")
    nats = -c[f"{prefix}failure_prob"].log()
    about("terms.monte_carlo_mean", c.terms["monte_carlo_mean"], mean)
    agree("terms.monte_carlo_confidence_nats", c.terms["monte_carlo_confidence_nats"], nats)
    agree("terms.monte_carlo_nats_per_draw", c.terms["monte_carlo_nats_per_draw"], nats / draws)
    return kl_upper(mean, nats / draws)


def _new_example(c: Claim) -> arb:
    """The largest r that K [kl(risk‖r) - kl(risk‖q)] ≥ Λ does not refute, where q < r and n kl(q‖r) = Λ."""
    q_of, k, each = c["risk"], c["examples"] / c["most_examples"], c.nats / c.n

    def margin(q: arb) -> arb:
        r = kl_upper(q, each)
        if r >= 1:
            return arb(1)
        gain = (1 - q_of) * ((1 - q) / (1 - r)).log()
        return k * (gain + (q_of * (q / r).log() if q_of > 0 else arb(0))) - c.nats

    if q_of == 0 and not margin(arb(0)) < 0:
        return kl_upper(arb(0), each)
    return kl_upper(zero_of(margin, 0, 1), each)


def _unseen(c: Claim) -> arb:
    raise Unchecked("the losses of the people are not in the file")


class Formula(NamedTuple):
    """A bound: the names of its costs beside the price, and its value."""

    costs: tuple[str, ...]
    value: Callable[[Claim], arb]


def _kl(c: Claim) -> arb:
    return kl_upper(c["risk"], c.share)


COSTS: dict[str, Callable[[Claim], arb]] = {
    "kl": lambda c: c["kl_nats"], "renyi": lambda c: c["renyi_nats"], "log_xi": lambda c: log_xi(c.n),
    "log_density_ratio": lambda c: c["log_density_ratio"], "log_two_sqrt_n": lambda c: log_two_sqrt(c.n),
    "grid": lambda c: arb(len(c.listed("inverse_temperatures")) if "inverse_temperatures" in c.inputs else 20).log(),
    "union": lambda c: arb(2).log(),
    "levels": lambda c: arb(len(_numbered(c, "share_", 1))).log(), "free_energy": _free_energy,
    "draw": lambda c: -c.paid("draw").log(),
    "order": lambda c: -c.paid("order").log() if "order" in c.budget else (8 / c["failure_prob"] ** 2).log(),
}  # fmt: skip
"""What each cost is, in nats; the price of the prior, "confidence" or "transfer", is in prices.py."""

_GAPS = ("calibration_error", "mean_squared_gap")
PRICED: dict[str, Formula] = {
    "maurer": Formula(("kl", "log_xi"), _kl),
    "langford_seeger": Formula(("kl", "log_two_sqrt_n"), _kl),
    "mcallester": Formula(("kl", "log_xi"), lambda c: c["risk"] + (c.share / 2).sqrt()),
    "quadratic": Formula(("kl", "log_xi"), _quadratic),
    "tolstikhin_seldin": Formula(
        ("kl", "log_xi"), lambda c: c["risk"] + (2 * c["risk"] * c.share).sqrt() + 2 * c.share
    ),
    "thiemann": Formula(("kl", "log_xi"), _thiemann),
    "catoni": Formula(("kl",), lambda c: _catoni(c, c["inverse_temperature"])),
    "catoni_grid": Formula(("kl", "grid"), _catoni_grid),
    "linear": Formula(("kl",), lambda c: (c["risk"] + c["lam"] * c.share) / (1 - 1 / (2 * c["lam"]))),
    "unexpected_bernstein": Formula(("kl", "grid"), lambda c: _bernstein(c, c["risk"], c["second_moment"])),
    "split_kl": Formula(("kl", "log_xi", "levels"), _split_kl),
    "recursive": Formula(("kl", "log_xi"), _recursive),
    "disintegrated": Formula(("log_density_ratio", "log_xi", "draw"), _kl),
    "disintegrated_renyi": Formula(("renyi", "order", "log_xi", "draw"), _kl),
    "gibbs_pac_bayes": Formula(("log_xi",), _gibbs),
    "gibbs_catoni": Formula(("free_energy",), _gibbs_catoni),
    "kl_chernoff": Formula((), _kl),
    "chernoff": Formula((), _quadratic),
    "hoeffding": Formula((), lambda c: c["risk"] + (c.share / 2).sqrt()),
    "ece_pac_bayes": Formula(("kl", "grid"), lambda c: _bernstein(c, *(c[name] for name in _GAPS))),
    "new_example_pac_bayes": Formula(("kl", "log_xi"), lambda c: kl_upper(c["risk"], c.nats / c.size)),
    "new_example_kl": Formula((), _new_example),
    "new_person_kl": Formula((), _kl),
    "new_person_hoeffding": Formula((), lambda c: c["risk"] + (c.share / 2).sqrt()),
    "new_person_second_moment": Formula(("grid",), lambda c: _best_bernstein(c, c["risk"], c.term("second_moment"))),
    "new_person_bernstein": Formula(("union",), _unseen),
    "new_person_betting": Formula((), _unseen),
    "new_example_betting": Formula((), _unseen),
    "ece_hoeffding": Formula((), lambda c: c["calibration_error"] + (2 * c.share).sqrt()),
    "ece_second_moment": Formula(("grid",), lambda c: _bernstein(c, *(c[name] for name in _GAPS))),
}
"""Bounds at a price: a name is a price's prefix (none for an independent prior) and one of these."""

PLAIN: dict[str, Callable[[Claim], arb]] = {
    "dp_hoeffding_2018": lambda c: c["risk"] + _bar(c) + 1 / arb(c.n).sqrt(),
    "dp_chernoff_2018": _chernoff_2018,
    "mce_hoeffding": lambda c: _bins(c, "hoeffding"),
    "mce_clopper_pearson": lambda c: _bins(c, "clopper_pearson"),
    "clopper_pearson": lambda c: _counted(c, c["failure_prob"]),
    "new_person_clopper_pearson": lambda c: binomial_upper(round(float(c["risk"] * c.n)), c.n, c["failure_prob"]),
    "one_of_finitely_many": _one_of_many,
    "gibbs_risk_upper": sampled,
    "weighted_risk_upper": sampled,
    "correlated_risk_upper": sampled,
}
"""Bounds without costs in nats."""
