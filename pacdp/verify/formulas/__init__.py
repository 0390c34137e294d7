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

_COSTS_OF = """
maurer                    kl log_xi
langford_seeger           kl log_two_sqrt_n
mcallester                kl log_xi
quadratic                 kl log_xi
tolstikhin_seldin         kl log_xi
thiemann                  kl log_xi
catoni                    kl
catoni_grid               kl grid
linear                    kl
unexpected_bernstein      kl grid
split_kl                  kl log_xi levels
recursive                 kl log_xi
disintegrated             log_density_ratio log_xi
disintegrated_renyi       renyi log_xi
gibbs_pac_bayes           log_xi
gibbs_catoni              free_energy
kl_chernoff
chernoff
hoeffding
ece_pac_bayes             kl grid
ece_hoeffding
ece_second_moment         grid
new_example_pac_bayes     kl log_xi
new_example_kl
new_example_betting
new_person_kl
new_person_hoeffding
new_person_second_moment  grid
new_person_bernstein      union
new_person_betting
"""
PRICED: dict[str, list[str]] = {
    name: costs
    for name, *costs in map(str.split, _COSTS_OF.strip().splitlines())
}
"""The names of the own costs of bounds at a price, by their names without its prefix; others have no costs in nats."""

_NAMES: dict[Formula, str] = {
    pac_bayes.inverse_kl: """
        maurer langford_seeger disintegrated disintegrated_renyi kl_chernoff new_person_kl
    """,
    pac_bayes.mcallester: "mcallester hoeffding new_person_hoeffding",
    pac_bayes.quadratic: "quadratic chernoff",
    pac_bayes.tolstikhin_seldin: "tolstikhin_seldin",
    pac_bayes.thiemann: "thiemann",
    pac_bayes.catoni: "catoni",
    pac_bayes.catoni_grid: "catoni_grid",
    pac_bayes.linear: "linear",
    pac_bayes.unexpected_bernstein: "unexpected_bernstein",
    pac_bayes.split_kl: "split_kl",
    pac_bayes.recursive: "recursive",
    pac_bayes.dp_hoeffding_2018: "dp_hoeffding_2018",
    pac_bayes.dp_chernoff_2018: "dp_chernoff_2018",
    gibbs.gibbs_pac_bayes: "gibbs_pac_bayes",
    gibbs.gibbs_catoni: "gibbs_catoni",
    calibration.ece_pac_bayes: "ece_pac_bayes ece_second_moment",
    calibration.ece_hoeffding: "ece_hoeffding",
    calibration.mce_hoeffding: "mce_hoeffding",
    calibration.mce_clopper_pearson: "mce_clopper_pearson",
    compression: "compression",
    counts.clopper_pearson: "clopper_pearson",
    counts.new_person_clopper_pearson: "new_person_clopper_pearson",
    counts.one_of_finitely_many: "one_of_finitely_many",
    counts.new_example_pac_bayes: "new_example_pac_bayes",
    counts.new_example_kl: "new_example_kl",
    counts.new_person_second_moment: "new_person_second_moment",
    counts.betting: """
        betting weighted_betting new_example_betting new_person_betting new_person_bernstein
    """,
    counts.largest_gap: "largest_gap",
    counts.disagreement: "disagreement",
    counts.sampled: "gibbs_risk_upper weighted_risk_upper correlated_risk_upper",
}
FORMULAS: dict[str, Formula] = {
    name: formula
    for formula, names in _NAMES.items()
    for name in names.split()
}
"""Every bound's value, by its name without the prefix of a price."""
