"""Prices of noisy sums: their numbers, the theorem itself by quadrature, how runs become prices, and refusals."""

import math
from functools import partial
from itertools import product
from math import exp, pi, prod

import mpmath as mp
import noisy_by_mpmath as slow
import numpy as np
import pytest
from cells import ALPHAS, FORMULAS, WITHOUT_NATS, nats, refused, steps
from hypothesis import given
from hypothesis.strategies import floats, integers
from mpmath import mpf
from numpy.random import default_rng

import bounds
from bounds import (
    PoissonSum,
    RealisedPoissonSum,
    RealisedSum,
    WorstCaseSum,
    maurer,
    noisy_sum_realised,
    noisy_sum_worst_case,
    poisson_sum_realised,
    unproved,
)
from bounds.accounting import Composed, Gaussian, PoissonSampled, SelfComposed, sampled_gaussians
from bounds.noisy_steps import log_moment, poisson_log_moments

LOG = math.log(20)


def full(noise, steps):
    return SelfComposed(event=Gaussian(noise_multiplier=noise), count=steps)


SIZES = (1e-300, 1e-30, 1e-9, 1e-3, 0.3, 1.0, 7.0, 60.0, 900.0)


@pytest.mark.parametrize("order", [1.0 + 1e-9, 1.001, 1.3, 2.0, 2.4, 3.0, 7.5, 16.0, 40.0])
@pytest.mark.parametrize("rate", [1e-12, 1e-3, 0.3, 0.5, 0.51, 0.999, 1.0])
def test_log_moments_formal_guarantee_above_the_definition_and_close(order, rate):
    found = log_moment(order, rate, np.array(SIZES))
    for x, value in zip(SIZES, found.tolist(), strict=True):
        exact = slow.moment(order, rate, x)
        assert exact <= value <= exact * (1 + mpf("1e-9")) + 1e-300, x


def density(y, means):
    return np.exp(-0.5 * np.sum((y - means) ** 2, axis=0)) / (2 * pi) ** (len(means) / 2)


ALL = list(product((0, 1), repeat=3))
GRID = np.linspace(-16.0, 16.0, 801)


