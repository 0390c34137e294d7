"""The risk for a new example when people differ in size: theorems, twins, exact worlds."""

from functools import partial
from math import exp

import mpmath as mp
import numpy as np
import people_by_mpmath as slow
import pytest
from cells import within_rounding
from hypothesis import given
from hypothesis.strategies import floats, integers, tuples
from kl_by_mpmath import kl, kl_upper
from mpmath import mpf
from numpy.random import default_rng
from people_by_mpmath import ALIKE, HEAVY, UNLIKE, of

from bounds import (
    betting_upper,
    kl_chernoff_upper,
    log_xi,
    maurer,
    new_example_betting,
    new_example_kl,
    new_example_pac_bayes,
)
from bounds.means import _blind_order

LEVEL = 0.05
totals = tuples(integers(1, 400), integers(1, 60), floats(0, 1), floats(0, 1))


def told(sample, most_examples, failure_prob=LEVEL):
    counts = {"n": sample.n, "examples": sample.examples, "most_examples": most_examples}
    return {"risk": sample.example_risk, **counts, "failure_prob": failure_prob}


def by_kl(sample, most_examples, failure_prob=LEVEL):
    return new_example_kl(**told(sample, most_examples, failure_prob)).value


def by_pac_bayes(sample, most_examples, failure_prob=LEVEL):
    return new_example_pac_bayes(**told(sample, most_examples, failure_prob), kl_nats=0.0).value


def by_betting(sample, most_examples, failure_prob=LEVEL):
    return new_example_betting(sample=sample, most_examples=most_examples, failure_prob=failure_prob).value


every_bound = pytest.mark.parametrize("bound", [by_kl, by_pac_bayes, by_betting])


@given(totals)
def test_kl_of_a_ratio_against_fifty_digits(drawn):
    """At the value the sample refutes the ratio, just below it does not, and above it does everywhere."""
    n, most, part, risk = drawn
    examples = n + int(part * n * (most - 1))
    effective, nats = mpf(examples) / most, mp.log(1 / mpf(LEVEL))
    made = mpf(new_example_kl(risk=risk, n=n, examples=examples, most_examples=most, failure_prob=LEVEL).value)
    against = partial(slow.statistic, risk=risk, n=n, effective=effective, nats=nats)
    if made < 1:
        for step in (0, 1, 4, 7):
            assert against(made + (1 - made) * step / 8) >= nats
    nearly = made * (1 - mpf("1e-9"))
    assert nearly <= risk or against(nearly) < nats
    share = effective / n  # and it is never above the shifted bound
    looser = kl(share * risk + (1 - share) * nearly, nearly)
    assert nearly <= risk or looser <= nats / n


@given(totals, floats(0, 50))
def test_pac_bayes_against_fifty_digits(drawn, kl_nats):
    n, most, part, risk = drawn
    examples = n + int(part * n * (most - 1))
    counts = {"n": n, "examples": examples, "most_examples": most, "failure_prob": LEVEL}
    made = new_example_pac_bayes(risk=risk, kl_nats=kl_nats, **counts)
    nats = mpf(kl_nats) + mpf(log_xi(n)) + mp.log(1 / mpf(LEVEL))
    truth = kl_upper(risk, nats * most / examples)
    assert truth <= made.value <= truth * (1 + mpf("1e-12"))
    assert made.total_nats >= nats
    assert made.total_per_example == within_rounding(float(nats * most / examples))


@pytest.mark.parametrize(("least", "spread"), [(1, 20), (25, 2)], ids=["bets at their limit", "free bets"])
def test_betting_on_a_ratio_the_wealth_is_there(least, spread):
    """At the returned ratio the wealth, recomputed at 50 digits, is 1/failure_prob or more; it grows with the ratio."""
    rng = default_rng(4)
    sizes = rng.integers(least, 30, 40)
    sums = sizes * rng.beta(2, spread, 40)
    found = mpf(by_betting(of(sizes, sums), 30))
    order = _blind_order(of(sizes, sums).means, sizes / 30)
    sizes, sums = sizes[order], sums[order]
    wealth = partial(slow.log_wealth, sizes=sizes, sums=sums, most_examples=30, failure_prob=LEVEL)
    assert mp.log(20) - mpf("1e-9") <= wealth(found) <= mp.log(20) + mpf("1e-5")
    points = [found * k / 10 for k in range(1, 11)] + [found + (1 - found) * k / 10 for k in range(1, 10)]
    found = [wealth(point) for point in points]
    assert found == sorted(found)


@every_bound
@pytest.mark.parametrize("kinds", [UNLIKE, HEAVY, ALIKE], ids=["mixed", "heavy", "all or nothing"])
def test_coverage_of_a_new_example_over_every_sample(bound, kinds):
    truth, most = slow.new_example(kinds), max(size for _, size, _ in kinds)
    for level in (0.4, 0.06):
        told = partial(bound, most_examples=most, failure_prob=level)
        assert slow.failures(lambda a, b, told=told: told(of(a, b)), kinds, 5, truth, bound is by_betting) <= level


def test_maurer_s_lemma_for_ratios_over_every_sample():
    """E exp(K kl(R̂‖R)) ≤ ξ(n): equality is near for two people of full size, and K in place of n is all it takes."""
    for kinds in (UNLIKE, HEAVY, ALIKE, [(0.14, 10, 0), (0.86, 10, 10)]):
        truth, most = slow.new_example(kinds), max(size for _, size, _ in kinds)
        for n in (1, 2, 5):
            mean = _mean_of_exponentials(kinds, n, truth, most, power=1.0)
            assert mean <= exp(log_xi(n))
            if kinds is ALIKE:
                assert mean >= 0.999 * exp(log_xi(n))
                assert _mean_of_exponentials(kinds, n, truth, most, power=1.5) > exp(log_xi(n))
    assert _mean_of_exponentials(HEAVY, 5, slow.new_example(HEAVY), 10, power=1.0) > exp(log_xi(5))


def _mean_of_exponentials(kinds, n, truth, most, power):
    def exponential(sizes, sums):
        return float(mp.exp(power * sum(sizes) / most * kl(sum(sums) / sum(sizes), truth)))

    return slow.expectation(exponential, kinds, n)


@every_bound
def test_laws_of_a_new_example(bound):
    sizes, sums = [3, 1, 7, 2, 40, 5] * 30, [1.0, 0.0, 2.0, 2.0, 3.0, 0.0] * 30
    base = bound(of(sizes, sums), 50)
    assert of(sizes, sums).example_risk < base < 1.0
    assert bound(of(sizes, sums), 50, 0.001) > base
    assert bound(of(sizes, sums), 100) > base  # a larger limit costs
    assert bound(of(sizes, [*sums[:-1], 5.0]), 50) > base
    assert bound(of(sizes * 2, sums * 2), 50) < base
    merged = ([2 * size for size in sizes], [2 * total for total in sums])  # pairs of alike people as one
    assert bound(of(*merged), 100) >= bound(of(sizes * 2, sums * 2), 50)


@every_bound
def test_one_example_a_person_gives_the_plain_bound_back(bound):
    losses = (np.arange(50) % 7 == 0) * 1.0
    plain = {
        by_kl: kl_chernoff_upper(8 / 50, 50, LEVEL),
        by_pac_bayes: maurer(risk=8 / 50, kl_nats=0.0, n=50, failure_prob=LEVEL).value,
        by_betting: betting_upper(losses, LEVEL),
    }[bound]
    for most in (1, 12):  # and so do people who all give as many as they may
        assert bound(of(np.full(50, most), most * losses), most) == pytest.approx(plain, rel=1e-11)
