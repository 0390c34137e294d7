"""Laws that every bound obeys. A new bound joins by a line in BOUNDS."""

import inspect
import itertools
import math
from functools import partial

import bounds_by_mpmath as slow
import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bounds


def split_at_a_quarter(*, risk, kl_nats, n, failure_prob):
    return bounds.split_kl(
        levels=(0.0, 0.25, 1.0), shares=(risk, risk), kl_nats=kl_nats, n=n, failure_prob=failure_prob
    )


def unexpected_bernstein_of_errors(*, risk, kl_nats, n, failure_prob):
    return bounds.unexpected_bernstein(risk=risk, second_moment=risk, kl_nats=kl_nats, n=n, failure_prob=failure_prob)


def ece_of_errors(bound, names):
    """A calibration bound for gaps of 0 and 1, as a bound on their mean."""

    def of_errors(**told):
        risk = told.pop("risk")
        squares = {"mean_squared_gap": risk} if bound is not bounds.ece_hoeffding else {}
        return bound(calibration_error=risk, **squares, **told)

    kinds = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in ("risk", *names, "n", "failure_prob")]
    of_errors.__signature__ = inspect.Signature(kinds)
    UNDERNEATH[of_errors] = bound
    return of_errors


UNDERNEATH = {split_at_a_quarter: bounds.split_kl, unexpected_bernstein_of_errors: bounds.unexpected_bernstein}
BOUNDS = {
    "maurer": bounds.maurer,
    "mcallester": bounds.mcallester,
    "quadratic": bounds.quadratic,
    "thiemann": bounds.thiemann,
    "thiemann at 0.7": partial(bounds.thiemann, lam=0.7),
    "catoni": partial(bounds.catoni, inverse_temperature=150.0),
    "linear": partial(bounds.linear, lam=1.5),
    "langford_seeger": bounds.langford_seeger,
    "tolstikhin_seldin": bounds.tolstikhin_seldin,
    "catoni_grid": partial(bounds.catoni_grid, inverse_temperatures=(20.0, 75.0, 150.0, 1200.0)),
    "split_kl": split_at_a_quarter,
    "unexpected_bernstein": unexpected_bernstein_of_errors,
    "disintegrated": bounds.disintegrated,
    "disintegrated_renyi": bounds.disintegrated_renyi,
    "recursive, one stage": partial(bounds.recursive, steps=(), gamma=0.5),
    "ece_hoeffding": ece_of_errors(bounds.ece_hoeffding, ()),
    "ece_second_moment": ece_of_errors(bounds.ece_second_moment, ()),
    "ece_pac_bayes": ece_of_errors(bounds.ece_pac_bayes, ("kl_nats",)),
    "dp_ece_pac_bayes": ece_of_errors(bounds.dp_ece_pac_bayes, ("kl_nats", "epsilon")),
    "dp_pac_bayes": bounds.dp_pac_bayes,
    "dp_pac_bayes_max_information": bounds.dp_pac_bayes_max_information,
    "dp_pac_bayes_2018": bounds.dp_pac_bayes_2018,
    "dp_kl_chernoff": bounds.dp_kl_chernoff,
    "dp_chernoff": bounds.dp_chernoff,
    "dp_hoeffding": bounds.dp_hoeffding,
    "dp_chernoff_2018": bounds.dp_chernoff_2018,
    "dp_hoeffding_2018": bounds.dp_hoeffding_2018,
}
DIVERGENCES = ("kl_nats", "log_density_ratio", "renyi_nats")
BASE = {"risk": 0.03, **dict.fromkeys(DIVERGENCES, 5.0), "n": 600, "epsilon": 0.02, "failure_prob": 0.05}
ROUNDING = 1 + 1e-13

every_bound = pytest.mark.parametrize("bound", BOUNDS.values(), ids=BOUNDS)


def call(bound, **values):
    taken = inspect.signature(bound).parameters
    return bound(**{name: value for name, value in {**BASE, **values}.items() if name in taken})


