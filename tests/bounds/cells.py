"""Every formula at every price, as functions of one signature. A new formula or price joins by one line.

A cell is called with the risk, the nats of its divergence, n, the failure probability and the knob of its price: an
epsilon, a mu, the root of 2 rho.
"""

from dataclasses import dataclass
from functools import partial
from itertools import product
from math import inf

import pytest
from gaussian_cells import gaussian_cells

import bounds
from bounds import (
    Accounted,
    ApproxDP,
    Certificate,
    GaussianDP,
    Independent,
    MaxInformation,
    PoissonSum,
    PureDP,
    RealisedPoissonSum,
    RealisedSum,
    Sharp,
    WorstCaseSum,
    catoni,
    catoni_grid,
    chernoff,
    disintegrated,
    disintegrated_renyi,
    hoeffding,
    kl_chernoff,
    langford_seeger,
    linear,
    maurer,
    mcallester,
    new_example_kl,
    new_example_pac_bayes,
    noisy,
    quadratic,
    thiemann,
    tolstikhin_seldin,
)
from bounds import ZeroConcentratedDP as Concentrated
from bounds.accounting import Gaussian, PoissonSampled, SelfComposed
from bounds.printed import Printed2018
from bounds.refined import ExcessStep


def refused(words, call, *args, **told):
    """The call is refused by a ValueError in which these words are found."""
    with pytest.raises(ValueError, match=words):
        call(*args, **told)


def nats(price, n=60_000, failure_prob=0.05):
    """What the price costs."""
    return price.charge(n=n, failure_prob=failure_prob).nats


within_rounding = partial(pytest.approx, rel=1e-12)
"""For what is computed in another way, in double precision."""


def read_again(made):
    """A certificate after its JSON."""
    return Certificate.from_json(made.to_json())


KNOWN = {"adjacency": "add-remove", "status": "accounted"}
GRID = gaussian_cells(0.02, 1e-3)
ALPHAS = (1.05, 1.2, 1.5, 2.0, 3.0, 4.5)


def steps(noise_multiplier, sample_rate, count=1):
    one = PoissonSampled(sample_rate=sample_rate, event=Gaussian(noise_multiplier=noise_multiplier))
    return SelfComposed(event=one, count=count)


def sampled(knob):
    """100 steps on a twentieth of the records, at most so large against the noise."""
    noise = min(1e300, 1.0 / knob) if knob > 0.0 else 1e300
    return steps(max(noise, 1e-150), 0.05, 100)


PRICES = {
    "independent": lambda knob: Independent(),
    "sharp": lambda knob: Sharp(epsilon=knob),
    "max_information": lambda knob: MaxInformation(epsilon=knob),
    "printed_2018": lambda knob: Printed2018(epsilon=knob),
    "pure": lambda knob: Accounted(privacy=PureDP(epsilon=knob, **KNOWN)),
    "approximate": lambda knob: Accounted(privacy=ApproxDP(epsilon=knob, delta=1e-12, **KNOWN)),
    "gaussian": lambda knob: Accounted(privacy=GaussianDP(mu=knob, **KNOWN)),
    "concentrated": lambda knob: Accounted(privacy=Concentrated(rho=knob * knob / 2, **KNOWN)),
    "grid": lambda knob: Accounted(privacy=GRID),
    "worst_case_sum": lambda knob: WorstCaseSum(mu=knob),
    "realised_sum": lambda knob: RealisedSum(contributions=600 * knob * knob, records=2**53),
    "poisson_sum": lambda knob: PoissonSum(event=sampled(knob)),
    "gibbs_range": lambda knob: noisy.GibbsRange(spread=2 * knob),
    "gibbs_losses": lambda knob: noisy.GibbsLosses(
        log_moments=[600 * knob * knob * order * (order - 1) / 2 for order in ALPHAS], orders=ALPHAS, records=2**53
    ),
    "realised_poisson": lambda knob: RealisedPoissonSum(
        log_moments=[600 * knob * knob * order * (order - 1) for order in ALPHAS],
        orders=ALPHAS,
        weights=(0.1, 0.1, 0.2, 0.3, 0.2, 0.05),
        records=2**53,
    ),
}
REALISED = ("realised_sum", "realised_poisson", "gibbs_losses")
SEARCHED = ("approximate", "gaussian", "concentrated", "grid")
CLOSED = [price for price in PRICES if price not in (*SEARCHED, "poisson_sum")]


def _of_kl(function, **fixed):
    return lambda risk, nats, **at: function(risk=risk, kl_nats=nats, **fixed, **at)


def _alone(function):
    return lambda risk, nats, **at: function(risk=risk, **at)


