"""Lower bounds on ln Z, against 50 digits and exact laws."""

from fractions import Fraction
from math import inf, log

import binomial
import mpmath as mp
import numpy as np
import pytest
from gibbs_by_mpmath import kl_lower
from hypothesis import given, settings
from hypothesis.strategies import floats, integers, lists
from kl_by_mpmath import kl_upper
from mpmath import mpf

from bounds.partition import (
    _floor,
    log_mean_exp,
    log_partition_best,
    log_partition_chernoff,
    log_partition_jensen,
    log_partition_lower,
)

INTERVAL = {"tau": 3.0, "loss_low": 0.5, "loss_high": 4.0}


@settings(max_examples=40)
@given(log_mean=floats(-8, 0), draws=integers(1, 10**6), failure_prob=floats(1e-6, 0.9))
def test_chernoff_is_below_the_log_of_the_lower_inverse_and_close(log_mean, draws, failure_prob):
    made = log_partition_chernoff(log_mean_exp=log_mean, draws=draws, failure_prob=failure_prob)
    rate = kl_lower(mp.exp(mpf(log_mean)), -mp.log(mpf(failure_prob)) / draws)
    if rate == 0:
        assert made < -699
    else:
        truth = mp.log(rate)
        assert truth - mpf("1e-6") * (1 + abs(truth)) <= made <= truth
        assert made <= log_mean


@given(mean=floats(0.5, 4.0), draws=integers(1, 10**6), failure_prob=floats(1e-6, 0.9))
def test_jensen_is_below_its_formula_and_close(mean, draws, failure_prob):
    made = log_partition_jensen(mean_loss=mean, draws=draws, failure_prob=failure_prob, **INTERVAL)
    rate = (mpf(mean) - mpf(0.5)) / mpf(3.5)
    truth = -3 * (mpf(0.5) + mpf(3.5) * kl_upper(rate, -mp.log(mpf(failure_prob)) / draws))
    assert truth - mpf("1e-11") <= made <= max(truth, mpf(-12)) <= -3 * mpf(0.5)
    assert made >= -12 - 1e-11  # never below the certain bound


@pytest.mark.parametrize("failure_prob", [0.3, 0.05])
@pytest.mark.parametrize("draws", [1, 7, 40])
def test_markov_and_chernoff_formal_guarantee_hold_together_without_a_split(draws, failure_prob):
    """e^(-loss) ∈ {0, 1} with mean Z: the law of Ẑ is binomial, and the larger of both bounds is tested exactly."""
    nearly = 0
    for partition in np.concatenate([np.geomspace(1e-4, 0.999, 60), [failure_prob, failure_prob ** (1 / draws)]]):
        failures = 0.0
        for k in range(draws + 1):
            estimate = log(k / draws) if k else -inf
            larger = max(
                log_partition_lower(estimate, failure_prob),
                log_partition_chernoff(log_mean_exp=estimate, draws=draws, failure_prob=failure_prob),
            )
            if larger > log(partition):
                below = float(binomial.cdf(k - 1, draws, float(partition))) if k else 0.0
                failures = 1 - below
                break  # both bounds increase in Ẑ
        assert failures <= failure_prob * (1 + 1e-9)
        nearly = max(nearly, failures)
    assert nearly > 0.3 * failure_prob


def test_best_takes_the_largest_of_what_it_paid_for():
    losses = np.array([0.6, 0.9, 2.0, 3.0])
    made = log_partition_best(
        log_mean_exp=log(np.exp(-3 * losses).mean()), mean_loss=losses.mean(), draws=4, failure_prob=0.1, **INTERVAL
    )
    assert made.nats == max(made.candidates.values()) == made.candidates[made.method]
    assert made.candidates["markov"] == log_partition_lower(log(np.exp(-3 * losses).mean()), 0.05)
    shifted = log_partition_chernoff(log_mean_exp=log(np.exp(-3 * (losses - 0.5)).mean()), draws=4, failure_prob=0.05)
    assert made.candidates["chernoff"] == pytest.approx(shifted - 1.5, rel=1e-9)


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("tau", "draws", "losses", "method"),
    [(1e-3, 1000, (0, 1), "jensen"), (600.0, 2, (0.4, 0.5), "markov"), (6.0, 10**6, (0, 1), "chernoff"),
     (0.1, 1, (1, 1), "certain")],
)  # fmt: skip
def test_each_method_has_its_turn(tau, draws, losses, method):
    x = np.array(losses, dtype=float)
    estimate = -tau * x.min() + log(np.exp(-tau * (x - x.min())).mean())
    made = log_partition_best(
        log_mean_exp=estimate, mean_loss=float(x.mean()), tau=tau, loss_low=0.0, loss_high=1.0,
        draws=draws, failure_prob=0.05,
    )  # fmt: skip
    assert made.method == method
    assert made.nats <= estimate + 1e-12 or method == "certain"


