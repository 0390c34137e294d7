"""Confidence bounds for one rate, against exact binomial sums."""

from fractions import Fraction
from math import log

import binomial
import pytest

from bounds import clopper_pearson_lower, clopper_pearson_upper

CASES = (
    [(k, n, d) for n in (1, 2, 7, 40) for k in sorted({0, 1, n // 2, n - 1, n}) for d in (0.5, 0.05, 1e-6)]
    + [
        (k, n, d)
        for k, n in ((1, 5), (28, 32), (3, 1000), (999, 1000))
        for d in (1e-30, 1e-80, 1e-121, 1e-164, 1e-300)  # for some SciPy has no quantile
    ]
    + [(163, 200, 4.0375687564231813e-281), (168, 200, 8.41401719241431e-298), (2, 9, 5e-324)]
)  # or a tail that is 0


@pytest.mark.parametrize(("k", "n", "failure_prob"), CASES)
def test_clopper_pearson_formal_guarantee(k, n, failure_prob):
    upper, lower = (clopper_pearson_upper(k, n, failure_prob), clopper_pearson_lower(k, n, failure_prob))
    level = Fraction(failure_prob)
    assert failure_prob > 1e-9 or 0.0 <= lower < k / n < upper <= 1.0
    if k < n:
        assert binomial.cdf(k, n, upper) <= level  # safe
        assert binomial.cdf(k, n, upper * (1 - 1e-9)) > level  # and not idle
    else:
        assert upper == 1.0
    if k > 0:
        assert 1 - binomial.cdf(k - 1, n, lower) <= level
        above = lower * (1 + 1e-8)
        assert above >= 1 or failure_prob < 1e-150 or 1 - binomial.cdf(k - 1, n, above) > level
    else:
        assert lower == 0.0


def test_large_samples_are_safe_in_log_space():
    for k, n, failure_prob in ((1, 60_000, 1e-3), (300, 10_000, 0.05), (59_990, 60_000, 1e-9)):
        upper = clopper_pearson_upper(k, n, failure_prob)
        assert binomial.log_cdf(k, n, upper) == pytest.approx(log(failure_prob), rel=1e-6)
