"""Mistakes found in published PAC-Bayes code, each with the number it gives and why ours differs.

The faulty versions are written anew here from their descriptions.
"""

from math import expm1, log, sqrt

import numpy as np
import pytest
from cells import refused
from numpy.random import default_rng
from scipy import optimize

from bounds import binary_kl, binary_kl_upper, catoni, catoni_grid, maurer, mcallester


def naive_kl(q, p):
    return q * log(q / p) + (1 - q) * log((1 - q) / (1 - p))


def grid():
    rng = default_rng(0)
    return rng.uniform(0.001, 0.4, 300), 10 ** rng.uniform(-4, 0, 300)


def is_safe(q, nats, p):
    return (p == 1.0) | (binary_kl(q, p) >= nats * (1 - 2e-15))


def test_bisection_that_returns_its_last_midpoint():
    def midpoint(q, nats):
        low, high = q, 1.0
        while high - low > 1e-5 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if naive_kl(q, middle) > nats else (middle, high)
        return (low + high) / 2

    q, nats = grid()
    theirs = np.array([midpoint(a, c) for a, c in zip(q, nats, strict=True)])
    assert 0.3 < np.mean(~is_safe(q, nats, theirs)) < 0.7  # on the unsafe side half of the time
    assert is_safe(q, nats, binary_kl_upper(q, nats)).all()


def test_risk_zero_for_which_logarithms_are_nan():
    with pytest.raises((ValueError, ZeroDivisionError)):
        naive_kl(0.0, 0.5)
    assert binary_kl_upper(0.0, 3.0) == pytest.approx(-expm1(-3.0), rel=1e-14)  # 0.950, not a fallback 0.5
    assert binary_kl_upper(0.0, 1e-6) == pytest.approx(1e-6, rel=1e-6)
    assert maurer(risk=0.0, kl_nats=1.0, n=100, failure_prob=0.05).value < 0.1


def test_a_risk_clamped_away_from_zero_and_one():
    nats = 1e-6
    theirs = float(binary_kl_upper(1e-6, nats))
    assert binary_kl_upper(0.0, nats) == pytest.approx(1e-6, rel=1e-5)
    assert theirs > 3e-6  # three times the bound for no error at all
    assert binary_kl_upper(1 - 1e-6, 1e-9) < 1.0 == binary_kl_upper(1.0, 1e-9)  # and below the risk of a constant error


def test_root_finders_that_stop_at_a_cap_below_one():
    q, nats = 0.3, 30.0
    theirs = optimize.brentq(lambda p: naive_kl(q, p) - nats, q, 1 - 1e-9) if naive_kl(q, 1 - 1e-9) > nats else 1 - 1e-9
    assert theirs < binary_kl_upper(q, nats) == 1.0
    for cap in (0.99, 1 - 1e-4):  # clamping a bound for the sake of gradients makes it invalid
        assert binary_kl_upper(0.95, 0.5) > cap


def test_newton_with_a_fixed_number_of_steps_stays_far_above():
    def five_steps(q, nats):
        p = min(q + sqrt(nats / 2), 1 - 1e-12)
        for _ in range(5):
            p -= (naive_kl(q, p) - nats) * p * (1 - p) / (p - q)
        return p

    rates = np.linspace(0.05, 0.95, 91)
    excess = np.array([five_steps(q, 1.0) for q in rates]) - binary_kl_upper(rates, 1.0)
    assert excess.max() > 0.01


def test_single_precision_inverses():
    q, nats = grid()
    rounded = binary_kl_upper(q, nats).astype(np.float32).astype(float)
    assert np.mean(~is_safe(q, nats, rounded)) > 0.3


def test_misplaced_parenthesis_in_the_constant():
    n, kl, failure_prob = 30_000, 100.0, 0.025
    theirs = sqrt((kl + log(2 * sqrt(n)) / failure_prob) / (2 * n))
    assert theirs == pytest.approx(0.0746, abs=1e-4)
    assert mcallester(risk=0.0, kl_nats=kl, n=n, failure_prob=failure_prob).value == pytest.approx(0.0427, abs=1e-4)


def test_a_loss_outside_the_unit_interval():
    refused(
        r"^risk must lie in \[0, 1\].*rescale the loss", maurer, risk=3.2, kl_nats=1.0, n=100, failure_prob=0.05
    )  # a log-likelihood, say


def test_catoni_optimised_on_the_sample_without_paying():
    at = {"risk": 0.1, "kl_nats": 300.0, "n": 50_000, "failure_prob": 0.05}
    temperatures = [50_000 * 2 ** (-k / 4) for k in range(-8, 33)]
    theirs = min(catoni(**at, inverse_temperature=c).value for c in temperatures)
    assert theirs < maurer(**at).value  # below the best that is proved for all C together
    assert theirs < catoni_grid(**at, inverse_temperatures=temperatures).value
    paid = catoni_grid(**at, inverse_temperatures=temperatures).value
    assert paid == pytest.approx(theirs, rel=0.02)  # and paying costs little
