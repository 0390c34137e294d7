"""The empirical risk of a randomised predictor from its draws."""

from fractions import Fraction
from math import log, tanh

import numpy as np
import pytest
from cells import read_again, within_rounding
from hypothesis import given
from hypothesis.strategies import floats, integers
from kl_by_mpmath import kl_upper
from numpy.random import default_rng

from bounds import correlated_risk_upper, gibbs_risk_upper, weighted_risk_upper
from bounds.monte_carlo import effective_sample_size


@given(mean=floats(0, 1), draws=integers(1, 10**7), failure_prob=floats(1e-9, 0.999))
def test_gibbs_risk_is_the_inverse_kl_at_the_count_of_draws(mean, draws, failure_prob):
    made = gibbs_risk_upper(mean=mean, draws=draws, failure_prob=failure_prob)
    truth = kl_upper(mean, -log(failure_prob) / draws)
    assert mean <= made.value <= 1.0
    assert float(truth) * (1 - 1e-13) <= made.value <= float(truth) * (1 + 1e-12) + 1e-300
    assert made.status == "rigorous"
    assert dict(made.budget) == {"Monte Carlo": failure_prob}
    assert made.terms["monte_carlo_draws"] == draws
    assert read_again(made) == made


def test_equal_weights_count_as_draws_and_no_weights_count_more():
    x = np.linspace(0, 0.2, 40)
    equal = weighted_risk_upper(values=x, weights=np.full(40, 3.0), failure_prob=0.05)
    assert equal.value == within_rounding(gibbs_risk_upper(mean=0.1, draws=40, failure_prob=0.05).value)
    uneven = weighted_risk_upper(values=np.full(40, 0.1), weights=np.arange(1.0, 41.0), failure_prob=0.05)
    assert uneven.value > equal.value
    assert uneven.terms["monte_carlo_draws"] == pytest.approx(820 / 40)


def test_a_chain_is_optimistic_and_worth_its_effective_draws():
    rng = default_rng(3)
    state, chain = 0.0, []
    for _ in range(4000):
        state = 0.95 * state + rng.normal()
        chain.append(0.2 + 0.01 * tanh(state / 5))
    made = correlated_risk_upper(chain=chain, failure_prob=0.05)
    assert made.status == "optimistic"
    assert 20 < made.terms["monte_carlo_draws"] < 400
    assert made.value > gibbs_risk_upper(mean=float(np.mean(chain)), draws=4000, failure_prob=0.05).value
    stuck = correlated_risk_upper(chain=[0.2] * 1000, failure_prob=0.05)
    assert stuck.terms["monte_carlo_draws"] == 1.0  # a chain that never moved is one draw
    thirds = [1 / 3, 2 / 3, 0.1, 0.7, 1 / 3, 0.3]
    mean = correlated_risk_upper(chain=thirds, failure_prob=0.05).inputs["mean"]
    assert Fraction(mean) >= sum(map(Fraction, thirds)) / 6
    assert correlated_risk_upper(chain=[1.0] * 7, failure_prob=0.05).value == 1.0


def effective_size_by_sums(chain):
    """The same number, each autocovariance summed by itself."""
    n, centred = len(chain), chain - chain.mean()
    rho = [float(np.dot(centred[: n - t], centred[t:]) / np.dot(centred, centred)) for t in range(n - n % 2)]
    time = -1.0
    for even, odd in zip(rho[::2], rho[1::2], strict=True):
        if even + odd <= 0.0:
            break
        time += 2.0 * (even + odd)
    return min(float(n), max(1.0, n / max(time, 1.0)))


@pytest.mark.parametrize("memory", [0.0, 0.1, 0.5, 0.95, -0.4])
@pytest.mark.parametrize("n", [64, 401])
def test_the_effective_size_is_that_of_slow_sums(memory, n):
    rng = default_rng(int(100 * abs(memory)) + n)
    chain = [0.0]
    for noise in rng.normal(size=n - 1):
        chain.append(memory * chain[-1] + float(noise))
    assert effective_sample_size(chain) == pytest.approx(effective_size_by_sums(np.array(chain)), rel=1e-9)
