"""Every bound by its name: which function recomputes it, which hypotheses it needs, and which costs it has.

Each function names the section of docs/guarantees.md that it recomputes. c is the claim, c.x its input x, c.share
the sum of its costs over n, c.n the number of independent records.
"""

from collections.abc import Callable
from math import inf

from flint import arb  # pyright: ignore[reportMissingImports]

from pacdp.verify.arithmetic import log_xi
from pacdp.verify.claim import Claim
from pacdp.verify.formulas import (
    calibration,
    compression,
    counts,
    paired,
    prices,
    risk,
)

Formula = Callable[[Claim], arb]


def grid(c: Claim) -> arb:
    """ln J nats ("Grids"); J is 20 for the η of "Un-expected Bernstein"."""
    count = 20
    if c.formula == "catoni_grid":
        count = len(c.listed("inverse_temperatures"))
    return arb(count).log()


def draw(c: Claim) -> arb:
    """ln(1/(sδ)), twice with the Rényi divergence ("Prices", One draw)."""
    nats = -c.term("draw_prob").log()
    return 2 * nats if "renyi_nats" in c.inputs else nats


COSTS: dict[str, Formula] = {
    "kl": lambda c: c.kl_nats,
    "renyi": lambda c: c.renyi_nats,
    "log_density_ratio": lambda c: c.log_density_ratio,
    "log_xi": lambda c: log_xi(c.n),
    "log_two_sqrt_n": lambda c: (2 * arb(c.n).sqrt()).log(),
    "levels": lambda c: arb(len(c.numbered("share_", 1))).log(),
    "union": lambda _: arb(2).log(),
    "free_energy": risk.free_energy,
    "grid": grid,
    "draw": draw,
}
"""What each cost is, in nats; the price of the prior, "confidence" or "transfer", is in ``prices``."""

