"""Divergence and density ratio of Gaussians whose rows share a triangular factor, against torch's own and mpmath."""

import mpmath
import numpy as np
import pytest
import torch
from torch.distributions import MultivariateNormal, kl_divergence

import bounds

RNG = np.random.default_rng(5)


def _laws(rows=3, dim=6):
    lower = np.tril(RNG.normal(size=(dim, dim)) * 0.3, -1) + np.diag(RNG.uniform(0.05, 1.5, dim))
    return {"mean_q": RNG.normal(size=(rows, dim)), "factor": lower, "mean_p": RNG.normal(size=(rows, dim)),
            "std_p": RNG.uniform(0.5, 2.0, (rows, dim))}  # fmt: skip


def _torch(mean, lower):
    return MultivariateNormal(torch.tensor(mean), scale_tril=torch.tensor(lower))


@pytest.mark.parametrize("std_q", [1.0, 0.3])
def test_divergence_and_ratio_are_those_of_full_gaussians(std_q):
    laws = _laws()
    weights = laws["mean_q"] + std_q * RNG.normal(size=(3, 6)) @ laws["factor"].T
    wanted = ratio = 0.0
    for k in range(3):
        q, p = _torch(laws["mean_q"][k], std_q * laws["factor"]), _torch(laws["mean_p"][k], np.diag(laws["std_p"][k]))
        wanted += float(kl_divergence(q, p))
        row = torch.tensor(weights[k])
        ratio += float(q.log_prob(row) - p.log_prob(row))
    found = bounds.triangular_gaussian_kl(**laws, std_q=std_q)
    assert wanted <= found * (1 + 1e-12)
    assert found == pytest.approx(wanted, rel=1e-12)
    found = bounds.triangular_log_density_ratio(weights, **laws, std_q=std_q)
    assert ratio - 1e-12 * abs(ratio) <= found <= ratio + 1e-9 * (1 + abs(ratio))


def test_formal_guarantee_above_the_exact_value():
    mpmath.mp.dps = 50
    for _ in range(20):
        laws = _laws(rows=2, dim=4)
        std_q, exact = float(RNG.uniform(0.1, 2.0)), mpmath.mpf(0)
        for k in range(2):
            for i in range(4):
                s, m = mpmath.mpf(laws["std_p"][k, i]), mpmath.mpf(laws["mean_q"][k, i] - 0.0)
                length = sum((mpmath.mpf(std_q) * mpmath.mpf(x)) ** 2 for x in laws["factor"][i])
                top = mpmath.mpf(std_q) * mpmath.mpf(laws["factor"][i, i]) / s
                exact += (length + (m - mpmath.mpf(laws["mean_p"][k, i])) ** 2) / s**2 - 1 - 2 * mpmath.log(top)
        assert mpmath.mpf(bounds.triangular_gaussian_kl(**laws, std_q=std_q)) >= exact / 2


def test_equal_laws_cost_nothing():
    mean = RNG.normal(size=(3, 6))
    assert bounds.triangular_gaussian_kl(mean_q=mean, mean_p=mean, factor=np.eye(6), std_p=1.0) == 0.0


def test_an_ill_conditioned_factor_keeps_the_ratio_above_the_truth():
    mpmath.mp.dps = 60
    lower = np.tril(RNG.normal(size=(8, 8)), -1) + np.diag(10.0 ** -np.arange(8.0))
    mean, weights = np.zeros((1, 8)), RNG.normal(size=(1, 8)) @ lower.T
    exact_lower = mpmath.matrix(lower.tolist())
    noise = mpmath.lu_solve(exact_lower, mpmath.matrix(weights[0].tolist()))
    exact = -sum(mpmath.log(exact_lower[i, i]) for i in range(8)) - sum(x * x for x in noise) / 2
    exact += sum(mpmath.mpf(x) ** 2 for x in weights[0]) / 2
    assert mpmath.mpf(bounds.triangular_log_density_ratio(weights, mean, lower, mean, 1.0)) >= exact
