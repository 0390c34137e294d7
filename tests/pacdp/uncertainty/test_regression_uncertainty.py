"""Uncertainty of numbers: the law of total variance by brute force, the loss against scipy, private training on it."""

import math

import torch
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy import stats
from torch.nn import Linear, Sequential
from torch.utils.data import TensorDataset

from pacdp import private
from pacdp.uncertainty import gaussian_head, gaussian_nll_nats, predictive_spread
from tests.marks import parametrize
from tests.pacdp.toys import seeded


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


def test_private_training_takes_the_loss_and_learns_the_noise():
    torch.manual_seed(0)  # the network's first weights
    generator = seeded(0)
    inputs = torch.rand(400, 1, generator=generator) * 2 - 1
    targets = inputs[:, 0] + 0.5 * torch.randn(400, generator=generator)
    mechanism = private.Mechanism(clip_norm=20.0, noise_multiplier=0.5, sample_rate=0.25, expected_batch_size=100.0,
                                  steps=150)  # fmt: skip
    run = private.train(private.DPSGD(learning_rate=0.05), Sequential(Linear(1, 2)), TensorDataset(inputs, targets),
                        mechanism=mechanism, loss=gaussian_nll_nats,
                        randomness=private.SeededRandomness(0))  # fmt: skip
    with torch.no_grad():
        means, variances = gaussian_head(private.with_weights(Sequential(Linear(1, 2)), run.weights)(inputs))
    assert math.isclose(float(variances.mean()) ** 0.5, 0.5, rel_tol=0.15)
    assert float((means - inputs[:, 0]).square().mean()) < 0.03
