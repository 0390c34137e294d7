"""Every bound once more, from the costs, terms and inputs of its certificate alone, at 50 digits.

``cost`` recomputes each cost from the inputs and the price; ``VALUES`` recomputes the value of each formula from the
costs.
"""

import prices_by_mpmath as prices
from gibbs_by_mpmath import certificate_on_a_grid
from kl_by_mpmath import kl_upper, xi
from mpmath import expm1, log, mpf, sqrt


def log_inverse(inputs):
    return -log(mpf(inputs["failure_prob"]))


def log_xi(inputs):
    return log(xi(inputs["n"]))


def numbered(inputs, name):
    return [mpf(value) for key, value in inputs.items() if key.startswith(f"{name}_")]


def empirical_risk(inputs):
    return mpf(inputs["risk"]) if "risk" in inputs else split(inputs, lambda share: share)


def split(inputs, raise_share):
    levels, shares = numbered(inputs, "level"), numbered(inputs, "share")
    steps = zip(levels, levels[1:], shares, strict=False)
    return levels[0] + sum((high - low) * raise_share(share) for low, high, share in steps)


def temperatures(inputs):
    return [mpf(float(word)) for word in inputs["inverse_temperatures"].split(", ")]


ETAS = [0.5 * 0.8**k for k in range(20)]


def free_energy(inputs):
    """-ln Z - tau · loss_low, at most the spread."""
    tau, low, high = (mpf(inputs[name]) for name in ("tau", "loss_low", "loss_high"))
    return min(tau * (high - low), -mpf(inputs["log_partition_lower_nats"]) - tau * low)


COSTS = {
    "free_energy": free_energy,
    "log_density_ratio": lambda inputs: mpf(inputs["log_density_ratio"]),
    "renyi": lambda inputs: mpf(inputs["renyi_nats"]),
    "grid": lambda inputs: log(len(temperatures(inputs)) if "inverse_temperatures" in inputs else len(ETAS)),
    "levels": lambda inputs: log(len(numbered(inputs, "share"))),
    "kl": lambda inputs: mpf(inputs["kl_nats"]),
    "log_xi": log_xi,
    "log_two_sqrt_n": lambda inputs: log(2 * sqrt(inputs["n"])),
}


def cost(name, made, price):
    """What the certificate ought to have paid under this name."""
    if name == "draw":
        return (2 if "renyi" in made.name else 1) * -log(mpf(made.terms["draw_prob"]))
    if name not in ("confidence", "transfer"):
        return COSTS[name](made.inputs)
    steps = 1 + sum(key.startswith("n_") for key in made.inputs)
    failure_prob = made.budget.get("bound", made.budget.get("transfer"))  # the second is the whole of it if pure
    return prices.nats(price, made.inputs["n"], mpf(failure_prob) / steps, made.terms)


def kl_of_total(made):
    return kl_upper(made.terms["empirical_risk"], per_example(made))


def per_example(made):
    return max(mpf(0), sum(mpf(cost.nats) for cost in made.costs)) / made.inputs["n"]


def risk_of(made):
    return mpf(made.terms["empirical_risk"])


def mcallester(made):
    return risk_of(made) + sqrt(per_example(made) / 2)


def quadratic(made):
    half = per_example(made) / 2
    return (sqrt(risk_of(made) + half) + sqrt(half)) ** 2


def thiemann(made):
    lam = mpf(made.terms["lam"])
    return (risk_of(made) + per_example(made) / lam) / (1 - lam / 2)


def catoni(made):
    return catoni_at(mpf(made.terms["inverse_temperature"]), made)


def catoni_at(scale, made):
    n = made.inputs["n"]
    return expm1(-(scale * risk_of(made) / n + per_example(made))) / expm1(-scale / n)


def bernstein(risk, second_moment, per_example):
    risk, second = mpf(risk), mpf(second_moment)
    return risk + min((-eta - log(1 - eta)) / eta * second + per_example / eta for eta in map(mpf, ETAS))


def unexpected_bernstein(made):
    return bernstein(made.inputs["risk"], made.inputs["second_moment"], per_example(made))


def ece_bernstein(made):
    """The un-expected Bernstein inequality of the calibration error."""
    return bernstein(made.inputs["calibration_error"], made.inputs["mean_squared_gap"], per_example(made))


