"""People as records: sums, bounds for a new person, Monte Carlo with fresh weights, private priors."""

from fractions import Fraction
from math import fsum, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis.strategies import booleans, floats, integers, lists, tuples
from numpy.random import default_rng
from people_by_mpmath import of
from scipy.stats import chisquare

import bounds
from bounds import (
    betting_upper,
    clopper_pearson_upper,
    empirical_bernstein_upper,
    for_a_new_person,
    gibbs_risk_upper,
    hoeffding_upper,
    kl_chernoff_upper,
    maurer,
    new_example_monte_carlo,
    new_person_monte_carlo,
    people_sample,
    second_moment_upper,
    thinned,
)
from bounds.printed import dp_pac_bayes

OF_MEANS = {
    "kl": lambda values, level: kl_chernoff_upper(float(np.mean(values)), len(values), level),
    "hoeffding": lambda values, level: hoeffding_upper(float(np.mean(values)), len(values), level),
    "bernstein": empirical_bernstein_upper,
    "second_moment": lambda values, level: second_moment_upper(
        float(np.mean(values)), float(np.mean(values**2)), len(values), level
    ),
    "betting": betting_upper,
}
every_bound = pytest.mark.parametrize("name", OF_MEANS)
TINY = 5e-324  # the smallest float: below it nothing is rounded relative to what it is
SIZES, SUMS = [3, 1, 7, 2, 40, 5], [1.0, 0.0, 2.0, 2.0, 3.0, 0.0]


def new_person(name, sample, failure_prob=0.05):
    return getattr(bounds, f"new_person_{name}")(sample=sample, failure_prob=failure_prob)


@given(lists(tuples(integers(0, 9), floats(0, 1)), min_size=1, max_size=60), booleans())
def test_sums_are_those_of_the_definition_rounded_up(rows, counted):
    people = np.array([person for person, _ in rows])
    losses = np.array([float(loss > 0.5) if counted else loss for _, loss in rows])
    sample = people_sample(losses=losses, people=people)
    found = sorted(zip(sample.sizes.tolist(), sample.sums.tolist(), strict=True))
    exact = sorted((int((people == p).sum()), fsum(losses[people == p])) for p in set(people.tolist()))
    for (size, total), (count, truth) in zip(found, exact, strict=True):
        assert size == count
        assert truth <= total <= min(size, truth * (1 + 1e-13) + TINY)
        assert total == truth or not counted
    for size, total, mean in zip(sample.sizes.tolist(), sample.sums.tolist(), sample.means.tolist(), strict=True):
        assert 0 <= Fraction(mean) - Fraction(total) / size <= 2.0**-51 * Fraction(mean) + Fraction(TINY)
    mean = fsum(total / size for size, total in exact) / sample.n
    assert mean * (1 - 1e-15) <= sample.person_risk <= min(1.0, mean * (1 + 1e-13) + 1e-300)
    assert fsum(losses) / len(rows) * (1 - 1e-15) <= sample.example_risk <= 1.0
    assert sample.person_risk**2 * (1 - 1e-9) <= sample.person_second_moment <= sample.person_risk * (1 + 1e-9)


def test_thinning_keeps_at_most_so_many_and_everyone_and_draws_without_favour():
    people = np.repeat([5, 2, 9], [1, 4, 40])
    kept = thinned(people=people, most_examples=4, seed=0)
    assert (np.diff(kept) > 0).all()
    assert dict(zip(*np.unique(people[kept], return_counts=True), strict=True)) == {5: 1, 2: 4, 9: 4}
    assert (thinned(people=people, most_examples=40, seed=0) == np.arange(45)).all()
    drawn = np.concatenate([thinned(people=people, most_examples=4, seed=seed)[5:] for seed in range(600)])
    assert chisquare(np.bincount(drawn - 5, minlength=40)).pvalue > 1e-4


def test_thinning_is_blind_to_an_order_that_the_same_seed_made():
    """Of a shuffled table it kept those that stood first before, as by class."""
    for seed in range(5):
        order = default_rng(seed).permutation(600)
        kept = thinned(people=np.arange(600) // 10, most_examples=2, seed=seed)
        assert abs(order[kept].mean() - 299.5) < 75.0


@every_bound
def test_one_example_a_person_gives_the_plain_bound_back(name):
    for losses in ((np.arange(50) % 7 == 0) * 1.0, default_rng(0).random(50)):
        sample = people_sample(losses=losses, people=np.arange(50))
        plain = OF_MEANS[name](sample.sums, 0.05)
        assert plain * (1 - 1e-12) <= new_person(name, sample).value <= plain * (1 + 1e-12)
    alone = people_sample(losses=(np.arange(50) % 7 == 0) * 1.0, people=np.arange(50))
    exact = clopper_pearson_upper(8, 50, 0.05)
    assert new_person("clopper_pearson", alone).value == exact <= new_person("kl", alone).value


@every_bound
def test_laws_of_a_new_person(name):
    sample = of(SIZES, SUMS)
    base = new_person(name, sample)
    assert (base.measures, base.inputs["n"], base.inputs["examples"]) == ("risk of a new person", 6, 58)
    assert base.hypothesis("records independent").unit == "person"
    assert base.total_nats >= log(20)
    assert sample.person_risk <= base.value <= 1.0
    assert new_person(name, sample, 0.001).value >= base.value
    worse = of(SIZES, [*SUMS[:-1], 5.0])
    assert new_person(name, worse).value >= base.value
    assert new_person(name, of(SIZES * 8, SUMS * 8)).value <= base.value
    merged = of([2 * size for size in SIZES * 4], [2 * total for total in SUMS * 4])  # pairs of alike people as one
    assert new_person(name, merged).value >= new_person(name, of(SIZES * 8, SUMS * 8)).value


def test_monte_carlo_formal_guarantee_counts_the_largest_weight():
    """And no more draws: tests/coverage has people of whom one has one example, and what counts all examples fails."""
    sizes, passes, level = [1, 6, 6], 2, 0.3
    sample = of(sizes, [0.5, 2.0, 0.0])
    made = new_person_monte_carlo(sample=sample, passes=passes, failure_prob=level)
    assert made.terms["monte_carlo_draws"] == 3 * passes * 1
    assert made.value == gibbs_risk_upper(mean=sample.person_risk, draws=6, failure_prob=level).value
    pooled = new_example_monte_carlo(sample=sample, passes=passes, failure_prob=level)
    assert pooled.terms["monte_carlo_draws"] == 13 * passes


def test_private_formulas_take_people_as_records():
    """The same price with n people: a formula knows records only, so that the law is the same number."""
    sample = of(SIZES * 200, SUMS * 200)
    told = {"risk": sample.person_risk, "kl_nats": 3.0, "n": sample.n, "failure_prob": 0.05}
    for made in (maurer(**told), dp_pac_bayes(**told, epsilon=0.1)):
        of_person = for_a_new_person(made)
        assert of_person.value == made.value
        assert of_person.measures == "risk of a new person"
        assert of_person.hypothesis("records independent").unit == "person"
        assert of_person.status == made.status
