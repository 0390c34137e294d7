"""Confidence bounds for one rate, against exact binomial sums."""

from fractions import Fraction
from math import log

import binomial
import mpmath as mp
import numpy as np
import pytest
from mpmath import mpf

from bounds import clopper_pearson_lower, clopper_pearson_upper, kl_chernoff_upper

CASES = [(k, n, d) for n in (1, 2, 7, 40) for k in sorted({0, 1, n // 2, n - 1, n}) for d in (0.5, 0.05, 1e-6)]


@pytest.mark.parametrize(("k", "n", "failure_prob"), CASES)
def test_clopper_pearson_formal_guarantee(k, n, failure_prob):
    upper, lower = (clopper_pearson_upper(k, n, failure_prob), clopper_pearson_lower(k, n, failure_prob))
    level = Fraction(failure_prob)
    if k < n:
        assert binomial.cdf(k, n, upper) <= level  # safe
        assert binomial.cdf(k, n, upper * (1 - 1e-9)) > level  # and not idle
    else:
        assert upper == 1.0
    if k > 0:
        assert 1 - binomial.cdf(k - 1, n, lower) <= level
        assert 1 - binomial.cdf(k - 1, n, min(1.0, lower * (1 + 1e-8))) > level or lower * (1 + 1e-8) >= 1
    else:
        assert lower == 0.0


def test_large_samples_are_safe_in_log_space():
    for k, n, failure_prob in ((1, 60_000, 1e-3), (300, 10_000, 0.05), (59_990, 60_000, 1e-9)):
        upper = clopper_pearson_upper(k, n, failure_prob)
        assert binomial.log_cdf(k, n, upper) == pytest.approx(log(failure_prob), rel=1e-6)


def test_kl_chernoff_formal_guarantee_for_unequal_variables():
    rates = np.linspace(0, 0.4, 60)  # the law of a sum of unequal Bernoullis, by convolution
    law = np.array([1.0])
    for rate in rates:
        law = np.convolve(law, [1 - rate, rate])
    for failure_prob in (0.3, 0.05, 1e-3):
        bounds = np.array([kl_chernoff_upper(k / 60, 60, failure_prob) for k in range(61)])
        failures = law[bounds < rates.mean()].sum()
        assert 0 < failures <= failure_prob


@pytest.mark.parametrize(("k", "n"), [(1, 5), (28, 32), (3, 1000), (999, 1000)])
@pytest.mark.parametrize("failure_prob", [1e-30, 1e-80, 1e-121, 1e-164, 1e-300])
def test_tiny_failure_probabilities_for_some_of_which_scipy_has_no_quantile(k, n, failure_prob):
    upper, lower = (clopper_pearson_upper(k, n, failure_prob), clopper_pearson_lower(k, n, failure_prob))
    assert 0.0 <= lower < k / n < upper <= 1.0

    def mass(p, counts):
        return mp.fsum(mp.binomial(n, j) * mpf(p) ** j * (1 - mpf(p)) ** (n - j) for j in counts)

    with mp.workdps(40):
        assert mass(upper, range(k + 1)) <= failure_prob
        assert mass(lower, range(k, n + 1)) <= failure_prob