def ece_hoeffding(made):
    return made.inputs["calibration_error"] + sqrt(2 * per_example(made))


def tolstikhin_seldin(made):
    risk, c = risk_of(made), per_example(made)
    return risk + sqrt(2 * risk * c) + 2 * c


def linear(made):
    lam = mpf(made.terms["lam"])
    return (risk_of(made) + lam * per_example(made)) / (1 - 1 / (2 * lam))


def epsilon_bar(made):
    log_term = log(3) + log_inverse(made.inputs)
    return max(mpf(made.inputs["epsilon"]), sqrt(log_term / mpf(made.inputs["n"])))


def dp_hoeffding_2018(made):
    return risk_of(made) + epsilon_bar(made) + 1 / sqrt(made.inputs["n"])


def dp_chernoff_2018(made):
    n, bar = mpf(made.inputs["n"]), epsilon_bar(made)
    return risk_of(made) + sqrt(6 * risk_of(made)) * (bar + 1 / sqrt(n)) + 6 * (bar**2 + 1 / n)


def gibbs_catoni(made):
    scale = mpf(made.inputs["tau"]) * (made.inputs["loss_high"] - mpf(made.inputs["loss_low"])) / made.inputs["n"]
    return expm1(-per_example(made)) / expm1(-scale)


def gibbs_pac_bayes(made):
    """The largest of many points of a grid, so up to a little below."""
    inputs, nats = made.inputs, float(sum(paid.nats for paid in made.costs))
    at = (inputs[name] for name in ("log_partition_lower_nats", "tau", "loss_low", "loss_high", "error_loss"))
    return mpf(certificate_on_a_grid(*at, nats * (1 - 1e-14), inputs["n"])) * (1 - mpf("1e-12"))


def recursive(made):
    """At most one later step, whose costs are among the terms."""
    first = min(mpf(1), kl_of_total(made))
    if "n_2" not in made.inputs:
        return first
    gamma, shares = mpf(made.inputs["gamma"]), [made.inputs[f"share_2_{j}"] for j in (1, 2, 3)]
    nats = (value for key, value in made.terms.items() if key.endswith("_nats_2"))
    each = sum(map(mpf, nats)) / made.inputs["n_2"]
    widths = zip((gamma, 1 - gamma, gamma), shares, strict=True)
    excess = -gamma + sum(width * kl_upper(share, each) for width, share in widths)
    return max(mpf(0), excess + gamma * first)


VALUES = {
    "maurer": kl_of_total,
    "langford_seeger": kl_of_total,
    "mcallester": mcallester,
    "quadratic": quadratic,
    "tolstikhin_seldin": tolstikhin_seldin,
    "thiemann": thiemann,
    "catoni": catoni,
    "catoni_grid": lambda made: min(catoni_at(scale, made) for scale in temperatures(made.inputs)),
    "linear": linear,
    "unexpected_bernstein": unexpected_bernstein,
    "split_kl": lambda made: split(made.inputs, lambda share: kl_upper(share, per_example(made))),
    "disintegrated": kl_of_total,
    "disintegrated_renyi": kl_of_total,
    "recursive": recursive,
    "gibbs_pac_bayes": gibbs_pac_bayes,
    "gibbs_catoni": gibbs_catoni,
    "ece_hoeffding": ece_hoeffding,
    "ece_second_moment": ece_bernstein,
    "ece_pac_bayes": ece_bernstein,
    "kl_chernoff": kl_of_total,
    "chernoff": quadratic,
    "hoeffding": mcallester,
    "new_example_kl": kl_of_total,
    "new_example_pac_bayes": kl_of_total,
    "dp_chernoff_2018": dp_chernoff_2018,
    "dp_hoeffding_2018": dp_hoeffding_2018,
}


def value(made, formula=None):
    """At most 1; ``formula`` may say at which parameters, after its name."""
    return min(mpf(1), VALUES[(formula or made.name).split()[0]](made))


def is_safe(made, formula=None):
    """Whether the certificate is not below its exact value, to 25 of 50 digits."""
    return value(made, formula) * (1 - mpf("1e-25")) <= made.value