_BOUNDS = """
bound                      recomputed by              needs      paid    risk       costs
maurer                     inverse_kl                 prior      bound   -          price kl log_xi
langford_seeger            inverse_kl                 prior      bound   -          price kl log_two_sqrt_n
mcallester                 mcallester                 prior      bound   -          price kl log_xi
quadratic                  quadratic                  prior      bound   -          price kl log_xi
tolstikhin_seldin          tolstikhin_seldin          prior      bound   -          price kl log_xi
thiemann                   thiemann                   prior      bound   -          price kl log_xi
catoni                     catoni                     prior      bound   -          price kl
catoni_grid                catoni_grid                prior      bound   -          price kl grid
linear                     linear                     prior      bound   -          price kl
unexpected_bernstein       unexpected_bernstein       prior      bound   -          price kl grid
split_kl                   split_kl                   prior      bound   -          price kl log_xi levels
recursive                  recursive                  prior      bound   -          price kl log_xi
disintegrated              inverse_kl                 drawn      bound   -          price log_density_ratio log_xi
disintegrated_renyi        inverse_kl                 drawn      bound   -          price renyi log_xi draw
gibbs_pac_bayes            gibbs_pac_bayes            prior      bound   -          price log_xi
gibbs_catoni               gibbs_catoni               prior      bound   surrogate  price free_energy
kl_chernoff                inverse_kl                 new_rows   bound   -          price
chernoff                   quadratic                  new_rows   bound   -          price
hoeffding                  mcallester                 new_rows   bound   -          price
dp_hoeffding_2018          dp_hoeffding_2018          private    bound   -
dp_chernoff_2018           dp_chernoff_2018           private    bound   -
ece_pac_bayes              ece_pac_bayes              prior      bound   ECE        price kl grid
ece_hoeffding              ece_hoeffding              new_rows   bound   ECE        price
ece_second_moment          ece_pac_bayes              new_rows   bound   ECE        price grid
mce_hoeffding              mce_hoeffding              new_rows   bound   MCE
mce_clopper_pearson        mce_clopper_pearson        new_rows   bound   MCE
compression                compression                learner    bound   -
clopper_pearson            clopper_pearson            new_rows   test    -
one_of_finitely_many       one_of_finitely_many       new_rows   all     -
disagreement               disagreement               surrogate  test    errors
betting                    betting                    new_rows   test    -
weighted_betting           betting                    new_rows   test    -
paired                     paired                     new_rows   test    -
auc                        auc                        new_rows   test    -
largest_gap                largest_gap                new_rows   groups  gap
new_example_pac_bayes      new_example_pac_bayes      prior      bound   -          price kl log_xi
new_example_kl             new_example_kl             new_rows   bound   -          price
new_example_betting        betting                    new_rows   bound   -          price
new_person_kl              inverse_kl                 new_rows   bound   -          price
new_person_hoeffding       mcallester                 new_rows   bound   -          price
new_person_second_moment   new_person_second_moment   new_rows   bound   -          price grid
new_person_bernstein       betting                    new_rows   bound   -          price union
new_person_betting         betting                    new_rows   bound   -          price
new_person_clopper_pearson new_person_clopper_pearson new_rows   bound   -
gibbs_risk_upper           sampled                    draws      -       empirical
weighted_risk_upper        sampled                    draws      -       empirical
correlated_risk_upper      sampled                    chain      -       empirical
"""
"""Every bound, without the prefix of a price; "price" is among the costs of those that are at a price.

It is paid by an entry of the budget, and its risk is how the name of what it bounds begins, in the words below; - is
any risk in [0, 1].
"""
_WORDS = {
    "-": "",
    "test": "test set",
    "all": "union over networks",
    "errors": "0-1 risk",
    "empirical": "empirical risk",
    "surrogate": "surrogate risk, rescaled to [0, 1]",
    "gap": "largest gap between ",
}
_FUNCTIONS = {
    **vars(risk),
    **vars(counts),
    **vars(calibration),
    **vars(paired),
    **vars(compression),
}
FORMULAS = dict[str, Formula]()
NEEDED = dict[str, str]()
PAID_AS = dict[str, str]()
RISKS = dict[str, str]()
PRICED = dict[str, list[str]]()
"""What the table says of a bound by its name, its costs but for the price; those of no price have none in nats."""
for line in _BOUNDS.strip().splitlines()[1:]:
    name, function, needs, *words = line.split()
    paid, begins, *costs = (_WORDS.get(one, one) for one in words)
    FORMULAS[name] = _FUNCTIONS[function]
    NEEDED[name] = needs
    PAID_AS[name] = paid
    RISKS[name] = begins
    if "price" in costs:
        PRICED[name] = [*costs[1:]]
_ALIASES = {
    "dp_pac_bayes": "dp_maurer",
    "private_pac_bayes": "private_maurer",
    "hybrid_pac_bayes": "private_maurer",
    "max_information_pac_bayes": "max_information_maurer",
    "printed_2018_pac_bayes": "printed_2018_maurer",
    "dp_pac_bayes_max_information": "max_information_langford_seeger",
    "finite_ensemble": "maurer",
    "dp_pac_bayes_2018": "printed_2018_langford_seeger",
    "new_person": "new_person_kl",
}
KINDS = {
    **{
        prefix + formula: (prefix, formula)
        for prefix in prices.PRICES
        for formula in PRICED
        if prices.serves(prefix, formula, NEEDED[formula])
    },
    **{formula: ("", formula) for formula in FORMULAS},
    "ece": ("", "ece_second_moment"),
}
KINDS.update({one: KINDS[other] for one, other in _ALIASES.items()})
"""The prefix of the price, and the formula, by what a name says of both."""
_AMOUNTS = """
    kl_nats renyi_nats epsilon privacy_epsilon privacy_mu privacy_rho privacy_delta
    sum_mu sum_contributions draw_spread around_divergence
    sum_log_moments losses_log_moments gradients_log_moments around_log_moments
    tau inverse_temperature inverse_temperatures lam std_errors std_n
""".split()
_SHARES = "risk mean monte_carlo_mean calibration_error mean_squared_gap second_moment gamma".split()
RANGES: dict[str, float] = {
    **dict.fromkeys(_AMOUNTS, inf),
    **dict.fromkeys(_SHARES, 1),
}
"""Inputs that are never below 0, and their most; those whose names begin with ``share_`` too are at most 1."""
