"""Every bound once more, from the terms and inputs of its certificate alone, at 50 digits.

``COSTS`` recomputes each term from the inputs; ``VALUES`` recomputes the value from the terms.
"""

import mpmath as mp
from binomial import xi
from kl_by_mpmath import kl_upper


def log_inverse(inputs):
    return -mp.log(mp.mpf(inputs["failure_prob"]))


def transfer(inputs):
    return (mp.sqrt(log_inverse(inputs)) + mp.mpf(inputs["epsilon"]) * mp.sqrt(mp.mpf(inputs["n"]) / 8)) ** 2


def max_information(inputs):
    epsilon, n, log_inv = mp.mpf(inputs["epsilon"]), inputs["n"], log_inverse(inputs)
    return mp.log(2) + log_inv + n * epsilon**2 / 2 + epsilon * mp.sqrt(n * (mp.log(4) + log_inv) / 2)


def transfer_2018(inputs):
    return 2 * max(mp.log(3) + log_inverse(inputs), inputs["n"] * mp.mpf(inputs["epsilon"]) ** 2)


def log_xi(inputs):
    exact = xi(inputs["n"])
    return mp.log(mp.mpf(exact.numerator) / exact.denominator)


def numbered(inputs, name):
    return [mp.mpf(value) for key, value in inputs.items() if key.startswith(f"{name}_")]


def empirical_risk(inputs):
    return mp.mpf(inputs["risk"]) if "risk" in inputs else split(inputs, lambda share: share)


def split(inputs, raise_share):
    levels, shares = numbered(inputs, "level"), numbered(inputs, "share")
    steps = zip(levels, levels[1:], shares, strict=False)
    return levels[0] + sum((high - low) * raise_share(share) for low, high, share in steps)


def temperatures(inputs):
    return [mp.mpf(float(word)) for word in inputs["inverse_temperatures"].split(", ")]


ETAS = [0.5 * 0.8**k for k in range(20)]

COSTS = {
    "empirical_risk": empirical_risk,
    "log_density_ratio_nats": lambda inputs: mp.mpf(inputs["log_density_ratio"]),
    "renyi_nats": lambda inputs: mp.mpf(inputs["renyi_nats"]),
    "cubed_confidence_nats": lambda inputs: 3 * (mp.log(2) + log_inverse(inputs)),
    "grid_nats": lambda inputs: mp.log(len(temperatures(inputs)) if "inverse_temperatures" in inputs else len(ETAS)),
    "levels_nats": lambda inputs: mp.log(len(numbered(inputs, "share"))),
    "kl_nats": lambda inputs: mp.mpf(inputs["kl_nats"]),
    "confidence_nats": log_inverse,
    "log_xi_nats": log_xi,
    "log_two_sqrt_n_nats": lambda inputs: mp.log(2 * mp.sqrt(inputs["n"])),
    "log_three_nats": lambda inputs: mp.log(3) + log_inverse(inputs),
}
TRANSFERS = {
    "dp_pac_bayes_max_information": max_information,
    "dp_pac_bayes_2018": transfer_2018,
}

PARTS = (
    "kl_nats",
    "log_density_ratio_nats",
    "renyi_nats",
    "log_xi_nats",
    "log_two_sqrt_n_nats",
    "grid_nats",
    "levels_nats",
    "union_nats",
    "confidence_nats",
    "cubed_confidence_nats",
    "transfer_nats",
)


def kl_of_total(terms, inputs):
    return kl_upper(terms["empirical_risk"], per_example(terms, inputs))


def per_example(terms, inputs):
    return sum(mp.mpf(terms[name]) for name in PARTS if name in terms) / inputs["n"]


def quadratic(terms, inputs):
    half = per_example(terms, inputs) / 2
    return (mp.sqrt(terms["empirical_risk"] + half) + mp.sqrt(half)) ** 2


def thiemann(terms, inputs):
    return (terms["empirical_risk"] + per_example(terms, inputs) / terms["lam"]) / (1 - mp.mpf(terms["lam"]) / 2)


def catoni(terms, inputs):
    return catoni_at(mp.mpf(terms["inverse_temperature"]), terms, inputs)


