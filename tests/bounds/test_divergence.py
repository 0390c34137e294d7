"""Gaussian divergence against mpmath, and its refusals."""

from math import inf

import mpmath as mp
import numpy as np
import pytest
from mpmath import mpf
from numpy.random import default_rng

from bounds.divergence import gaussian_kl


def by_mpmath(mean_q, std_q, mean_p, std_p):
    with mp.workdps(50):
        total = mpf(0)
        for a, s, b, t in zip(*np.broadcast_arrays(mean_q, std_q, mean_p, std_p), strict=True):
            a, s, b, t = (mpf(float(v)) for v in (a, s, b, t))
            total += ((s / t) ** 2 - 1 - 2 * mp.log(s / t) + ((a - b) / t) ** 2) / 2
        return total


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 30.0])
@pytest.mark.parametrize("isotropic", [True, False])
def test_formal_guarantee_above_the_exact_value_and_close(scale, isotropic):
    rng = default_rng(5)
    mean_q, mean_p = rng.normal(size=200), rng.normal(size=200)
    std_p = 0.3 if isotropic else rng.uniform(0.1, 1, 200)
    std_q = std_p * (1.0 + scale if isotropic else np.exp(scale * rng.normal(size=200).clip(-3, 3)))
    for left in (mean_q, mean_p):  # also with equal means, where only the spread is left
        value, truth = (gaussian_kl(left, std_q, mean_p, std_p), by_mpmath(left, std_q, mean_p, std_p))
        assert truth <= value <= truth * (1 + mpf("1e-13"))


def test_equal_laws_cost_nothing():
    assert gaussian_kl(np.ones(7), 0.1, np.ones(7), 0.1) == 0.0
    assert gaussian_kl((), 8e260, 0.05, 0.05) == 0.0  # of no coordinate


def test_numbers_stand_for_every_coordinate():
    mean = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    whole = gaussian_kl(mean, np.full((3, 4), 0.2), np.zeros((3, 4)), np.full((3, 4), 0.5))
    assert gaussian_kl(mean, 0.2, 0.0, 0.5) == pytest.approx(whole, rel=1e-14)
    assert gaussian_kl(0.3, 0.2, 0.0, 0.5) > 0


def test_extremes_give_infinity_not_a_warning():
    assert gaussian_kl(0.0, 1e200, 0.0, 1e-200) == inf
    assert gaussian_kl(0.0, 1e-200, 0.0, 1e200) == inf
    assert gaussian_kl(1e300, 1.0, 0.0, 1e-20) == inf