def test_less_information_never_helps():
    def best(**changes):
        given = {"log_mean_exp": -2.0, "mean_loss": 1.0, "draws": 50, "failure_prob": 0.05, **INTERVAL}
        return log_partition_best(**(given | changes)).nats

    for name, low, high in (
        ("log_mean_exp", -3.0, -1.6), ("mean_loss", 2.0, 0.6), ("failure_prob", 1e-6, 0.5), ("draws", 3, 5000)
    ):  # fmt: skip
        assert best(**{name: low}) <= best() <= best(**{name: high})
    assert best(log_mean_exp=-inf, mean_loss=4.0) == pytest.approx(-12)
    for hopeless in (-1e5, -inf):
        assert log_partition_chernoff(log_mean_exp=hopeless, draws=5, failure_prob=0.1) == -inf


def drifting_up():
    """A million ones, then small terms each of which a sum rounds up by a quarter of its last place."""
    small = log(0.75 * 2.0**-32)
    return ([np.zeros(2**20), *[small] * 50_000], lambda: 2**20 + 50_000 * mp.exp(mpf(small)), 2**20 + 50_000)


def rising():
    """Every number is the largest so far."""
    step, m = 2.0**-16, 50_000
    return ([i * step for i in range(m)], lambda: (mp.exp(m * mpf(step)) - 1) / (mp.exp(mpf(step)) - 1), m)


def in_large_parts():
    """Millions of numbers in large parts: a few values, far apart, far from 0, some of them -inf."""
    values = np.array([-1e5, -1e5 - 0.1, -1e5 - 7.3, -1e5 - 40.0, -1e5 - 1e3, -inf])
    parts = [np.roll(np.resize(values, 600_000), k) for k in range(6)]
    return parts, lambda: 600_000 * sum(mp.exp(mpf(x)) for x in values if x > -inf), 3_600_000


@pytest.mark.parametrize("stress", [drifting_up, rising, in_large_parts], ids=lambda stress: stress.__name__)
def test_log_mean_exp_formal_guarantee_is_never_above_the_exact_mean_of_however_many(stress):
    parts, total, count = stress()
    found = log_mean_exp(np.hstack(parts))
    with mp.workdps(40):
        truth = mp.log(total() / count)
        assert found <= truth
        assert truth - found < mpf("1e-10") * max(1, abs(truth) * mpf("1e-4"))


@settings(max_examples=60)
@given(lists(floats(-1e4, 1e4), min_size=1, max_size=30))
def test_log_mean_exp_is_a_little_below_fifty_digits(values):
    made = log_mean_exp(values)
    with mp.workdps(50):
        every = [mpf(x) for x in values]
        truth = mp.log(mp.fsum(mp.exp(x) for x in every) / len(every))
        assert truth - mpf("1e-13") * (1 + abs(truth) + max(abs(x) for x in every)) <= made <= truth


@pytest.mark.parametrize("largest", [1.7e308, -1.7e308, 0.0, 5e-324, 750.0])
def test_log_mean_exp_takes_every_float(largest):
    for values in ([largest, -1.7e308, 1.6e308], [-1.7e308, largest], [largest - 800.0, largest]):
        made = log_mean_exp(values)
        assert made <= max(values)
        assert made > -inf or max(values) < 0


@given(floats(1e-3, 1e6), floats(-100.0, 100.0), floats(1e-3, 100.0))
def test_the_floor_of_a_partition_function_is_below_the_exact_one(tau, low, width):
    assert Fraction(_floor(tau, low, low + width)) <= -Fraction(tau) * Fraction(low + width)
