"""Every bound as one line: which costs it has, and what its value is at their sum (docs/guarantees.md).

c is the claim, c["x"] its input x, c.share the sum of its costs over n, c.n the number of independent records.
"""

from collections.abc import Callable, Iterable

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify import arithmetic as num
from pacdp.verify.arithmetic import ball, kl_upper
from pacdp.verify.claim import Claim, Unchecked, Wrong, about, agree, number, parsed
from pacdp.verify.formulas_compression import compressed

ETAS = [0.5 * 0.8**k for k in range(20)]
"""The grid of the un-expected Bernstein inequality, paid for with ln 20."""
_NONE, _ONE = arb(0), arb(1)


def _kl(c: Claim) -> arb:
    return kl_upper(c["risk"], c.share)


def _quadratic(c: Claim) -> arb:
    return c["risk"] + c.share + (c.share * (c.share + 2 * c["risk"])).sqrt()


def _hoeffding(c: Claim) -> arb:
    return c["risk"] + (c.share / 2).sqrt()


def _thiemann(c: Claim) -> arb:
    if "lam" in c.inputs:
        return (c["risk"] + c.share / c["lam"]) / (1 - c["lam"] / 2)
    about("terms.lam", c.terms["lam"], 2 / ((2 * c["risk"] / c.share + 1).sqrt() + 1))
    return _quadratic(c)


def _catoni(c: Claim, temperature: arb) -> arb:
    return ((-(temperature * c["risk"] + c.nats) / c.n).expm1() / (-temperature / c.n).expm1()).max(c["risk"])


def _catoni_grid(c: Claim) -> arb:
    grid = c.listed("inverse_temperatures")
    if not any(c.term("inverse_temperature") == one for one in grid):
        raise Wrong(f"terms.inverse_temperature is {c.terms['inverse_temperature']!r}, which is not of the grid")
    return _least(_catoni(c, temperature) for temperature in grid)


def _least(values: Iterable[arb]) -> arb:
    return min(values, key=lambda value: float(value.mid()))


def _bernstein(c: Claim, mean: arb, square: arb) -> arb:
    if "eta" in c.terms and c.terms["eta"] not in ETAS:
        raise Wrong(f"terms.eta is {c.terms['eta']!r}, which is not of the grid")
    etas = [c.term("eta")] if "eta" in c.terms else map(ball, ETAS)
    return _least(mean + (-eta - (1 - eta).log()) / eta * square + c.share / eta for eta in etas)


def _gaps(c: Claim) -> arb:
    return _bernstein(c, c["calibration_error"], c["mean_squared_gap"])


def _split(levels: list[arb], shares: list[arb], per_example: arb) -> arb:
    parts = zip(levels[:-1], levels[1:], shares, strict=True)
    return levels[0] + sum(((high - low) * kl_upper(share, per_example) for low, high, share in parts), _NONE)


def _split_kl(c: Claim) -> arb:
    levels, shares = c.numbered("level_", 0), c.numbered("share_", 1)
    mean = levels[0] + sum(((b - a) * q for a, b, q in zip(levels[:-1], levels[1:], shares, strict=True)), _NONE)
    agree("terms.empirical_risk", c.terms["empirical_risk"], mean.min(_ONE))
    return _split(levels, shares, c.share)


def _recursive(c: Claim) -> arb:
    bound, gamma, earlier, price = _kl(c), c["gamma"], c.n, "transfer" if "transfer" in c.costs else "confidence"
    agree("terms.bound_1", c.terms["bound_1"], bound)
    for t in range(2, 2 + len(c.numbered("n_", 2))):
        size = c.raw(f"n_{t}")
        if not size < earlier:
            raise Wrong(f"n_{t} is {size}, of {earlier} records")
        earlier, own = size, {"kl": c[f"kl_nats_{t}"], "log_xi": num.log_xi(size), "levels": arb(3).log()}
        for name, nats in own.items():
            agree(f"terms.{name}_nats_{t}", c.terms[f"{name}_nats_{t}"], nats)
        c.price(f"terms.{price}_nats_{t}", c.terms[f"{price}_nats_{t}"], size, f"_{t}")
        share = sum((c.term(f"{name}_nats_{t}") for name in (*own, price)), _NONE) / size
        excess = _split([-gamma, _NONE, 1 - gamma, _ONE], [c[f"share_{t}_{j}"] for j in (1, 2, 3)], share)
        bound = (excess + gamma * bound).max(_NONE).min(_ONE)
        for name, exact in (("total_per_example", share), ("excess", excess), ("bound", bound)):
            agree(f"terms.{name}_{t}", c.terms[f"{name}_{t}"], exact)
    return bound


