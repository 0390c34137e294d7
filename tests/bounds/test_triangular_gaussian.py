"""Divergence and density ratio of Gaussians whose rows share a triangular factor, against torch's own and mpmath."""

import mpmath
import numpy as np
import pytest
import torch
from mpmath import mpf
from numpy.random import default_rng
from torch.distributions import MultivariateNormal

from bounds.divergence import triangular_gaussian_kl, triangular_log_density_ratio

RNG = default_rng(5)


def _laws(rows=3, dim=6):
    lower = np.tril(RNG.normal(size=(dim, dim)) * 0.3, -1) + np.diag(RNG.uniform(0.05, 1.5, dim))
    return {"mean_q": RNG.normal(size=(rows, dim)), "factor": lower, "mean_p": RNG.normal(size=(rows, dim)),
            "std_p": RNG.uniform(0.5, 2.0, (rows, dim))}  # fmt: skip


def _torch(mean, lower):
    return MultivariateNormal(torch.tensor(mean), scale_tril=torch.tensor(lower))


@pytest.mark.parametrize("std_q", [1.0, 0.3])
def test_the_ratio_is_that_of_full_gaussians(std_q):
    laws = _laws()
    weights = laws["mean_q"] + std_q * RNG.normal(size=(3, 6)) @ laws["factor"].T
    ratio = 0.0
    for k in range(3):
        q, p = (_torch(laws["mean_q"][k], std_q * laws["factor"]), _torch(laws["mean_p"][k], np.diag(laws["std_p"][k])))
        row = torch.tensor(weights[k])
        ratio += float(q.log_prob(row) - p.log_prob(row))
    found = triangular_log_density_ratio(weights, **laws, std_q=std_q)
    assert ratio - 1e-12 * abs(ratio) <= found <= ratio + 1e-9 * (1 + abs(ratio))


def test_formal_guarantee_above_the_exact_value():
    mpmath.mp.dps = 50
    for _ in range(20):
        laws = _laws(rows=2, dim=4)
        std_q, exact = float(RNG.uniform(0.1, 2.0)), mpf(0)
        for k in range(2):
            for i in range(4):
                s, m = mpf(laws["std_p"][k, i]), mpf(laws["mean_q"][k, i] - 0.0)
                length = sum((mpf(std_q) * mpf(x)) ** 2 for x in laws["factor"][i])
                top = mpf(std_q) * mpf(laws["factor"][i, i]) / s
                exact += (length + (m - mpf(laws["mean_p"][k, i])) ** 2) / s**2 - 1 - 2 * mpmath.log(top)
        assert mpf(triangular_gaussian_kl(**laws, std_q=std_q)) >= exact / 2


def test_equal_laws_cost_nothing():
    mean = RNG.normal(size=(3, 6))
    assert triangular_gaussian_kl(mean_q=mean, mean_p=mean, factor=np.eye(6), std_p=1.0) == 0.0


@pytest.mark.parametrize("digits", [1, 3, 7])
def test_an_ill_conditioned_factor_keeps_the_ratio_above_the_truth(digits):
    """Whose inverse grows to 10⁴, 10¹² and 10²⁸ times what a diagonal alone would give; and close, where it can be."""
    mpmath.mp.dps = 60
    for seed in range(60):
        rng, dim = default_rng(seed), 8
        lower = np.tril(rng.normal(size=(dim, dim)), -1) + np.diag(np.geomspace(1.0, 10.0**-digits, dim))
        weights, mean = rng.normal(size=(1, dim)) @ lower.T, np.zeros((1, dim))
        exact, noise = mpf(0), []
        for i in range(dim):
            row = [mpf(x) for x in lower[i]]
            left = mpf(weights[0, i]) - sum(x * y for x, y in zip(row, noise, strict=False))
            noise.append(left / row[i])
            exact += mpf(weights[0, i]) ** 2 / 2 - mpmath.log(row[i]) - noise[-1] ** 2 / 2
        found = triangular_log_density_ratio(weights, mean, lower, mean, 1.0)
        assert found >= exact
        assert digits > 1 or found - exact < 1e-8 * (1 + abs(exact))