@pytest.mark.parametrize("order", [1.1, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("sizes", [(0.0, 0.4), (-0.5, 0.5), (0.2, 1.5), (-1.2, 0.1)])
def test_the_theorem_by_quadrature_for_adaptive_norms_without_clipping(order, sizes):
    """∫ (E_S [p^α e^(-α(α-1)V/2)])^(1/α) dy ≤ 1 for two steps of three records, the second sized by the first's y.

    The realised sum is needed: at a smaller one the integral is above 1.
    """

    def integral(factor):
        y1, y2 = GRID[:, None], GRID[None, :]
        whole = 0.0
        for sample in ALL:
            first = [sizes[s] for s in sample]
            second = [np.where(y1 * size > 0, 1.3 * size, 0.2) for size in first]
            spent = sum(a * a for a in first) + sum(b * b for b in second)
            p = density(np.stack(np.broadcast_arrays(y1 - sum(first), y2 - sum(second))), np.zeros((2, 1, 1)))
            whole = whole + p**order * np.exp(-0.5 * order * (order - 1) * factor * spent) / len(ALL)
        return float(np.sum(whole ** (1 / order)) * (GRID[1] - GRID[0]) ** 2)

    assert 0.2 < integral(1.0) <= 1 + 1e-9
    assert integral(0.0) > 1.001


@pytest.mark.parametrize(("order", "rate"), [(1.2, 0.3), (1.7, 0.5), (1.5, 0.8), (2.0, 0.3), (2.6, 0.4), (3.0, 0.7)])
def test_the_theorem_by_quadrature_for_secret_batches(order, rate):
    """The same for one step of three records on Poisson batches, at the sum of ln m over all records."""
    sizes = (-0.9, 0.6)
    whole, worst = 0.0, 0.0
    for sample in ALL:
        means = [sizes[s] for s in sample]
        p = 0.0
        for batch in ALL:
            chance = prod(rate if b else 1 - rate for b in batch)
            p = p + chance * density(GRID[None, :], np.array([[sum(b * m for b, m in zip(batch, means, strict=True))]]))
        spent = sum(float(log_moment(order, rate, m * m)) for m in means)
        whole = whole + p**order * exp(-spent) / len(ALL)
        worst = worst + p**order / len(ALL)
    step = GRID[1] - GRID[0]
    assert 0.4 < float(np.sum(whole ** (1 / order)) * step) <= 1 + 1e-9
    realised = float(np.sum(worst ** (1 / order)) * step)
    assert 1.0 < realised <= exp(3 * float(log_moment(order, rate, 0.81)) / order)


@given(whole=floats(1e-9, 1e6), failure_prob=floats(1e-300, 0.9), spread=floats(0.02, 1.0), count=integers(1, 7))
def test_a_mixture_is_never_above_the_union_nor_below_the_best_order(whole, failure_prob, spread, count):
    orders = tuple(1.0 + spread * 1.7**k for k in range(count))
    price = RealisedSum(contributions=whole, records=10**6, orders=orders)
    found = nats(price, failure_prob=failure_prob)
    log = -math.log(failure_prob)
    union = min(a * whole / 2 + a / (a - 1) * (log + math.log(count)) for a in orders)
    single = min(a * whole / 2 + a / (a - 1) * log for a in orders)
    assert single * (1 - 1e-12) <= found <= union * (1 + 1e-12)
    exact = slow.realised(slow.of_full_batch(whole, orders), orders, [mpf(1) / count] * count, -mp.log(failure_prob))
    assert exact <= found <= exact * (1 + mpf("1e-9"))


def test_prices_of_runs_are_sums_over_their_steps():
    noises = [3.0, 3.0, 5.0, 7.0]
    event = sampled_gaussians(sample_rate=1.0, noise_multipliers=noises)
    made = noisy_sum_realised(event=event, squared_norms=[10.0, 0.0, 25.0, 1e-320], records=40)
    assert 10 / 9 + 1 <= made.contributions <= (10 / 9 + 1) * (1 + 1e-14)
    worst = noisy_sum_worst_case(event=event)
    exact = mp.sqrt(sum(mpf(noise) ** -2 for noise in noises))
    assert exact <= worst.mu <= exact * (1 + mpf("1e-14"))
    public = sampled_gaussians(sample_rate=0.1, noise_multipliers=noises)  # known batches: of their members alone
    assert noisy_sum_realised(event=public, squared_norms=[10.0, 0.0, 25.0, 1e-320], records=40) == made


def test_secret_batches_from_norms_and_from_moments():
    event = Composed(events=(steps(2.0, 0.1, 3), full(30.0, 2)))
    rng = default_rng(0)
    norms = rng.uniform(0.0, 1.0, (5, 40))
    made = poisson_sum_realised(event=event, squared_norms=norms.sum(axis=1).tolist(), records=40, orders=ALPHAS)
    exact = np.zeros(len(ALPHAS))
    for step, row in enumerate(norms):
        rate, noise = (0.1, 2.0) if step < 3 else (1.0, 30.0)
        told = {"sample_rate": rate, "noise_multiplier": noise, "squared_norms": row, "orders": ALPHAS}
        exact += poisson_log_moments(**told)
    assert np.all(exact <= made.log_moments)  # the chord
    assert np.all(np.array(made.log_moments) <= 1.3 * exact)
    once = RealisedPoissonSum(log_moments=tuple(exact.tolist()), orders=ALPHAS, records=40)
    assert nats(once, n=40) <= nats(made, n=40)
    all_clipped = poisson_sum_realised(
        event=event, squared_norms=[40.0] * 5, records=40, orders=[1.5, 2.0], weights=[0.25, 0.75]
    )
    assert (all_clipped.orders, all_clipped.weights) == ((1.5, 2.0), (0.25, 0.75))
    assert nats(PoissonSum(event=event), n=40) <= nats(all_clipped, n=40) * (1 + 1e-12)


REALISED = (
    RealisedSum(contributions=1.0, records=600),
    RealisedPoissonSum(log_moments=(0.5,), orders=(1.5,), records=600),
)


@pytest.mark.parametrize("price", REALISED)
@pytest.mark.parametrize("formula", WITHOUT_NATS)
def test_events_cannot_be_bounded_at_a_price_that_was_measured(formula, price):
    made = partial(FORMULAS[formula], risk=0.03, nats=0.0, n=600, failure_prob=0.05)
    refused("^price must not be measured on the sample where no prior enters", made, price=price)
    assert made(price=WorstCaseSum(mu=0.01)).value < 1.0


def test_what_is_not_known_of_a_run_makes_the_certificate_optimistic():
    seen = unproved("schedule blind to the records", "training stopped at the smallest validation error")
    price = noisy_sum_realised(event=full(2.0, 1), squared_norms=[1.0], records=600, hypotheses=[seen])
    made = maurer(risk=0.03, kl_nats=0.0, n=600, failure_prob=0.05, price=price)
    assert made.status == "optimistic"
    assert made.unproved == (seen,)


def test_sums_of_nothing_cost_nothing_and_weights_of_orders_are_kept_as_a_tuple():
    step = PoissonSampled(sample_rate=0.1, event=Gaussian(noise_multiplier=1e-160))
    given = {"records": 10, "orders": (1.5, 2.0)}
    assert poisson_sum_realised(event=step, squared_norms=[0.0], **given).log_moments == (0.0, 0.0)
    assert bounds.RealisedSum(contributions=1.0, weights=[0.5, 0.5], **given).weights == (0.5, 0.5)


def test_norms_of_a_repeated_composition_belong_to_its_steps_in_order():
    two = (Gaussian(noise_multiplier=2.0), Gaussian(noise_multiplier=3.0))
    repeated, written = SelfComposed(event=Composed(events=two), count=2), Composed(events=two + two)
    given = {"squared_norms": [1.0, 2.0, 3.0, 4.0], "records": 10}
    for made in (noisy_sum_realised, poisson_sum_realised):
        assert made(event=repeated, **given) == made(event=written, **given)
