"""Laws that every formula obeys at every price. A new formula or price joins by a line in cells.py."""

import inspect
from itertools import pairwise
from math import fsum, inf, nan

import bounds_by_mpmath as slow
import numpy as np
import pytest
from cells import (
    BASE,
    CELLS,
    CLOSED,
    CROSS,
    FORMULAS,
    HARDER,
    KNOWN,
    PRICES,
    WITHOUT_NATS,
    Cell,
    read_again,
    refused,
    within_rounding,
)
from hypothesis import given, settings
from hypothesis.strategies import floats, integers, sampled_from
from mpmath import mpf

import bounds
from bounds import GaussianDP, Independent, Sharp, ece_hoeffding, ece_second_moment
from bounds.printed import dp_chernoff_2018, dp_hoeffding_2018

ROUNDING = 1 + 1e-13
FIXED_TEMPERATURE = ("catoni", "catoni_grid", "gibbs_catoni")
pytestmark = pytest.mark.every_case


def spread(cells, every=3):
    """A third of these by default, in which every formula meets every third price, and all that others rest on."""
    place = {cell: list(PRICES).index(cell.price) + list(FORMULAS).index(cell.formula) for cell in cells}
    marks = [() if cell in CROSS or place[cell] % every == 0 else pytest.mark.slow for cell in cells]
    given = [pytest.param(cell, marks=mark) for cell, mark in zip(cells, marks, strict=True)]
    return pytest.mark.parametrize("cell", given, ids=str)


every_cell = spread(CELLS)
closed_cells = spread([cell for cell in CELLS if cell.price in CLOSED])
cross = spread(CELLS, every=999)


def holds_together(made, risk):
    assert risk <= made.value <= 1.0
    assert made.failure_prob * (1 - 1e-12) <= fsum(made.budget.values()) <= made.failure_prob * (1 + 1e-15)
    assert read_again(made) == made


@every_cell
def test_a_certificate_whose_needs_are_met_is_rigorous(cell):
    made = cell()
    assert made.status == "rigorous"
    holds_together(made, BASE["risk"])
    names = {one.name for one in made.hypotheses}
    assert names >= {"records independent", "new data follow the same law", "settings fixed beforehand"}


