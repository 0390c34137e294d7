"""What a certificate would have said at a fraction of its cost: the power of a coverage world is measured with it.

The cost of a bound is its total nats: divergence, constants, price, unions. ``at_fraction`` scales the total and
computes the value anew by the bound's formula, from the certificate's inputs; at fraction 1 it is the certificate's
own value, which is a test. This module is the only one of the harness that looks inside a certificate.
"""

from math import expm1, log, sqrt

import numpy as np

from bounds import binary_kl_upper, log_xi
from bounds.means import ETAS, eta_cost
from bounds.prices import Sharp


def formula_of(certificate):
    """The formula of a certificate's value in its inputs and nats an example, whatever its price; None if unknown."""
    name = certificate.name
    return next((FORMULAS[name[len(p) :]] for p in PREFIXES if name.startswith(p) and name[len(p) :] in FORMULAS), None)


def has_formula(certificate):
    return certificate.name in WHOLE or formula_of(certificate) is not None


def at_fraction(certificate, fraction):
    """The value that the bound's formula gives at ``fraction`` of the certificate's total cost."""
    inputs = certificate.inputs
    if certificate.name in WHOLE:
        return min(1.0, WHOLE[certificate.name](inputs, fraction))
    n = inputs.get("n", inputs.get("n_bound"))
    if "most_examples" in inputs:  # how many people the examples are worth
        n = inputs["examples"] / inputs["most_examples"]
    return min(1.0, formula_of(certificate)(inputs, fraction * certificate.total_nats / n))


def bernstein(mean, squares, c):
    """The un-expected Bernstein inequality at a cost of c nats an example."""
    return mean + min(eta_cost(eta) * squares + c / eta for eta in ETAS)


def gibbs_value(inputs, fraction, rest):
    """max over x of kl⁻¹(x, fraction · (-ln Z - tau x + rest)/n), x the posterior's mean loss scaled to [0, 1]."""
    low, scale = inputs["loss_low"], inputs["error_loss"] - inputs["loss_low"]
    free, tau = -inputs["log_partition_lower_nats"], inputs["tau"]
    x = np.linspace(low, min(inputs["loss_high"], max(low, free / tau)), 4097)
    cost = np.maximum(free - tau * x, 0.0) + rest
    return float(binary_kl_upper(np.minimum(1.0, (x - low) / scale), fraction * cost / inputs["n"]).max())


def _kl(inputs, c):
    return float(binary_kl_upper(inputs["risk"], c))


def _root(inputs, c):
    return inputs["risk"] + sqrt(c / 2)


def _quadratic(inputs, c):
    return inputs["risk"] + c + sqrt(c * c + 2 * c * inputs["risk"])


def _tolstikhin_seldin(inputs, c):
    return inputs["risk"] + sqrt(2 * inputs["risk"] * c) + 2 * c


def _linear(inputs, c):
    return (inputs["risk"] + inputs["lam"] * c) / (1 - 0.5 / inputs["lam"])


def _catoni(inputs, c):
    grid = str(inputs.get("inverse_temperatures", inputs.get("inverse_temperature"))).split(", ")
    slopes = [float(temperature) / inputs["n"] for temperature in grid]
    return min(max(inputs["risk"], expm1(-s * inputs["risk"] - c) / expm1(-s)) for s in slopes)


def _split_kl(inputs, c):
    levels = [inputs[f"level_{j}"] for j in range(sum(name.startswith("level_") for name in inputs))]
    return _split(levels, [inputs[f"share_{j}"] for j in range(1, len(levels))], c)


def _split(levels, shares, c):
    return levels[0] + sum(np.diff(levels) * binary_kl_upper(np.array(shares), c))


def _unexpected_bernstein(inputs, c):
    return bernstein(inputs["risk"], inputs["second_moment"], c)


def _ece(inputs, c):
    return bernstein(inputs["calibration_error"], inputs["mean_squared_gap"], c)


def _recursive(inputs, fraction):
    steps, gamma = 1 + sum(name.startswith("kl_nats_") for name in inputs), inputs["gamma"]

    def cost(kl, n, union):
        return fraction * (kl + log_xi(n) + log(union / inputs["failure_prob"])) / n

    bound = float(binary_kl_upper(inputs["risk"], cost(inputs["kl_nats"], inputs["n"], steps)))
    for t in range(2, steps + 1):
        c = cost(inputs[f"kl_nats_{t}"], inputs[f"n_{t}"], 3 * steps)
        shares = [inputs[f"share_{t}_{j}"] for j in (1, 2, 3)]
        bound = min(1.0, max(0.0, _split([-gamma, 0.0, 1 - gamma, 1.0], shares, c) + gamma * bound))
    return bound


def _gibbs(inputs, fraction):
    n, failure_prob = inputs["n"], inputs["failure_prob"]
    price = Sharp(epsilon=inputs.get("epsilon", 0.0)).charge(n=n, failure_prob=failure_prob).nats
    return gibbs_value(inputs, fraction, log_xi(n) + price)


def _bar(inputs):
    return max(inputs["epsilon"], sqrt(log(3 / inputs["failure_prob"]) / inputs["n"]))


def _dp_hoeffding_2018(inputs, fraction):
    """Its slack is √(c/2) for a cost of c nats an example, as that of Hoeffding's inequality."""
    return inputs["risk"] + sqrt(fraction) * (_bar(inputs) + inputs["n"] ** -0.5)


def _dp_chernoff_2018(inputs, fraction):
    """The slack grows like c + √(c risk) in the cost c."""
    bar, n, risk = _bar(inputs), inputs["n"], inputs["risk"]
    return risk + sqrt(6 * risk * fraction) * (bar + n**-0.5) + 6 * fraction * (bar * bar + 1 / n)


PREFIXES = (
    "",
    "dp_",
    "max_information_",
    "printed_2018_",
    "private_",
    "hybrid_",
    "noisy_sum_",
    "realised_sum_",
    "poisson_sum_",
    "realised_poisson_",
)
FORMULAS = {
    **dict.fromkeys(("maurer", "langford_seeger", "disintegrated", "disintegrated_renyi", "kl_chernoff"), _kl),
    **dict.fromkeys(("pac_bayes", "pac_bayes_max_information", "pac_bayes_2018", "new_example_pac_bayes"), _kl),
    **dict.fromkeys(("mcallester", "hoeffding"), _root),
    **dict.fromkeys(("quadratic", "thiemann", "chernoff"), _quadratic),
    "tolstikhin_seldin": _tolstikhin_seldin,
    "linear": _linear,
    **dict.fromkeys(("catoni", "catoni_grid"), _catoni),
    "split_kl": _split_kl,
    "unexpected_bernstein": _unexpected_bernstein,
    **dict.fromkeys(("ece_second_moment", "ece_pac_bayes"), _ece),
}
WHOLE = {
    "recursive": _recursive,
    **dict.fromkeys(("gibbs_pac_bayes", "dp_gibbs_pac_bayes"), _gibbs),
    "dp_hoeffding_2018": _dp_hoeffding_2018,
    "dp_chernoff_2018": _dp_chernoff_2018,
}
