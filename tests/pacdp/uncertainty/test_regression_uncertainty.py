"""Uncertainty of numbers: the law of total variance by brute force, the loss against scipy, private training on it."""

import torch
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy import stats

from pacdp.uncertainty import gaussian_head, gaussian_nll_nats, predictive_spread
from tests.marks import parametrize


@parametrize("shape", [(1, 1), (2, 5), (30, 4)])
def test_the_parts_are_the_mixtures_variance_and_draws_have_it(shape):
    rng = default_rng(0)
    means, variances = rng.normal(size=shape), rng.gamma(2.0, size=shape)
    found = predictive_spread(means, variances)
    assert_allclose(found.mean, means.mean(0), atol=1e-13)
    assert_allclose(found.total, (variances + means**2).mean(0) - means.mean(0) ** 2, rtol=1e-11)
    assert_allclose(found.epistemic, means.var(0))
    assert_allclose(found.aleatoric, variances.mean(0))
    who = rng.integers(len(means), size=400_000)
    assert_allclose(found.total, rng.normal(means[who], variances[who] ** 0.5).var(0), rtol=0.02)


def test_the_loss_is_scipys():
    outputs, targets = torch.randn(50, 2, dtype=torch.float64), torch.randn(50, dtype=torch.float64)
    means, variances = gaussian_head(outputs)
    assert_allclose(
        gaussian_nll_nats(outputs, targets), -stats.norm.logpdf(targets, means, variances.sqrt()), rtol=1e-12
    )