@every_bound
@given(
    risk=st.sampled_from([0.0, 1.0]) | st.floats(0, 1),
    kl_nats=st.sampled_from([0.0, math.inf]) | st.floats(0, 1e4),
    n=st.integers(1, 10**5),
    epsilon=st.sampled_from([0.0, math.inf]) | st.floats(0, 3),
    failure_prob=st.floats(1e-12, 1 - 1e-9),
)
def test_value_lies_between_the_risk_and_one(bound, risk, kl_nats, n, epsilon, failure_prob):
    nats = dict.fromkeys(DIVERGENCES, kl_nats)
    made = call(bound, risk=risk, **nats, n=n, epsilon=epsilon, failure_prob=failure_prob)
    assert risk <= made.value <= 1.0
    assert made.status == "rigorous"
    assert math.fsum(made.budget.values()) == failure_prob == made.failure_prob
    assert bounds.Certificate.from_json(made.to_json()) == made


@every_bound
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("risk", [0.0, 1e-6, 0.01, 0.3, 0.9, 1.0]),
        ("kl_nats", [0.0, 1e-9, 1.0, 30.0, 500.0, math.inf]),
        ("log_density_ratio", [-1e4, -10.0, 0.0, 1e-9, 1.0, 30.0, 500.0, math.inf]),
        ("renyi_nats", [0.0, 1e-9, 1.0, 30.0, 500.0, math.inf]),
        ("n", [10**6, 60_000, 999, 50, 7, 2, 1]),
        ("epsilon", [0.0, 1e-6, 0.01, 0.1, 1.0, 1e200, math.inf]),
        ("failure_prob", [1 - 1e-12, 0.5, 0.05, 1e-6, 1e-300]),
    ],
)
def test_less_information_never_helps(bound, name, values):
    if name not in inspect.signature(bound).parameters:
        return
    found = [call(bound, **{name: value}).value for value in values]
    assert all(better <= worse * ROUNDING for better, worse in itertools.pairwise(found))


@every_bound
def test_no_knowledge_is_exactly_one(bound):
    for name in inspect.signature(bound).parameters.keys() & {*DIVERGENCES, "epsilon"}:
        made = call(bound, **{name: math.inf})
        assert made.value == 1.0
        assert made.vacuous


@every_bound
@pytest.mark.parametrize(
    "changes", [{}, {"risk": 0.0}, {"n": 37, "epsilon": 0.3}, {"failure_prob": 1e-9, "kl_nats": 0.0}]
)
def test_value_follows_from_terms_and_inputs_alone(bound, changes):
    made = call(bound, **changes)
    for paid in made.costs:
        truth = slow.cost(paid.name, made)
        assert truth <= paid.nats <= truth * (1 + mp.mpf("1e-11")), paid.name  # rounded up, barely
        assert paid.nats <= mp.mpf(paid.per_example) * made.inputs["n"] <= paid.nats * (1 + mp.mpf("1e-14")), paid.name
    risk = made.terms.get("empirical_risk")
    assert risk is None or slow.empirical_risk(made.inputs) <= risk <= slow.empirical_risk(made.inputs) * (1 + 1e-14)
    truth = min(mp.mpf(1), slow.VALUES[made.name](made))
    assert truth * (1 - mp.mpf("1e-25")) <= made.value <= truth * (1 + mp.mpf("1e-9"))


@every_bound
def test_nan_and_misuse_are_refused_by_name(bound):
    wrong = {
        "risk": [math.nan, -0.1, 1.1, "0.1", np.float32(0.1)],
        "kl_nats": [math.nan, -1e-9, None],
        "log_density_ratio": [math.nan, -math.inf, None],
        "renyi_nats": [math.nan, -1e-9, None],
        "n": [0, -5, 600.0, True, math.nan],
        "epsilon": [math.nan, -0.1],
        "failure_prob": [math.nan, 0.0, 1.0, 1.5],
    }
    for name in inspect.signature(bound).parameters.keys() & wrong.keys():
        for value in wrong[name]:
            with pytest.raises(ValueError, match=rf"^({name}|shares|calibration_error) must"):
                call(bound, **{name: value})
    if "kl_nats" in inspect.signature(bound).parameters:
        with pytest.raises(ValueError, match=r"max\(0, estimate\) and declare"):
            call(bound, kl_nats=-2.0)


@every_bound
def test_every_bound_is_public_and_says_what_it_guarantees(bound):
    function = bound.func if isinstance(bound, partial) else UNDERNEATH.get(bound, bound)
    assert getattr(bounds, function.__name__) is function
    assert "Formal guarantee" in function.__doc__
    assert call(bound).name == function.__name__
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in inspect.signature(function).parameters.values())
