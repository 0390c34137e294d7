"""Variance-adaptive bounds on a mean: formulas and order. How often they fail: tests/coverage."""

from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from mpmath import mpf
from numpy.random import default_rng

from bounds import betting_upper, empirical_bernstein_upper, second_moment_upper
from bounds.means import ETAS, GRID_NATS, _blind_order, ratio_betting_upper

RNG = default_rng(12)
ARRAY_BOUNDS = [empirical_bernstein_upper, betting_upper]


def test_second_moment_formula():
    truth = mpf("0.2") + min(
        (-eta - mp.log(1 - eta)) / eta * mpf(0.06) + mp.log(20 / mpf(0.01)) / (eta * 500)
        for eta in (mpf(0.5 * 0.8**k) for k in range(20))
    )
    assert truth <= second_moment_upper(0.2, 0.06, 500, 0.01) <= truth * (1 + 1e-13)
    assert second_moment_upper(-0.5, 0.3, 10_000, 0.05) < 0  # signed variables


def test_empirical_bernstein_formula():
    values = default_rng(0).random(50)
    x = [mpf(v) for v in values.tolist()]
    mean = mp.fsum(x) / 50
    variance = mp.fsum((v - mean) ** 2 for v in x) / 49
    log_term = mp.log(2 / mpf(0.05))
    truth = mean + mp.sqrt(2 * variance * log_term / 50) + 7 * log_term / (3 * 49)
    assert truth <= empirical_bernstein_upper(values, 0.05) <= truth * (1 + 1e-13)


def test_betting_formal_guarantee_the_wealth_is_there():
    """At the returned mean the wealth, recomputed at 50 digits, is at least 1/failure_prob, and it grows from there."""
    values = default_rng(4).beta(2, 20, 40)
    found = betting_upper(values, 0.05)
    values = values[_blind_order(values, np.ones(40))]

    def wealth(m):
        total, spread, product = mpf("0.5"), mpf("0.25"), mpf(1)
        for i, x in enumerate((mpf(v) for v in values.tolist()), start=1):
            bet = min(mp.sqrt(2 * mp.log(20) / (40 * spread / i)), 3 / (4 * (1 - m)))
            product *= 1 + bet * (m - x)
            total += x
            spread += (x - total / (i + 1)) ** 2
        return product

    m = mpf(found)
    assert 20 * (1 - mpf("1e-9")) <= wealth(m) <= 20 * (1 + mpf("1e-6"))
    points = [m * k / 10 for k in range(1, 11)] + [m + (1 - m) * k / 10 for k in range(1, 10)]
    assert all(low <= high for low, high in pairwise(map(wealth, points)))


def test_the_order_of_draws_depends_on_what_they_are():
    """One that is always the same would hand the bets a sorted sample, shuffled by a rule that they could know."""
    first, second = (np.argsort(_blind_order(np.sort(default_rng(seed).random(40)), np.ones(40))) for seed in (0, 1))
    assert (first != second).any()


@pytest.mark.parametrize("values", [RNG.random(500), RNG.random(500) < 0.5, np.repeat([0.0, -0.0, 0.25], 40)])
def test_the_order_of_draws_changes_no_bit_of_a_bound_by_betting(values):
    values = values.astype(float)
    weights = 1.0 - 0.5 * RNG.random(values.size)
    for order in (np.argsort(values), np.argsort(-values), RNG.permutation(values.size)):
        assert betting_upper(values[order], 0.05) == betting_upper(values, 0.05)
        found = ratio_betting_upper(values[order], weights[order], 0.05)
        assert found == ratio_betting_upper(values, weights, 0.05)


@pytest.mark.parametrize("bound", ARRAY_BOUNDS)
def test_laws_of_array_bounds(bound):
    values = default_rng(3).random(30)
    by_level = [bound(values, level) for level in (0.9, 0.5, 0.05, 1e-6, 1e-300)]
    assert by_level == sorted(by_level)
    assert values.mean() <= by_level[0]
    assert by_level[-1] <= 1.0
    assert bound(np.ones(5), 0.05) == 1.0
    assert bound([0.2, 0.4], 1e-9) > 0.99
    assert bound(np.tile(values, 20), 0.05) < bound(values, 0.05)


def test_the_price_of_the_grid_is_rounded_up():
    assert mp.log(len(ETAS)) <= GRID_NATS <= mp.log(len(ETAS)) * (1 + mpf("1e-14"))
