"""Bounds for private priors and private weights: published numbers, order, and exact failure probabilities."""

from functools import partial
from math import exp, inf, isqrt, log, sqrt

import binomial
import pytest
from cells import within_rounding

from bounds.printed import (
    dp_chernoff,
    dp_chernoff_2018,
    dp_hoeffding,
    dp_hoeffding_2018,
    dp_kl_chernoff,
    dp_pac_bayes,
    dp_pac_bayes_2018,
    dp_pac_bayes_max_information,
    transfer_nats_2018,
)
from bounds.transfer import max_information_nats, transfer_nats

N = 60_000
PAPER = {"epsilon": 8 / sqrt(N), "n": N, "failure_prob": 0.05}


def test_check_values_at_the_papers_setting():
    assert transfer_nats(**PAPER) == within_rounding(20.78671959628)
    assert max_information_nats(**PAPER) == within_rounding(47.53053695252)
    assert transfer_nats_2018(**PAPER) == within_rounding(128)
    assert transfer_nats(epsilon=0.1, n=10_000, failure_prob=0.01) == within_rounding(32.27944147984)
    at = {"risk": 0.1, "n": 100_000, "epsilon": 0.02, "failure_prob": 0.05}
    slack = sqrt(0.6) * (0.02 + 1e5**-0.5) + 6 * 0.02**2 + 6e-5
    assert dp_chernoff_2018(**at).value == within_rounding(0.1 + slack)
    with pytest.raises(TypeError, match="missing the keyword argument 'epsilon'"):
        dp_pac_bayes(risk=0.1, kl_nats=1.0, n=100, failure_prob=0.05)


def log_failure(bound, n, epsilon):
    """ln P(bound < R) when the weights are the randomized response to n fair bits.

    w_i equals bit i with probability e^ε/(1+e^ε), which is ε-DP; the loss is 1{w_i ≠ bit i}, so that R = 1/2
    whatever w is, while R̂ is Bin(n, 1/(1+e^ε))/n.
    """
    low, high = (-1, n // 2)  # the bound increases with the count: find the last count at which it fails
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bound(middle / n) < 0.5 else (low, middle)
    return binomial.log_cdf(low, n, 1 / (1 + exp(epsilon))) if low >= 0 else -inf


@pytest.mark.parametrize(("n", "epsilon"), [(100, 0.8), (1000, 0.0), (1000, 0.2), (60_000, 8 / sqrt(60_000))])
@pytest.mark.parametrize("failure_prob", [0.5, 0.05, 1e-6, 1e-40])
def test_coverage_under_randomized_response_exactly(n, epsilon, failure_prob):
    at = {"n": n, "epsilon": epsilon, "failure_prob": failure_prob}
    level = log(failure_prob)
    point = (dp_pac_bayes, dp_pac_bayes_max_information, dp_pac_bayes_2018)  # prior and posterior: a point at w
    plain = (dp_kl_chernoff, dp_chernoff, dp_hoeffding, dp_chernoff_2018, dp_hoeffding_2018)
    for bound in (*plain, *(partial(one, kl_nats=0.0) for one in point)):
        assert log_failure(lambda risk, bound=bound: bound(risk=risk, **at).value, n, epsilon) <= level


@pytest.mark.parametrize(("n", "epsilon"), [(100, 0.8), (1000, 0.2), (60_000, 8 / sqrt(60_000))])
def test_transfer_formal_guarantee_on_every_threshold_event(n, epsilon):
    """f = ln(1/β) on {R̂ ≤ k/n}, where β is its probability for independent w, must not exceed the transfer."""
    centre = round(n / (1 + exp(epsilon)))
    for k in range(max(0, centre - 20 * isqrt(n)), centre, max(1, isqrt(n) // 10)):
        independent = binomial.log_cdf(k, n, 0.5)
        released = binomial.log_cdf(k, n, 1 / (1 + exp(epsilon)))
        if released > -700.0:  # else the failure probability is no float
            assert transfer_nats(epsilon=epsilon, n=n, failure_prob=exp(released)) >= -independent


def test_a_transfer_fifteen_percent_cheaper_would_be_caught():
    stay = 1 / (1 + exp(PAPER["epsilon"]))
    k = next(k for k in range(29_300, N) if binomial.log_cdf(k, N, stay) > log(0.05)) - 1
    assert -binomial.log_cdf(k, N, 0.5) > 0.85 * transfer_nats(**PAPER)
