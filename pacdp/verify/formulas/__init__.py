"""Every bound by its name: which costs it has, and which function recomputes its value at their sum.

Each function names the section of docs/guarantees.md that it recomputes. c is the claim, c["x"] its input x, c.share
the sum of its costs over n, c.n the number of independent records.
"""

from collections.abc import Callable

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import log_xi
from pacdp.verify.claim import Claim
from pacdp.verify.formulas import (
    calibration,
    counts,
    gibbs,
    pac_bayes,
)
from pacdp.verify.formulas.compression import compression

Formula = Callable[[Claim], arb]


def grid(c: Claim) -> arb:
    """ln J nats ("Grids"); J is 20 for the η of "Un-expected Bernstein"."""
    count = 20
    if "inverse_temperatures" in c.inputs:
        count = len(c.listed("inverse_temperatures"))
    return arb(count).log()


def draw(c: Claim) -> arb:
    """ln(1/(sδ)), twice with the Rényi divergence ("Prices", One draw)."""
    nats = -c.term("draw_prob").log()
    return 2 * nats if "renyi_nats" in c.inputs else nats


COSTS: dict[str, Formula] = {
    "kl": lambda c: c["kl_nats"],
    "renyi": lambda c: c["renyi_nats"],
    "log_density_ratio": lambda c: c["log_density_ratio"],
    "log_xi": lambda c: log_xi(c.n),
    "log_two_sqrt_n": lambda c: (2 * arb(c.n).sqrt()).log(),
    "levels": lambda c: arb(len(c.numbered("share_", 1))).log(),
    "union": lambda _: arb(2).log(),
    "free_energy": gibbs.free_energy,
    "grid": grid,
    "draw": draw,
}
"""What each cost is, in nats; the price of the prior, "confidence" or "transfer", is in ``prices``."""

_KL_AND_XI = ("kl", "log_xi")
PRICED: dict[str, tuple[tuple[str, ...], Formula]] = {
    "maurer": (_KL_AND_XI, pac_bayes.inverse_kl),
    "langford_seeger": (
        ("kl", "log_two_sqrt_n"),
        pac_bayes.inverse_kl,
    ),
    "mcallester": (_KL_AND_XI, pac_bayes.mcallester),
    "quadratic": (_KL_AND_XI, pac_bayes.quadratic),
    "tolstikhin_seldin": (_KL_AND_XI, pac_bayes.tolstikhin_seldin),
    "thiemann": (_KL_AND_XI, pac_bayes.thiemann),
    "catoni": (("kl",), pac_bayes.catoni),
    "catoni_grid": (("kl", "grid"), pac_bayes.catoni_grid),
    "linear": (("kl",), pac_bayes.linear),
    "unexpected_bernstein": (
        ("kl", "grid"),
        pac_bayes.unexpected_bernstein,
    ),
    "split_kl": ((*_KL_AND_XI, "levels"), pac_bayes.split_kl),
    "recursive": (_KL_AND_XI, pac_bayes.recursive),
    "disintegrated": (
        ("log_density_ratio", "log_xi"),
        pac_bayes.inverse_kl,
    ),
    "disintegrated_renyi": (
        ("renyi", "log_xi"),
        pac_bayes.inverse_kl,
    ),
    "gibbs_pac_bayes": (("log_xi",), gibbs.gibbs_pac_bayes),
    "gibbs_catoni": (("free_energy",), gibbs.gibbs_catoni),
    "kl_chernoff": ((), pac_bayes.inverse_kl),
    "chernoff": ((), pac_bayes.quadratic),
    "hoeffding": ((), pac_bayes.mcallester),
    "ece_pac_bayes": (("kl", "grid"), calibration.ece_pac_bayes),
    "ece_hoeffding": ((), calibration.ece_hoeffding),
    "ece_second_moment": (("grid",), calibration.ece_pac_bayes),
    "new_example_pac_bayes": (
        _KL_AND_XI,
        counts.new_example_pac_bayes,
    ),
    "new_example_kl": ((), counts.new_example_kl),
    "new_person_kl": ((), pac_bayes.inverse_kl),
    "new_person_hoeffding": ((), pac_bayes.mcallester),
    "new_person_second_moment": (
        ("grid",),
        counts.new_person_second_moment,
    ),
    "new_person_bernstein": (("union",), counts.betting),
    "new_person_betting": ((), counts.betting),
    "new_example_betting": ((), counts.betting),
}
"""Bounds at a price, by their names without its prefix: the names of their own costs, and their value."""

PLAIN: dict[str, Formula] = {
    "dp_hoeffding_2018": pac_bayes.dp_hoeffding_2018,
    "dp_chernoff_2018": pac_bayes.dp_chernoff_2018,
    "mce_hoeffding": calibration.mce_hoeffding,
    "mce_clopper_pearson": calibration.mce_clopper_pearson,
    "clopper_pearson": counts.clopper_pearson,
    "new_person_clopper_pearson": counts.new_person_clopper_pearson,
    "one_of_finitely_many": counts.one_of_finitely_many,
    "betting": counts.betting,
    "weighted_betting": counts.betting,
    "largest_gap": counts.largest_gap,
    "compression": compression,
    "disagreement": counts.disagreement,
    "gibbs_risk_upper": counts.sampled,
    "weighted_risk_upper": counts.sampled,
    "correlated_risk_upper": counts.sampled,
}
"""Bounds without costs in nats."""