def _gibbs(c: Claim) -> arb:
    """The V at which n kl(u(x)‖V) = KL(x) + costs for the worst x; for given V the difference is convex in x."""
    tau, low, high, v = c["tau"], c["loss_low"], c["loss_high"], c["log_partition_lower_nats"]
    scale, spread = c["error_loss"] - low, tau * (high - low)
    cap = (-v - tau * low).max(_NONE).min(spread).min(spread**2 / 8)
    top = (-v / tau).max(low).min(high)
    first = ((-v - cap) / tau).max(low).min(top)  # below it the divergence is at its cap, and larger x are worse

    def at(x: arb) -> tuple[arb, arb]:
        return ((x - low) / scale).min(_ONE), (-v - tau * x).max(_NONE).min(cap)

    def margin(value: arb) -> arb:
        if at(top)[0] > value:
            return arb(-1)
        odds = (value / (1 - value)).log() - tau * scale / c.n
        risk, kl = at((low + scale / (1 + (-odds).exp())).max(first).min(top))
        return c.n * num.binary_kl(risk, value) - kl - c.nats

    value, worst = num.zero_of(margin, 0, 1), c.term("worst_mean_loss")
    risk, kl = at(worst)
    about("terms.kl_cap_nats", c.terms["kl_cap_nats"], cap)
    about("terms.worst_kl_nats", c.terms["worst_kl_nats"], kl)
    if not (low <= worst <= top + ball(1e-9) and abs(kl_upper(risk, (kl + c.nats) / c.n) - value) < ball(1e-6)):
        raise Wrong(f"terms.worst_mean_loss is {c.terms['worst_mean_loss']!r}, which is not the worst one")
    return value


def _gibbs_catoni(c: Claim) -> arb:
    spread = c["tau"] * (c["loss_high"] - c["loss_low"])
    about("terms.inverse_temperature", c.terms["inverse_temperature"], spread)
    return (-c.nats / c.n).expm1() / (-spread / c.n).expm1()


def _free_energy(c: Claim) -> arb:
    spread, v = c["tau"] * (c["loss_high"] - c["loss_low"]), "log_partition_lower_nats"
    return (-c[v] - c["tau"] * c["loss_low"]).max(_NONE).min(spread) if v in c.inputs else spread


def _printed(c: Claim, slope: arb, square: int) -> arb:
    """risk + slope (ε̄ + n^(-1/2)) + square (ε̄² + 1/n)."""
    bar, one = c["epsilon"].max(((3 / c["failure_prob"]).log() / c.n).sqrt()), _ONE / c.n
    agree("terms.epsilon_bar", c.terms["epsilon_bar"], bar)
    return c["risk"] + slope * (bar + one.sqrt()) + square * (bar**2 + one)


def _bins(c: Claim, kind: str) -> arb:
    """The largest bound on a bin's gap, among those with enough examples."""
    columns = [c.listed(name) for name in ("lows", "highs", "counts", "corrects", "mean_confidences")]
    bins, least = list(zip(*columns, strict=True)), c.raw("min_count")
    kept, whole = [one for one in bins if one[2] >= least], sum(columns[2], _NONE).max(_ONE)
    gaps, bounds, delta = [_NONE], list[arb](), c["failure_prob"] / max(1, len(kept))
    for place, (low, high, n, right, mean) in enumerate(bins):
        bound = _ONE
        if n >= least:
            gaps.append(abs(right / n - mean))
            if kind == "hoeffding":
                bound = gaps[-1] + (1 + high - low) * (-delta.log() / (2 * n)).sqrt()
            else:
                reach = (high - low) * (-(delta / 2).log() / (2 * n)).sqrt()
                k, m = (int(float(one)) for one in (right, n))
                above = num.binomial_upper(k, m, delta / 2) - (mean - reach).max(low)
                bound = above.max((mean + reach).min(high) - num.binomial_lower(k, m, delta / 2))
            bounds.append(bound.min(_ONE))
        agree(f"terms.gap_{place}", c.terms[f"gap_{place}"], bound.min(_ONE))
    counted = {"bins": len(bins), "bins_certified": len(kept), "largest_empirical_gap": max(gaps, key=float),
               "share_certified": sum((one[2] for one in kept), _NONE) / whole}  # fmt: skip
    for name, exact in counted.items():
        about(f"terms.{name}", c.terms[name], arb(exact))
    return max(bounds, key=float) if bounds else _ONE


