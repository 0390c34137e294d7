"""The price of batches once an epoch: check values, and the theorem by quadrature over two batches, with its power."""

import math
from itertools import product

import numpy as np
import pytest
from cells import nats, refused, within_rounding

import bounds
from bounds.accounting import Composed, Gaussian, OnceAnEpoch, SelfComposed
from bounds.noisy_steps import epoch_log_moment

C2 = 1.1**-2


def epoch(batches=234, noise=1.1):
    return OnceAnEpoch(batches=batches, event=Gaussian(noise_multiplier=noise))


@pytest.mark.parametrize(
    ("order", "value"),
    [(1.5, 1.002746118362808), (2.0, 1.005492236725617), (3.0, 1.016605971295175), (4.0, 1.033568796846953),
     (8.0, 1.168469159716248)],
)  # fmt: skip
def test_moments_are_the_check_values_and_linear_between_whole_orders(order, value):
    assert math.exp(epoch_log_moment(order, 234, C2)) == pytest.approx(value, rel=1e-13)
    between = 0.5 * (epoch_log_moment(3.0, 234, C2) + epoch_log_moment(4.0, 234, C2))
    assert epoch_log_moment(3.5, 234, C2) == within_rounding(between)
    assert epoch_log_moment(order, 1, C2) >= 0.5 * order * (order - 1.0) * C2 * (1 - 1e-12), "one batch is all records"
    assert epoch_log_moment(order, 234, 1e6) >= 0.5 * order * (order - 1.0) * 1e6, "the batch known"


def test_a_price_is_the_least_over_orders_and_rests_on_batches_once_an_epoch():
    n, event = 60_000, SelfComposed(event=epoch(noise=2.0), count=15)
    made = nats(bounds.OnceSum(event=event), n=n)
    assert made <= n * 0.01835102156096954 <= 1.2 * made, "at the order 1.5"
    twice = Composed(events=(event, event))
    assert made < nats(bounds.OnceSum(event=twice), n=n) < 2.0 * made
    certificate = bounds.kl_chernoff(risk=0.02, n=n, failure_prob=0.05, price=bounds.OnceSum(event=event))
    assert "batches secret, each record in one an epoch" in {one.name for one in certificate.hypotheses}
    refused("got OnceAnEpoch", bounds.noisy_sum_realised, event=event, squared_norms=[1.0] * 15, records=n)
    refused("got OnceAnEpoch", bounds.poisson_sum_realised, event=event, squared_norms=[1.0] * 15, records=n)
    refused("use PoissonSum", bounds.OnceSum, event=Gaussian(noise_multiplier=1.0))
    refused("OnceAnEpoch alone", bounds.OnceSum, event=Composed(events=(epoch(), Gaussian(noise_multiplier=1.0))))


def largest(order, n, c, later, batches):
    """The root of order ``order`` of E_S p(y|S)^α, summed over y: coins, and batches that look at the one before."""
    grid = np.linspace(-9.0, 9.0, 181 if batches == 2 else 61)
    axes = np.meshgrid(*[grid] * batches, indexing="ij", sparse=True)
    steps = [np.full(1, c), *(later(axis) for axis in axes[:-1])]
    whole = 0.0
    for signs in product((-1.0, 1.0), repeat=n):
        density = 0.0
        for places in product(range(batches), repeat=n):
            sums = [sum(s for s, place in zip(signs, places, strict=True) if place == t) for t in range(batches)]
            away = sum((y - k * h) ** 2 for y, k, h in zip(axes, sums, steps, strict=True))
            density = density + np.exp(-0.5 * away) / (2 * math.pi) ** (batches / 2) / batches**n
        whole = whole + density**order / 2.0**n
    return (whole ** (1.0 / order)).sum() * (grid[1] - grid[0]) ** batches


@pytest.mark.parametrize("order", [1.1, 2.0, 3.0, 4.0])
@pytest.mark.parametrize("c", [0.2, 0.5, 1.0])
def test_the_moment_is_large_enough_and_four_fifths_are_not(order, c):
    """Also where a contribution looks at what the batch before released."""
    ratios = []
    laws = (lambda y: np.full_like(y, c), lambda y: c * np.tanh(3.0 * y))
    for (n, batches), later in product(((1, 2), (2, 2), (3, 2), (2, 3)), laws):
        found = math.log(largest(order, n, c, later, batches))
        ratios.append(found / (n / order * epoch_log_moment(order, batches, c * c)))
    assert max(ratios) <= 1.0 + 1e-3 / c**2 * (order < 1.2) + 1e-6
    assert order < 3.0 or c > 0.2 or max(ratios) > 0.8
