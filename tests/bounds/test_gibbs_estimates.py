"""Estimates for Gibbs posteriors."""

from math import inf, log

import numpy as np
import pytest
from cells import refused

from bounds.monte_carlo import effective_sample_size, weighted_average_size
from bounds.partition import log_mean_exp


def test_edges_of_a_log_mean_exp():
    refused(r"^values must be a non-empty list", log_mean_exp, [])
    refused(r"^values must be below infinity", log_mean_exp, [inf])
    assert log_mean_exp([-inf]) == -inf
    assert log_mean_exp([-inf, 2.0]) == pytest.approx(2.0 - log(2))


def test_weighted_average_size():
    assert weighted_average_size(0.005) == pytest.approx(399)
    assert weighted_average_size(0.75) == pytest.approx(5 / 3)
    weights = 0.2 * 0.8 ** np.arange(400)
    assert weighted_average_size(0.2) == pytest.approx(weights.sum() ** 2 / (weights**2).sum())


def test_effective_sample_size_edges():
    assert effective_sample_size(np.full(100, 0.3)) == 1.0
    assert effective_sample_size([0, 1] * 50) == 100  # antithetic draws are not counted double
    assert effective_sample_size([1.7e308, -1.7e308] * 50) == 100
    assert 1 <= effective_sample_size(np.arange(1001)) < 20
    for short in ([0.1, 0.2, 0.4], np.ones((2, 4))):
        with pytest.raises(ValueError, match="draws must be one chain of at least 4"):
            effective_sample_size(short)
