"""Which bound is never above which."""

from itertools import pairwise
from math import ceil, inf, isnan

import pytest
from hypothesis import example, given
from hypothesis.strategies import floats, integers, just, sampled_from

import bounds
from bounds import (
    MaxInformation,
    Sharp,
    catoni,
    clopper_pearson_upper,
    gibbs_risk_upper,
    hoeffding_upper,
    kl_chernoff_upper,
    langford_seeger,
    linear,
    maurer,
    mcallester,
    second_moment_upper,
    thiemann,
    tolstikhin_seldin,
    weighted_risk_upper,
)
from bounds.printed import (
    Printed2018,
    dp_chernoff,
    dp_chernoff_2018,
    dp_hoeffding,
    dp_hoeffding_2018,
    dp_kl_chernoff,
)

RISKS = sampled_from([0.0, 1.0]) | floats(0, 1) | floats(-12, 0).map(lambda x: 10.0**x)
NATS = sampled_from([0.0, inf]) | floats(-9, 6).map(lambda x: 10.0**x)
COUNTS = integers(1, 10**6)
LEVELS = floats(-300, -1e-9).map(lambda x: 10.0**x)
EPSILONS = just(0.0) | floats(-9, 1).map(lambda x: 10.0**x)
SLACK = 1 + 1e-13  # of rounding: both sides are rounded up


def by_position(bound):
    return lambda **at: bound(*(at[name] for name in ("mean", "draws", "failure_prob")))


def exact(mean, draws, failure_prob):
    k = mean * draws
    return clopper_pearson_upper(k if isnan(k) else ceil(k), draws, failure_prob)


TAILS = {
    "kl_chernoff_upper": by_position(kl_chernoff_upper),
    "hoeffding_upper": by_position(hoeffding_upper),
    "clopper_pearson_upper": exact,
    "second_moment_upper": lambda mean, draws, failure_prob: second_moment_upper(mean, mean, draws, failure_prob),
    "gibbs_risk_upper": lambda **at: float(gibbs_risk_upper(**at)),
    "weighted_risk_upper": lambda mean, draws, failure_prob: float(
        weighted_risk_upper(values=[mean] * draws, weights=[1.0] * draws, failure_prob=failure_prob)
    ),
}
every_tail = pytest.mark.parametrize("bound", TAILS.values(), ids=TAILS)


@every_tail
@given(mean=sampled_from([0.0, 1.0]) | floats(0, 1), draws=integers(1, 300), failure_prob=LEVELS)
def test_tails_lie_between_the_mean_and_one(bound, mean, draws, failure_prob):
    if bound is exact:
        failure_prob = min(0.5, failure_prob)  # beyond, its quantile may lie below the mean
    assert mean <= bound(mean=mean, draws=draws, failure_prob=failure_prob) <= 1.0


@every_tail
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("mean", [0.0, 1e-6, 0.01, 0.3, 0.9, 1.0]),
        ("draws", [1000, 100, 50, 20, 10]),  # multiples, so that a mean of 0.3 is a count
        ("failure_prob", [1 - 1e-12, 0.5, 0.05, 1e-6, 1e-300]),
    ],
)
def test_less_information_never_helps_a_tail(bound, name, values):
    found = [bound(**{"mean": 0.3, "draws": 100, "failure_prob": 0.05, name: value}) for value in values]
    assert all(better <= worse * SLACK for better, worse in pairwise(found))


@given(risk=RISKS, kl_nats=NATS, n=COUNTS, failure_prob=LEVELS, lam=floats(1e-6, 2 - 1e-6))
def test_maurer_is_never_above_its_relaxations(lam, **at):
    tight = maurer(**at).value
    quadratic = bounds.quadratic(**at).value
    for looser in (langford_seeger, mcallester, tolstikhin_seldin, thiemann):
        assert tight <= looser(**at).value
    assert tight <= quadratic <= thiemann(**at, lam=lam).value * SLACK
    assert quadratic <= tolstikhin_seldin(**at).value * SLACK


@given(risk=RISKS, kl_nats=NATS, n=COUNTS, failure_prob=LEVELS, lam=floats(0.51, 1e6))
def test_linear_is_never_below_catoni(lam, **at):
    assert catoni(**at, inverse_temperature=at["n"] / lam).value <= linear(**at, lam=lam).value * SLACK


@given(risk=RISKS, n=COUNTS, epsilon=EPSILONS, failure_prob=LEVELS)
def test_kl_chernoff_is_never_above_its_relaxations_nor_the_printed_forms_of_2018(**at):
    tight = dp_kl_chernoff(**at).value
    assert tight <= dp_chernoff(**at).value <= dp_chernoff_2018(**at).value * SLACK
    assert tight <= dp_hoeffding(**at).value <= dp_hoeffding_2018(**at).value * SLACK


@given(risk=RISKS, kl_nats=NATS, n=COUNTS, epsilon=EPSILONS, failure_prob=LEVELS)
def test_the_sharp_transfer_and_prior_are_never_above_the_older_ones(risk, kl_nats, epsilon, **at):
    sharp, *older = (kind(epsilon=epsilon) for kind in (Sharp, MaxInformation, Printed2018))
    tight = maurer(risk=risk, kl_nats=kl_nats, price=sharp, **at).value
    for price in older:
        assert sharp.charge(**at).nats <= price.charge(**at).nats * SLACK
        assert tight <= langford_seeger(risk=risk, kl_nats=kl_nats, price=price, **at).value


@given(k=integers(0, 400), n=integers(1, 400), failure_prob=LEVELS)
@example(k=35, n=165, failure_prob=1e-290)  # SciPy's quantile is far above
def test_exact_is_never_above_kl_chernoff_nor_that_above_hoeffding(k, n, failure_prob):
    k = min(k, n)
    exact = clopper_pearson_upper(k, n, failure_prob)
    chernoff = kl_chernoff_upper(k / n, n, failure_prob)
    assert exact <= chernoff * SLACK
    assert chernoff <= hoeffding_upper(k / n, n, failure_prob) * SLACK
