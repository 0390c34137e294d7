"""No bound fails more often than it says, and broken bounds are caught by the same test."""

import inspect
import re
from dataclasses import replace
from math import inf

import pytest

import bounds
from bounds import Certificate
from tests.coverage.broken import BROKEN
from tests.coverage.entries import ENTRIES
from tests.coverage.harness import FRACTIONS, LEVEL, run, run_at, worst
from tests.coverage.priced import PRICED

ELSEWHERE = {"Monitor, upper limit", "Monitor, lower limit"}  # on every stream of coins: bounds/test_monitor.py
WITH_MANY = {"exchangeable, alarm"}  # data sets two thirds of the cost are shown to be too little
every_entry = pytest.mark.parametrize(
    "entry",
    [pytest.param(one, marks=pytest.mark.slow if one.name in ELSEWHERE else ()) for one in [*ENTRIES, *PRICED]],
    ids=lambda entry: entry.name,
)

SIZES = (100, 200, 500, 1000, 2000, 20_000)
"""Numbers of data sets, of which a bound is tried on the least that shows a part of its cost to be too little."""


def check(entry, sizes, others=inf):
    datasets = next((size for size in sizes if has_power(entry, size)), None)
    assert datasets, f"{entry.caught:.2g} of the cost will do"
    outcomes = run(entry, datasets, others)
    for outcome in outcomes:
        assert outcome.p_value >= LEVEL, outcome
    assert worst(outcomes).interval[1] >= entry.share * worst(outcomes).nominal  # and not absurdly rarely


def has_power(entry, datasets):
    return min(outcome.p_value for outcome in run_at(entry, datasets, entry.caught)) < LEVEL


@pytest.mark.every_case
@every_entry
def test_bounds_fail_at_most_as_often_as_they_say_and_for_less_than_their_cost_more_often(entry):
    check(entry, SIZES, others=200)


@pytest.mark.slow
@pytest.mark.every_case
@every_entry
def test_bounds_fail_at_most_as_often_as_they_say_on_twenty_thousand_data_sets(entry):
    check(replace(entry, caught=FRACTIONS[0]) if entry.name in WITH_MANY else entry, SIZES[-1:])


@pytest.mark.every_case
@pytest.mark.parametrize("entry", BROKEN, ids=lambda entry: entry.name)
def test_broken_bounds_are_caught(entry):
    assert any(worst(run(entry, size)).p_value < LEVEL for size in SIZES[:-1])


PRINTED = {name: getattr(bounds.printed, name) for name in bounds.printed.__all__}


def test_every_public_bound_has_an_entry():
    public = {name: thing for name, thing in {**PRINTED, **vars(bounds)}.items() if inspect.isfunction(thing)}
    certificates = {name for name, f in public.items() if inspect.signature(f).return_annotation is Certificate}
    tails = {name for name in public if name.endswith("_upper") and "Formal guarantee" in public[name].__doc__}
    # inputs of bounds that are held to their exact values elsewhere, and an estimate that guarantees nothing
    elsewhere = {"binary_kl_upper", "gibbs_kl_upper", "correlated_risk_upper"}
    named = set(re.findall(r"\w+", " ".join(entry.name for entry in [*ENTRIES, *PRICED])))
    assert (certificates | tails) - elsewhere - named == set()
    assert len(certificates) > 25
