"""The wider catalogue: a simulated failure probability, and formulas at 50 digits."""

from dataclasses import replace
from fractions import Fraction
from math import exp, fsum, inf, log, pi

import mpmath as mp
import numpy as np
import pytest
from cells import KNOWN, within_rounding
from kl_by_mpmath import kl_upper
from mpmath import mpf
from numpy.random import default_rng
from scipy.stats import binom

from bounds import (
    Accounted,
    ApproxDP,
    Sharp,
    disintegrated,
    disintegrated_renyi,
    kl_chernoff,
    log_xi,
    maurer,
    prior_scale_grid,
    recursive,
)
from bounds.divergence import gaussian_kl, gaussian_log_density_ratio, gaussian_renyi
from bounds.pac_bayes import _split
from bounds.refined import ExcessStep


def test_scales_are_rounded_to_the_grid_and_paid_for():
    near = prior_scale_grid(scale=0.037, largest=0.1, precision=100)
    assert [point.index for point in near] == [99, 100]
    assert near[0].scale > 0.037 > near[1].scale
    for point in near:
        assert point.scale == 0.1 * exp(-point.index / 100)
        assert point.nats == pytest.approx(2 * log(point.index) + log(pi**2 / 6), rel=1e-14)
    total = fsum(exp(-prior_scale_grid(scale=exp(-j), largest=1.0, precision=1)[0].nats) for j in range(1, 700))
    assert 0.998 < total < 1.0  # the weights are those of a prior
    for scale in (0.0999, 0.1, 5.0):  # above the grid: its first point, never index 0 or below
        (first,) = {point.index for point in prior_scale_grid(scale=scale, largest=0.1, precision=100)}
        assert first == 1


@pytest.mark.slow
def test_coverage_of_one_draw_under_a_prior_that_met_the_sample():
    """The exponential mechanism names a hypothesis, the prior leans on it; what the split does not pay for, fails."""
    rng, price, failed = default_rng(8), Sharp(epsilon=1.5), np.zeros(3)
    risks = rng.uniform(0.15, 0.35, 300)
    for counts in rng.binomial(40, risks, size=(1500, 300)):
        chance = np.exp(-0.75 * counts)  # replacing one example moves each count by at most one
        prior = np.full(300, 0.01 / 299)
        prior[rng.choice(300, p=chance / chance.sum())] = 0.99
        posterior = prior * np.exp(-0.2 * counts)
        posterior /= posterior.sum()
        w = rng.choice(300, p=posterior)
        at = {"risk": counts[w] / 40, "n": 40, "failure_prob": 0.2}
        told = (
            disintegrated(**at, log_density_ratio=log(posterior[w] / prior[w]), price=price),
            disintegrated_renyi(**at, renyi_nats=log(posterior @ (posterior / prior)), price=price),
            kl_chernoff(**at),
        )
        failed += [one.value < risks[w] for one in told]
    assert failed[2] > 1.3 * 0.2 * 1500  # the release does overfit
    assert (binom.sf(failed[:2] - 1, 1500, 0.2) > 1e-6).all()


def test_how_a_failure_probability_is_split_does_not_depend_on_what_was_measured():
    """A share chosen by looking at the density ratio would have to be paid for."""
    for price in (Sharp(epsilon=0.01), Sharp(epsilon=3.0)):
        at = {"n": 500, "failure_prob": 0.05, "price": price}
        ratios = [disintegrated(risk=0.1, log_density_ratio=x, **at) for x in (-1e17, 0.0, 1e17)]
        divergences = [disintegrated_renyi(risk=0.1, renyi_nats=x, **at) for x in (0.0, 3.0, 1e17, inf)]
        for made in (ratios, divergences):
            assert len({tuple(one.budget.items()) for one in made}) == 1


def test_one_draw_pays_what_the_formula_says():
    at = {"risk": 0.1, "n": 500, "failure_prob": 0.05}
    by_order_two = disintegrated_renyi(renyi_nats=3.0, **at)
    assert fsum(one.nats for one in by_order_two.costs) == within_rounding(3.0 + log_xi(500) + log(8 / 0.05**3))
    assert disintegrated(log_density_ratio=3.0, **at).value < by_order_two.value


@pytest.mark.parametrize("whole", [0.05, 0.3, 1e-9])
def test_a_split_is_no_more_than_the_whole_and_leaves_the_price_what_it_needs(whole):
    for share in (0.5, 0.2, 0.05, 0.01):
        assert sum(map(Fraction, _split(whole, share))) <= Fraction(whole)
    delta = 0.8 * whole / 500  # one half of the failure probability is too little for it
    price = Accounted(privacy=ApproxDP(epsilon=0.01, delta=delta, **KNOWN))
    made = disintegrated(risk=0.1, log_density_ratio=1.0, n=500, failure_prob=whole, price=price)
    assert made.terms["draw_prob"] < 0.2 * whole


def test_gaussian_costs_of_one_draw():
    rng = default_rng(9)
    mean_q, mean_p, std_q, std_p = (rng.normal(size=30), rng.normal(size=30), 0.3, rng.uniform(0.2, 1.0, 30))
    weights = mean_q + std_q * rng.normal(size=30)
    truth = mp.fsum(
        mp.log(mpf(s) / mpf(std_q)) + ((mpf(w) - mpf(b)) / mpf(s)) ** 2 / 2 - ((mpf(w) - mpf(a)) / mpf(std_q)) ** 2 / 2
        for w, a, b, s in zip(weights.tolist(), mean_q.tolist(), mean_p.tolist(), std_p.tolist(), strict=True)
    )
    found = gaussian_log_density_ratio(weights, mean_q, std_q, mean_p, std_p)
    assert truth <= found <= truth + mpf("1e-10")
    assert gaussian_renyi(mean_q, mean_p, 0.3) == within_rounding(2 * gaussian_kl(mean_q, 0.3, mean_p, 0.3))
    assert gaussian_renyi([1e200], [0.0], 1e-200) == inf
    assert gaussian_log_density_ratio([0.0], [1e200], 1e-200, [1e200], 1e-200) == inf


STEPS = (
    ExcessStep(shares=(0.95, 0.08, 0.02), kl_nats=12.0, n=4_000),
    ExcessStep(shares=(0.97, 0.06, 0.01), kl_nats=30.0, n=2_000),
)
CHAIN = {"risk": 0.12, "kl_nats": 5.0, "n": 8_000, "gamma": 0.5, "failure_prob": 0.05}


def test_recursion_at_fifty_digits():
    made = recursive(**CHAIN, steps=STEPS)
    gamma = mpf("0.5")
    bound = kl_upper(0.12, (5 + mpf(log_xi(8000)) + mp.log(3 / mpf(0.05))) / 8000)
    for step in STEPS:
        c = (mpf(step.kl_nats) + mpf(log_xi(step.n)) + mp.log(9 / mpf(0.05))) / step.n
        widths = (gamma, 1 - gamma, gamma)
        excess = -gamma + sum(width * kl_upper(share, c) for width, share in zip(widths, step.shares, strict=True))
        bound = excess + gamma * bound
    assert bound <= made.value <= bound * (1 + mpf("1e-12"))
    assert made.terms["bound_3"] == made.value


def test_recursion_laws():
    alone = recursive(**CHAIN, steps=())
    assert alone.value == maurer(risk=0.12, kl_nats=5.0, n=8_000, failure_prob=0.05).value
    first, second = STEPS
    assert recursive(**CHAIN, steps=(first, replace(second, kl_nats=inf))).value == 1.0