def split_kl(risk, nats, **at):
    return bounds.split_kl(levels=(0.0, 0.25, 1.0), shares=(risk, risk), kl_nats=nats, **at)


def squared(risk):
    """A mean of squares that goes with this risk."""
    return risk**1.5 if isinstance(risk, float) else risk


def unexpected_bernstein(risk, nats, **at):
    return bounds.unexpected_bernstein(risk=risk, second_moment=squared(risk), kl_nats=nats, **at)


def ece_pac_bayes(risk, nats, **at):
    return bounds.ece_pac_bayes(calibration_error=risk, mean_squared_gap=squared(risk), kl_nats=nats, **at)


def recursive(risk, nats, n, **at):
    """The second posterior errs as often as the first, on the half that the first has not seen."""
    step = ExcessStep(shares=(1.0, risk, risk), kl_nats=nats, n=max(1, n // 2))
    return bounds.recursive(risk=risk, kl_nats=nats, n=n, steps=(step,) if n > 1 else (), gamma=0.5, **at)


GIBBS = {"tau": 40.0, "loss_low": 0.0, "loss_high": 1.0, "log_partition_failure_prob": 1e-4}


def gibbs_pac_bayes(risk, nats, **at):
    """ln Z is what it would be at this risk and divergence."""
    lower = -(nats + GIBBS["tau"] * risk)
    return bounds.gibbs_pac_bayes(log_partition_lower_nats=lower, error_loss=1.0, **GIBBS, **at)


def gibbs_catoni(risk, nats, **at):
    return bounds.gibbs_catoni(log_partition_lower_nats=-(nats + GIBBS["tau"] * risk), **GIBBS, **at)


FORMULAS = {
    **{
        one.__name__: _of_kl(one)
        for one in (maurer, langford_seeger, mcallester, quadratic, tolstikhin_seldin, thiemann)
    },
    "thiemann at 0.7": _of_kl(thiemann, lam=0.7),
    "catoni": _of_kl(catoni, inverse_temperature=150.0),
    "catoni_grid": _of_kl(catoni_grid, inverse_temperatures=(20.0, 75.0, 150.0, 1200.0)),
    "linear": _of_kl(linear, lam=1.5),
    "unexpected_bernstein": unexpected_bernstein,
    "split_kl": split_kl,
    "disintegrated": lambda risk, nats, **at: disintegrated(risk=risk, log_density_ratio=nats, **at),
    "disintegrated_renyi": lambda risk, nats, **at: disintegrated_renyi(risk=risk, renyi_nats=nats, **at),
    "recursive": recursive,
    "gibbs_pac_bayes": gibbs_pac_bayes,
    "gibbs_catoni": gibbs_catoni,
    "ece_pac_bayes": ece_pac_bayes,
    **{one.__name__: _alone(one) for one in (kl_chernoff, chernoff, hoeffding)},
    "new_example_kl": lambda nats, n, **at: new_example_kl(n=n, examples=2 * n, most_examples=2, **at),
    "new_example_pac_bayes": lambda nats, n, **at: new_example_pac_bayes(
        kl_nats=nats, n=n, examples=2 * n, most_examples=2, **at
    ),
}
WITHOUT_NATS = ("kl_chernoff", "chernoff", "hoeffding", "new_example_kl")
BASE = {"risk": 0.03, "nats": 5.0, "n": 600, "failure_prob": 0.05, "knob": 0.02}


@dataclass(frozen=True)
class Cell:
    """One formula at one price."""

    formula: str
    price: str

    def __str__(self):
        return f"{self.formula} at {self.price}"

    def at(self, knob=BASE["knob"]):
        """The price itself."""
        return PRICES[self.price](knob)

    def __call__(self, **values):
        given = {**BASE, **values}
        return FORMULAS[self.formula](price=self.at(given.pop("knob")), **given)


CELLS = [
    Cell(formula, price)
    for price, formula in product(PRICES, FORMULAS)
    if not (price in REALISED and formula in WITHOUT_NATS)  # no theorem: test_noisy_sums
]
CROSS = [cell for cell in CELLS if cell.price in ("independent", "sharp") or cell.formula == "maurer"]
FEW = [0.0, 1e-6, 0.01, 0.3, 0.9, 1.0]
HARDER = {
    "risk": FEW,
    "nats": [0.0, 1e-9, 1.0, 30.0, 500.0, inf],
    "n": [10**6, 60_000, 999, 50, 7, 2, 1],
    "failure_prob": [1 - 1e-12, 0.5, 0.05, 1e-6, 1e-300],
    "knob": [0.0, 1e-6, 0.01, 0.1, 1.0, 1e100, inf],
}
