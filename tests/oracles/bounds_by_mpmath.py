"""Every bound once more, from the costs, terms and inputs of its certificate alone, at 50 digits.

``COSTS`` recomputes each cost from the inputs, ``TRANSFERS`` that of a private prior; ``VALUES`` recomputes the value
from the costs.
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
    "log_density_ratio": lambda inputs: mp.mpf(inputs["log_density_ratio"]),
    "renyi": lambda inputs: mp.mpf(inputs["renyi_nats"]),
    "order": lambda inputs: mp.log(8) + 2 * log_inverse(inputs),
    "grid": lambda inputs: mp.log(len(temperatures(inputs)) if "inverse_temperatures" in inputs else len(ETAS)),
    "levels": lambda inputs: mp.log(len(numbered(inputs, "share"))),
    "kl": lambda inputs: mp.mpf(inputs["kl_nats"]),
    "confidence": log_inverse,
    "log_xi": log_xi,
    "log_two_sqrt_n": lambda inputs: mp.log(2 * mp.sqrt(inputs["n"])),
}
TRANSFERS = {
    "dp_pac_bayes_max_information": max_information,
    "dp_pac_bayes_2018": transfer_2018,
}


def cost(name, made):
    """What the certificate ought to have paid under this name."""
    compute = TRANSFERS.get(made.name, transfer) if name == "transfer" else COSTS[name]
    return compute(made.inputs)


def kl_of_total(made):
    return kl_upper(made.terms["empirical_risk"], per_example(made))


def per_example(made):
    return max(mp.mpf(0), sum(mp.mpf(cost.nats) for cost in made.costs)) / made.inputs["n"]


def risk_of(made):
    return mp.mpf(made.terms["empirical_risk"])


def mcallester(made):
    return risk_of(made) + mp.sqrt(per_example(made) / 2)


def quadratic(made):
    half = per_example(made) / 2
    return (mp.sqrt(risk_of(made) + half) + mp.sqrt(half)) ** 2


def thiemann(made):
    lam = mp.mpf(made.terms["lam"])
    return (risk_of(made) + per_example(made) / lam) / (1 - lam / 2)


def catoni(made):
    return catoni_at(mp.mpf(made.terms["inverse_temperature"]), made)


def catoni_at(scale, made):
    n = made.inputs["n"]
    return mp.expm1(-(scale * risk_of(made) / n + per_example(made))) / mp.expm1(-scale / n)


def bernstein(risk, second_moment, per_example):
    risk, second = mp.mpf(risk), mp.mpf(second_moment)
    return risk + min((-eta - mp.log(1 - eta)) / eta * second + per_example / eta for eta in map(mp.mpf, ETAS))


def unexpected_bernstein(made):
    return bernstein(made.inputs["risk"], made.inputs["second_moment"], per_example(made))


def ece_bernstein(made):
    """The un-expected Bernstein inequality of the calibration error."""
    return bernstein(made.inputs["calibration_error"], made.inputs["mean_squared_gap"], per_example(made))


def ece_hoeffding(made):
    return made.inputs["calibration_error"] + mp.sqrt(2 * per_example(made))


def tolstikhin_seldin(made):
    risk, c = risk_of(made), per_example(made)
    return risk + mp.sqrt(2 * risk * c) + 2 * c


def linear(made):
    lam = mp.mpf(made.terms["lam"])
    return (risk_of(made) + lam * per_example(made)) / (1 - 1 / (2 * lam))


def dp_hoeffding(made):
    slack = mp.sqrt(log_inverse(made.inputs) / mp.mpf(2 * made.inputs["n"]))
    return risk_of(made) + mp.mpf(made.inputs["epsilon"]) / 4 + slack


def epsilon_bar(made):
    log_term = mp.log(3) + log_inverse(made.inputs)
    return max(mp.mpf(made.inputs["epsilon"]), mp.sqrt(log_term / mp.mpf(made.inputs["n"])))


def dp_hoeffding_2018(made):
    return risk_of(made) + epsilon_bar(made) + 1 / mp.sqrt(made.inputs["n"])


def dp_chernoff_2018(made):
    n, bar = mp.mpf(made.inputs["n"]), epsilon_bar(made)
    return risk_of(made) + mp.sqrt(6 * risk_of(made)) * (bar + 1 / mp.sqrt(n)) + 6 * (bar**2 + 1 / n)


VALUES = {
    "maurer": kl_of_total,
    "langford_seeger": kl_of_total,
    "disintegrated": kl_of_total,
    "disintegrated_renyi": kl_of_total,
    "recursive": kl_of_total,
    "tolstikhin_seldin": tolstikhin_seldin,
    "catoni_grid": lambda made: min(catoni_at(scale, made) for scale in temperatures(made.inputs)),
    "split_kl": lambda made: split(made.inputs, lambda share: kl_upper(share, per_example(made))),
    "unexpected_bernstein": unexpected_bernstein,
    "ece_hoeffding": ece_hoeffding,
    "ece_second_moment": ece_bernstein,
    "ece_pac_bayes": ece_bernstein,
    "dp_ece_pac_bayes": ece_bernstein,
    "mcallester": mcallester,
    "quadratic": quadratic,
    "thiemann": thiemann,
    "catoni": catoni,
    "linear": linear,
    "dp_pac_bayes": kl_of_total,
    "dp_pac_bayes_max_information": kl_of_total,
    "dp_pac_bayes_2018": kl_of_total,
    "dp_kl_chernoff": kl_of_total,
    "dp_chernoff": quadratic,
    "dp_hoeffding": dp_hoeffding,
    "dp_chernoff_2018": dp_chernoff_2018,
    "dp_hoeffding_2018": dp_hoeffding_2018,
}