@closed_cells
@settings(max_examples=settings.default.max_examples // 3)
@given(
    risk=sampled_from([0.0, 1.0]) | floats(0, 1),
    nats=sampled_from([0.0, inf]) | floats(0, 1e4),
    n=integers(1, 10**5),
    knob=sampled_from([0.0, inf]) | floats(0, 3),
    failure_prob=floats(1e-12, 1 - 1e-3),
)
def test_value_lies_between_the_risk_and_one(cell, risk, nats, n, knob, failure_prob):
    holds_together(cell(risk=risk, nats=nats, n=n, knob=knob, failure_prob=failure_prob), risk)


@cross
def test_less_information_never_helps(cell):
    for name, values in HARDER.items():
        if name in ("n", "failure_prob", "knob") and cell.price not in CLOSED:
            continue  # test_prices_rise, and costs enter as nats do
        if name == "n" and cell.formula in FIXED_TEMPERATURE and cell.price != "independent":
            continue  # the cost, which grows with n, is no longer divided by it
        kept = [value for value in values if name != "failure_prob" or value + 1e-4 < 1]
        if name == "n" and cell.formula == "recursive":
            kept.remove(1)  # which has no parts
        negative = [-1e4, -10.0] if name == "nats" and cell.formula == "disintegrated" else []
        found = [cell(**{name: value}).value for value in [*negative, *kept]]
        assert all(better <= worse * ROUNDING for better, worse in pairwise(found)), name


@pytest.mark.parametrize("price", [price for price in PRICES if price not in CLOSED])
def test_prices_rise(price):
    for name in ("n", "failure_prob", "knob"):
        values = {"n": [600, 3000], "failure_prob": [0.5, 0.05], "knob": [0.0, 0.02, 1.0]}[name]
        given = [{"n": 600, "failure_prob": 0.05, "knob": 0.02, name: value} for value in values]
        found = [PRICES[price](at.pop("knob")).charge(**at).nats for at in given]
        assert all(better <= worse * (1 + 1e-6) for better, worse in pairwise(found))


@cross
def test_no_knowledge_is_exactly_one(cell):
    if cell.formula not in WITHOUT_NATS:
        assert cell(nats=inf).value == 1.0
    if cell.price not in ("independent", "grid"):
        assert cell(knob=inf).vacuous


@closed_cells
def test_no_loss_of_privacy_is_independence(cell):
    """Two draws of one budget aside: a draw from a private posterior is paid for apart from the prior."""
    if cell.price in ("sharp", "pure"):
        alone, free = Cell(cell.formula, "independent")(), cell(knob=0.0)
        assert alone.value <= free.value * ROUNDING
        assert cell.formula.startswith("disintegrated") or free.value == within_rounding(alone.value)


@every_cell
def test_costs_add_up_and_value_follows_from_costs_and_inputs_alone(cell, whole):
    less = 0.3 if cell.price in ("approximate", "grid") else 1e-5  # their losses without a bound leave nothing of less
    knob = BASE["knob"] if cell.price == "concentrated" else 0.3  # quadrature at 40 digits is slow far out
    changed = {"risk": 0.0, "nats": 0.0}, {"n": 37, "knob": knob}, {"failure_prob": less}
    some = changed if whole else [changed[CROSS.index(cell) % 3]] if cell in CROSS else []
    for changes in ({}, *some):
        follows_from_its_costs(cell, changes)


def follows_from_its_costs(cell, changes):
    made = cell(**changes)
    price = cell.at(changes.get("knob", BASE["knob"]))
    room = mpf("1e-11") if cell.price in CLOSED else mpf("1e-6")
    for paid in made.costs:
        truth = slow.cost(paid.name, made, price)
        assert truth <= paid.nats <= truth * (1 + room) + 1e-12, paid.name  # rounded up, barely
        assert paid.nats <= mpf(paid.per_example) * made.inputs["n"] <= paid.nats * (1 + mpf("1e-14")), paid.name
    assert [one.name for one in made.costs].count("transfer") == (cell.price != "independent")
    for total, parts in (
        (made.total_nats, [one.nats for one in made.costs]),
        (made.total_per_example, [one.per_example for one in made.costs]),
    ):
        assert sum(map(mpf, parts)) <= total <= sum(map(mpf, parts)) * (1 + mpf("1e-14"))
    risk = made.terms.get("empirical_risk")
    assert risk is None or slow.empirical_risk(made.inputs) <= risk <= slow.empirical_risk(made.inputs) * (1 + 1e-14)
    truth = slow.value(made, cell.formula)
    above = mpf("1e-3") if cell.formula == "gibbs_pac_bayes" else truth * mpf("1e-9")
    assert truth * (1 - mpf("1e-25")) <= made.value <= truth + above


UNPRICED = {
    "ece_hoeffding": lambda **at: ece_hoeffding(calibration_error=at.pop("risk"), **at),
    "ece_second_moment": lambda **at: ece_second_moment(
        calibration_error=at["risk"], mean_squared_gap=at.pop("risk"), **at
    ),
    "dp_hoeffding_2018": lambda **at: dp_hoeffding_2018(epsilon=0.02, **at),
    "dp_chernoff_2018": lambda **at: dp_chernoff_2018(epsilon=0.02, **at),
}


@pytest.mark.parametrize("name", UNPRICED)
def test_bounds_of_one_price_obey_the_laws(name):
    base = {"risk": 0.03, "n": 600, "failure_prob": 0.05}
    for changes in ({}, {"risk": 0.0}, {"n": 37}, {"failure_prob": 1e-9}):
        made = UNPRICED[name](**{**base, **changes})
        assert made.name == name
        holds_together(made, {**base, **changes}["risk"])
        for paid in made.costs:
            truth = slow.cost(paid.name, made, Independent())
            assert truth <= paid.nats <= truth * (1 + mpf("1e-11"))
        truth = slow.value(made)
        assert truth * (1 - mpf("1e-25")) <= made.value <= truth * (1 + mpf("1e-9"))
    for word in base:
        found = [UNPRICED[name](**{**base, word: value}).value for value in HARDER[word]]
        assert all(better <= worse * ROUNDING for better, worse in pairwise(found))


PARTIALS = {
    "dp_pac_bayes": ("maurer", "sharp"),
    "dp_pac_bayes_max_information": ("langford_seeger", "max_information"),
    "dp_pac_bayes_2018": ("langford_seeger", "printed_2018"),
    "dp_kl_chernoff": ("kl_chernoff", "sharp"),
    "dp_chernoff": ("chernoff", "sharp"),
    "dp_hoeffding": ("hoeffding", "sharp"),
    "dp_ece_pac_bayes": ("ece_pac_bayes", "sharp"),
    "dp_gibbs_pac_bayes": ("gibbs_pac_bayes", "sharp"),
    "private_pac_bayes": ("maurer", "gaussian"),
    "private_catoni": ("catoni", "gaussian"),
    "private_kl_chernoff": ("kl_chernoff", "gaussian"),
    "private_ece_pac_bayes": ("ece_pac_bayes", "gaussian"),
}


@pytest.mark.parametrize("name", PARTIALS)
def test_names_of_papers_and_users_are_cells(name):
    cell, partial = Cell(*PARTIALS[name]), getattr(bounds.printed, name)
    made = cell()
    wanted = inspect.signature(partial).parameters
    known = {**made.inputs, "privacy": GaussianDP(mu=BASE["knob"], **KNOWN)}
    assert partial(**{word: known[word] for word in wanted}) == made
    assert made.name == name


@pytest.mark.parametrize("formula", FORMULAS)
def test_nan_and_misuse_are_refused_by_name(formula):
    cell = Cell(formula, "sharp")
    wrong = {
        "risk": [nan, -0.1, 1.1, "0.1", np.float32(0.1)],
        "n": [0, 600.0, 2**53 + 1],
        "failure_prob": [nan, 0.0, 1.0],
        "knob": [nan, -0.1],
    }
    if formula.startswith("gibbs"):
        del wrong["risk"]  # test_bounds_refusals.py
    elif formula == "disintegrated":
        wrong["nats"] = [nan, -inf]
    elif formula not in WITHOUT_NATS:
        wrong["nats"] = [nan, -1e-9]
    names = {"nats": "kl_nats|log_density_ratio|renyi_nats", "risk": "risk|shares|calibration_error", "knob": "epsilon"}
    for word, values in wrong.items():
        for value in values:
            refused(rf"^({names.get(word, word)}) must", cell, **{word: value})
    refused(
        r"^price must be one of bounds\.prices",
        FORMULAS[formula],
        risk=0.03,
        nats=5.0,
        n=600,
        failure_prob=0.05,
        price=Sharp,
    )