def _counted(c: Claim, delta: arb) -> arb:
    if not (isinstance(c.raw("k"), int) and 0 <= c.raw("k") <= c.n):
        raise Wrong(f"k is {c.raw('k')!r}, of {c.n}")
    return num.binomial_upper(c.raw("k"), c.n, delta)


def _beside_another(c: Claim) -> arb:
    """The risk of another network, as its certificate has it, and how often the two differ."""
    other, apart = ball(number(parsed(c.raw("surrogate"))["value"])), _counted(c, c["failure_prob"])
    agree("terms.surrogate_risk", c.terms["surrogate_risk"], other)
    agree("terms.disagreement", c.terms["disagreement"], apart)
    return other + ball(number(c.terms["disagreement"]))


def _one_of_many(c: Claim) -> arb:
    weight = 1 / c["networks"]
    if "weights" in c.inputs:
        weights = c.listed("weights")
        about("the sum of the weights", 1, sum(weights, _NONE))
        if len(weights) != c.raw("networks") or any(one < 0 for one in weights):
            raise Wrong(f"the weights are {c.inputs['weights']}, of {c.raw('networks')} networks")
        weight = weights[c.raw("chosen_network")]
    about("inputs.tail", c.raw("tail"), c["failure_prob"] * weight)
    return _counted(c, c["tail"])


def sampled(c: Claim, prefix: str = "") -> arb:
    """kl⁻¹(mean, ln(1/δ)/draws): the empirical risk of a randomised predictor, from draws."""
    mean, nats, draws = c[f"{prefix}mean"], -c[f"{prefix}failure_prob"].log(), c.term("monte_carlo_draws")
    for name in (f"{prefix}{kind}" for kind in ("draws", "terms", "kept_steps") if f"{prefix}{kind}" in c.inputs):
        if not (draws == c[name] if name.endswith("draws") else 1 <= draws <= c[name] + 1e-6):
            raise Wrong(f"terms.monte_carlo_draws is {float(draws)!r} and inputs.{name} {c.raw(name)!r}")
    about("terms.monte_carlo_mean", c.terms["monte_carlo_mean"], mean)
    agree("terms.monte_carlo_confidence_nats", c.terms["monte_carlo_confidence_nats"], nats)
    agree("terms.monte_carlo_nats_per_draw", c.terms["monte_carlo_nats_per_draw"], nats / draws)
    return kl_upper(mean, nats / draws)


def _new_example(c: Claim) -> arb:
    """The largest r that K [kl(risk‖r) - kl(risk‖q)] ≥ Λ does not refute, where q < r and n kl(q‖r) = Λ."""
    risk, k, each = c["risk"], c["examples"] / c["most_examples"], c.share

    def margin(q: arb) -> arb:
        r = kl_upper(q, each)
        if not r < 1:
            return _ONE
        return k * ((1 - risk) * ((1 - q) / (1 - r)).log() + (risk * (q / r).log() if risk > 0 else _NONE)) - c.nats

    return kl_upper(_NONE if risk == 0 and not margin(_NONE) < 0 else num.zero_of(margin, 0, 1), each)


def _unseen(c: Claim) -> arb:
    """Bounds by the losses themselves: they are never below the mean, and the rest is not in the file."""
    mean = c["risk"] if "risk" in c.inputs else c.term("empirical_risk")
    if not ball(number(c.record["value"])) >= mean:
        raise Wrong(f"the value is {c.record['value']!r}, below the mean {float(mean):.12g} of what was seen")
    whose = "the people" if c.name.startswith("new_person") or "new_person" in c.name else "the examples"
    raise Unchecked(f"the losses of {whose} are not in the file")


def _largest_gap(c: Claim) -> arb:
    """The largest difference between an upper end of one group and a lower end of another."""
    uppers, lowers = c.listed("uppers"), c.listed("lowers")
    pairs = [(a, b) for a in range(len(uppers)) for b in range(len(lowers)) if a != b]
    if len(uppers) != len(lowers) or not pairs:
        raise Wrong(f"there are {len(uppers)} upper and {len(lowers)} lower ends of groups")
    return max((uppers[a] - lowers[b] for a, b in pairs), key=lambda gap: float(gap.mid())).max(_NONE)


