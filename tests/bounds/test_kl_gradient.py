"""Derivatives of the inverse kl, against 50 digits and against differences."""

from math import exp, inf, nan, sqrt

import mpmath as mp
import numpy as np
import pytest
from cells import within_rounding
from kl_by_mpmath import halved
from mpmath import mpf
from numpy.random import default_rng

from bounds import binary_kl_upper
from bounds.objectives import binary_kl_upper_gradient


def exact(q, nats):
    """Both derivatives at the root of kl(q‖p) = nats, found by bisection in 80 digits."""
    with mp.workdps(80):
        q, nats = mpf(q), mpf(nats)

        def below(p):
            return q * mp.log(q / p) + (1 - q) * mp.log((1 - q) / (1 - p)) < nats

        p, _ = halved(below, q, mpf(1), 270)
        by_nats = p * (1 - p) / (p - q)
        return by_nats * mp.log(p * (1 - q) / (q * (1 - p))), by_nats


def test_derivatives_against_fifty_digits():
    rng = default_rng(21)
    q = np.concatenate([10 ** rng.uniform(-8, -0.3, 100), rng.uniform(0.5, 0.99, 50)])
    nats = 10 ** rng.uniform(-30, -0.5, 150)
    compared = 0
    for rate, cost, p, *found in zip(
        q, nats, binary_kl_upper(q, nats), *binary_kl_upper_gradient(q, nats), strict=True
    ):
        if 1e-3 < p < 1 - 1e-3:
            assert found == within_rounding([float(x) for x in exact(rate, cost)])
            compared += 1
    assert compared > 50


def test_close_rates_keep_their_digits():
    """Where p - q is a few ulp, the derivative by nats is √(q(1-q)/(2 nats))."""
    for nats in (1e-28, 1e-32, 1e-34):
        assert binary_kl_upper_gradient(0.3, nats)[1] == pytest.approx(sqrt(0.105 / nats), rel=1e-9)
        assert binary_kl_upper_gradient(0.3, nats)[0] == pytest.approx(1.0, rel=1e-9)


def test_edges_have_one_sided_limits():
    upper = binary_kl_upper_gradient
    assert np.array(upper(0.3, 0.0)).tolist() == [1.0, inf]
    assert upper(0.0, 0.1)[0] == inf
    assert upper(0.0, 0.1)[1] == pytest.approx(exp(-0.1), rel=1e-13)
    assert [*upper(0.3, inf), *upper(1.0, 0.1)] == [0.0] * 4


def test_what_is_no_rate_gives_nan():
    for q, nats in ((0.1, nan), (-0.1, 0.1)):
        assert np.isnan(binary_kl_upper_gradient(q, nats)).all()
