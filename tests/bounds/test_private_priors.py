"""Bounds for private priors and private weights: published numbers, and the transfer on every event of a threshold."""

from math import exp, isqrt, sqrt

import binomial
import pytest
from cells import within_rounding

from bounds.printed import (
    dp_pac_bayes,
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
            assert transfer_nats(epsilon=epsilon, n=n, failure_prob=exp(released)) >= -independent
