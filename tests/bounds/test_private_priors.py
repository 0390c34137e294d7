"""Bounds for private priors and private weights: published numbers, and the transfer on every event of a threshold."""

from math import exp, isqrt, sqrt

import binomial
import mpmath as mp
import pytest
from cells import within_rounding
from mpmath import mpf
from numpy.random import default_rng

from bounds import MaxInformation, Sharp
from bounds.printed import Printed2018, dp_chernoff_2018, dp_pac_bayes

N = 60_000
EPSILON = 8 / sqrt(N)


def test_check_values_at_the_papers_setting():
    for price, nats in ((Sharp, 20.78671959628), (MaxInformation, 47.53053695252), (Printed2018, 128)):
        assert price(epsilon=EPSILON).charge(n=N, failure_prob=0.05).nats == within_rounding(nats)
    assert Sharp(epsilon=0.1).charge(n=10_000, failure_prob=0.01).nats == within_rounding(32.27944147984)
    assert dp_chernoff_2018(risk=0.0, n=10**6, epsilon=0.01, failure_prob=0.05).value == within_rounding(6.06e-4)
    with pytest.raises(TypeError, match="missing the keyword argument 'epsilon'"):
        dp_pac_bayes(risk=0.1, kl_nats=1.0, n=100, failure_prob=0.05)


@pytest.mark.parametrize(("n", "epsilon"), [(100, 0.8), (1000, 0.2), (60_000, 8 / sqrt(60_000))])
def test_transfer_formal_guarantee_on_every_threshold_event(n, epsilon):
    """f = ln(1/β) on {R̂ ≤ k/n}, where β is its probability for independent w, must not exceed the transfer."""
    centre = round(n / (1 + exp(epsilon)))
    for k in range(max(0, centre - 20 * isqrt(n)), centre, max(1, isqrt(n) // 10)):
        independent = binomial.log_cdf(k, n, 0.5)
        released = binomial.log_cdf(k, n, 1 / (1 + exp(epsilon)))
        if released > -700.0:  # else the failure probability is no float
            assert Sharp(epsilon=epsilon).charge(n=n, failure_prob=exp(released)).nats >= -independent


def test_the_transfer_by_max_information_is_rounded_up():
    rng = default_rng(5)
    for n, epsilon in zip(rng.integers(1, 10**6, 300).tolist(), rng.uniform(1.0, 40.0, 300).tolist(), strict=True):
        exact = mp.log(40) + mpf(n) * mpf(epsilon) ** 2 / 2 + mpf(epsilon) * mp.sqrt(n * mp.log(80) / 2)
        assert MaxInformation(epsilon=epsilon).charge(n=n, failure_prob=0.05).nats >= exact