COSTS: dict[str, Callable[[Claim], arb]] = {
    "kl": lambda c: c["kl_nats"],
    "renyi": lambda c: c["renyi_nats"],
    "log_density_ratio": lambda c: c["log_density_ratio"],
    "log_xi": lambda c: num.log_xi(c.n),
    "log_two_sqrt_n": lambda c: num.log_two_sqrt(c.n),
    "grid": lambda c: arb(len(c.listed("inverse_temperatures")) if "inverse_temperatures" in c.inputs else 20).log(),
    "levels": lambda c: arb(len(c.numbered("share_", 1))).log(),
    "union": lambda c: arb(2).log(),
    "free_energy": _free_energy,
    "draw": lambda c: -c.term("draw_prob").log() * (2 if "renyi_nats" in c.inputs else 1),
}
"""What each cost is, in nats; the price of the prior, "confidence" or "transfer", is in prices.py."""

PRICED: dict[str, tuple[tuple[str, ...], Callable[[Claim], arb]]] = {
    "maurer": (("kl", "log_xi"), _kl),
    "langford_seeger": (("kl", "log_two_sqrt_n"), _kl),
    "mcallester": (("kl", "log_xi"), _hoeffding),
    "quadratic": (("kl", "log_xi"), _quadratic),
    "tolstikhin_seldin": (("kl", "log_xi"), lambda c: c["risk"] + (2 * c["risk"] * c.share).sqrt() + 2 * c.share),
    "thiemann": (("kl", "log_xi"), _thiemann),
    "catoni": (("kl",), lambda c: _catoni(c, c["inverse_temperature"])),
    "catoni_grid": (("kl", "grid"), _catoni_grid),
    "linear": (("kl",), lambda c: (c["risk"] + c["lam"] * c.share) / (1 - 1 / (2 * c["lam"]))),
    "unexpected_bernstein": (("kl", "grid"), lambda c: _bernstein(c, c["risk"], c["second_moment"])),
    "split_kl": (("kl", "log_xi", "levels"), _split_kl),
    "recursive": (("kl", "log_xi"), _recursive),
    "disintegrated": (("log_density_ratio", "log_xi"), _kl),
    "disintegrated_renyi": (("renyi", "log_xi"), _kl),
    "gibbs_pac_bayes": (("log_xi",), _gibbs),
    "gibbs_catoni": (("free_energy",), _gibbs_catoni),
    "kl_chernoff": ((), _kl),
    "chernoff": ((), _quadratic),
    "hoeffding": ((), _hoeffding),
    "ece_pac_bayes": (("kl", "grid"), _gaps),
    "ece_hoeffding": ((), lambda c: c["calibration_error"] + (2 * c.share).sqrt()),
    "ece_second_moment": (("grid",), _gaps),
    "new_example_pac_bayes": (("kl", "log_xi"), lambda c: kl_upper(c["risk"], c.nats / c.size)),
    "new_example_kl": ((), _new_example),
    "new_person_kl": ((), _kl),
    "new_person_hoeffding": ((), _hoeffding),
    "new_person_second_moment": (("grid",), lambda c: _bernstein(c, c["risk"], c.term("second_moment"))),
    "new_person_bernstein": (("union",), _unseen),
    "new_person_betting": ((), _unseen),
    "new_example_betting": ((), _unseen),
}
"""Bounds at a price, by their names without its prefix: the names of their own costs, and their value."""

PLAIN: dict[str, Callable[[Claim], arb]] = {
    "dp_hoeffding_2018": lambda c: _printed(c, _ONE, 0),
    "dp_chernoff_2018": lambda c: _printed(c, (6 * c["risk"]).sqrt(), 6),
    "mce_hoeffding": lambda c: _bins(c, "hoeffding"),
    "mce_clopper_pearson": lambda c: _bins(c, "clopper_pearson"),
    "clopper_pearson": lambda c: _counted(c, c["failure_prob"]),
    "new_person_clopper_pearson": lambda c: num.binomial_upper(round(float(c["risk"] * c.n)), c.n, c["failure_prob"]),
    "one_of_finitely_many": _one_of_many,
    "betting": _unseen,
    "weighted_betting": _unseen,
    "largest_gap": _largest_gap,
    "compression": compressed,
    "disagreement": _beside_another,
    "gibbs_risk_upper": sampled,
    "weighted_risk_upper": sampled,
    "correlated_risk_upper": sampled,
}
"""Bounds without costs in nats."""