def catoni_at(scale, terms, inputs):
    n = inputs["n"]
    exponent = scale * terms["empirical_risk"] / n + per_example(terms, inputs)
    return mp.expm1(-exponent) / mp.expm1(-scale / n)


def unexpected_bernstein(terms, inputs):
    risk, second, c = mp.mpf(inputs["risk"]), mp.mpf(inputs["second_moment"]), per_example(terms, inputs)
    return risk + min((-eta - mp.log(1 - eta)) / eta * second + c / eta for eta in map(mp.mpf, ETAS))


def ece_bernstein(terms, inputs):
    """The un-expected Bernstein inequality of the calibration error."""
    told = {"risk": inputs["calibration_error"], "second_moment": inputs["mean_squared_gap"], "n": inputs["n"]}
    return unexpected_bernstein(terms, told)


def ece_hoeffding(terms, inputs):
    return inputs["calibration_error"] + mp.sqrt(2 * mp.mpf(terms["confidence_nats"]) / inputs["n"])


def tolstikhin_seldin(terms, inputs):
    risk, c = mp.mpf(terms["empirical_risk"]), per_example(terms, inputs)
    return risk + mp.sqrt(2 * risk * c) + 2 * c


def linear(terms, inputs):
    lam = mp.mpf(terms["lam"])
    return (terms["empirical_risk"] + lam * per_example(terms, inputs)) / (1 - 1 / (2 * lam))


def dp_chernoff(terms, inputs):
    c = mp.mpf(terms["transfer_nats"]) / inputs["n"]
    return terms["empirical_risk"] + c + mp.sqrt(c**2 + 2 * c * terms["empirical_risk"])


def dp_hoeffding(terms, inputs):
    slack = mp.sqrt(terms["confidence_nats"] / mp.mpf(2 * inputs["n"]))
    return terms["empirical_risk"] + mp.mpf(inputs["epsilon"]) / 4 + slack


def dp_hoeffding_2018(terms, inputs):
    bar = max(mp.mpf(inputs["epsilon"]), mp.sqrt(terms["log_three_nats"] / mp.mpf(inputs["n"])))
    return terms["empirical_risk"] + bar + 1 / mp.sqrt(inputs["n"])


def dp_chernoff_2018(terms, inputs):
    risk, n = mp.mpf(terms["empirical_risk"]), mp.mpf(inputs["n"])
    bar = max(mp.mpf(inputs["epsilon"]), mp.sqrt(terms["log_three_nats"] / n))
    return risk + mp.sqrt(6 * risk) * (bar + 1 / mp.sqrt(n)) + 6 * (bar**2 + 1 / n)


VALUES = {
    "maurer": kl_of_total,
    "langford_seeger": kl_of_total,
    "disintegrated": kl_of_total,
    "disintegrated_renyi": kl_of_total,
    "recursive": kl_of_total,
    "tolstikhin_seldin": tolstikhin_seldin,
    "catoni_grid": lambda terms, inputs: min(catoni_at(scale, terms, inputs) for scale in temperatures(inputs)),
    "split_kl": lambda terms, inputs: split(inputs, lambda share: kl_upper(share, per_example(terms, inputs))),
    "unexpected_bernstein": unexpected_bernstein,
    "ece_hoeffding": ece_hoeffding,
    "ece_second_moment": ece_bernstein,
    "ece_pac_bayes": ece_bernstein,
    "dp_ece_pac_bayes": ece_bernstein,
    "mcallester": lambda terms, inputs: terms["empirical_risk"] + mp.sqrt(per_example(terms, inputs) / 2),
    "quadratic": quadratic,
    "thiemann": thiemann,
    "catoni": catoni,
    "linear": linear,
    "dp_pac_bayes": kl_of_total,
    "dp_pac_bayes_max_information": kl_of_total,
    "dp_pac_bayes_2018": kl_of_total,
    "dp_kl_chernoff": lambda terms, inputs: kl_upper(
        terms["empirical_risk"], mp.mpf(terms["transfer_nats"]) / inputs["n"]
    ),
    "dp_chernoff": dp_chernoff,
    "dp_hoeffding": dp_hoeffding,
    "dp_chernoff_2018": dp_chernoff_2018,
    "dp_hoeffding_2018": dp_hoeffding_2018,
}
