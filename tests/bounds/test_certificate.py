"""The record: immutable, exact through JSON and pickle, honest about its status."""

import copy
import json
import pickle
from math import inf, nan

import pytest
from cells import read_again, refused
from hypothesis import given
from hypothesis.strategies import floats, integers

from bounds import Certificate, Cost, declared, maurer, proved, unproved
from bounds.prices import Independent, billed, settled

STATIONARY = unproved("chain stationary", "nobody looked")


def certificate(**changes):
    values = {
        "name": "toy",
        "value": 0.25,
        "failure_prob": 0.05,
        "hypotheses": (declared("records independent", "the caller", "example"),),
        "costs": (Cost(name="kl", nats=3.0, per_example=0.3),),
        "terms": {"empirical_risk": 0.1},
        "budget": {"bound": 0.04, "sampling": 0.01},
        "reference": "nowhere",
        "inputs": {"n": 10, "risk": 0.1, "source": "toy"},
    }
    return Certificate(**{**values, **changes})


@given(value=floats(0, 5), term=floats(allow_nan=False), n=integers(1, 10**12))
def test_json_and_pickle_round_trips_are_exact(value, term, n):
    if term == -inf:
        return
    made = certificate(value=value, terms={"x": term}, inputs={"n": n, "epsilon": inf, "source": "é"})
    for back in (read_again(made), pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):  # noqa: S301
        assert back == made
        assert back.to_json() == made.to_json()
        assert hash(back) == hash(made)
    assert json.loads(made.to_json(), parse_constant=pytest.fail)["format"] == "pacdp-certificate/2"
    assert type(read_again(made).inputs["n"]) is int


def test_value_is_capped_and_vacuous_says_so():
    assert certificate(value=7.0).value == 1.0
    assert certificate(value=1.0).vacuous
    assert not certificate().vacuous
    assert float(certificate()) == 0.25
    assert certificate(value=inf).value == 1.0


def test_optimistic_means_unproved_hypotheses_and_they_add_up():
    assert certificate().status == "rigorous"
    made = certificate().resting_on(STATIONARY)
    assert made.status == "optimistic"
    drawn = unproved("draws independent", "one chain")
    again = made.resting_on(STATIONARY, drawn)
    assert again.unproved == (STATIONARY, drawn)
    assert again.declared == certificate().hypotheses
    assert again.value == 0.25
    refused(r"^hypotheses must be at least one", certificate().resting_on)


def test_only_a_proof_takes_the_place_of_what_is_unproved():
    made = certificate().resting_on(STATIONARY)
    assert made.resting_on(declared("chain stationary", "the caller")).unproved == (STATIONARY,)
    assert made.resting_on(proved("chain stationary", "the law was sampled exactly")).status == "rigorous"
    counted = proved("records independent", "the list of people", "person")
    assert certificate().resting_on(counted).hypotheses == (counted,)


def test_charged_adds_failure_probability_and_terms():
    made = maurer(risk=0.1, kl_nats=5.0, n=1000, failure_prob=0.04).charged("sampling", 0.01, sampled_risk=0.09)
    assert made.failure_prob == pytest.approx(0.05)
    assert dict(made.budget) == {"bound": 0.04, "sampling": 0.01}
    assert made.terms["sampled_risk"] == 0.09
    refused(r"^name must be new to the budget", made.charged, "sampling", 0.01)
    refused(r"^terms must be new", made.charged, "more", 0.01, empirical_risk=1.0)


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"terms": {"x": nan}}, "x.* must be a real number"),
        ({"terms": {"x": -inf}}, "x.* must be above minus infinity"),
        ({"inputs": {"x": "inf"}}, "x.* must be a number"),
        ({"budget": {"bound": 0.06}}, "^budget sums to 0.06"),
    ],
)
def test_contradictions_are_refused(changes, sentence):
    refused(sentence, certificate, **changes)


@pytest.mark.every_case
@pytest.mark.parametrize("name", ["format", "terms", "budget", "hypotheses", "costs", "status", "inputs", "value"])
def test_a_damaged_field_is_refused(name):
    record = {**certificate().to_dict(), name: "nonsense"}
    refused(name, Certificate.from_dict, record)


def test_a_value_that_is_no_number_certifies_nothing():
    bill = billed("maurer", Independent(), 10, 0.05, kl=1.0, log_xi=1.0)
    assert settled(bill, nan, terms={}, inputs={}, reference="").value == 1.0
