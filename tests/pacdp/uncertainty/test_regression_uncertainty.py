"""Uncertainty of numbers: the law of total variance by brute force, the loss against scipy, private training on it."""

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.utils.data import TensorDataset

from pacdp import private
from pacdp.uncertainty import gaussian_head, gaussian_nll_nats, predictive_spread

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(1, 1), (2, 5), (30, 4)])
def test_the_parts_are_the_mixtures_variance(shape):
    means, variances = RNG.normal(size=shape), RNG.gamma(2.0, size=shape)
    found = predictive_spread(means, variances)
    for i in range(shape[1]):
        first = math.fsum(means[:, i]) / shape[0]
        second = math.fsum(v + m * m for m, v in zip(means[:, i], variances[:, i], strict=True)) / shape[0]
        assert math.isclose(found.mean[i], first, abs_tol=1e-13)
        assert math.isclose(found.total[i], second - first**2, rel_tol=1e-11)
    np.testing.assert_allclose(found.epistemic, [np.var(means[:, i]) for i in range(shape[1])])


def test_draws_of_the_mixture_have_that_variance():
    means, variances = RNG.normal(size=(7, 3)), RNG.gamma(1.0, size=(7, 3))
    rng = np.random.default_rng(1)
    who = rng.integers(7, size=400_000)
    for i in range(3):
        draws = rng.normal(means[who, i], np.sqrt(variances[who, i]))
        found = predictive_spread(means, variances)
        assert math.isclose(draws.var(), found.total[i], rel_tol=0.02)
        assert math.isclose(draws.mean(), found.mean[i], abs_tol=0.02)


def test_equal_members_have_no_epistemic_part_and_sure_ones_no_aleatoric():
    one = RNG.normal(size=(1, 9))
    assert predictive_spread(np.repeat(one, 5, 0), np.ones((5, 9))).epistemic.max() < 1e-30
    np.testing.assert_array_equal(predictive_spread(RNG.normal(size=(5, 9)), np.zeros((5, 9))).aleatoric, 0.0)


def test_the_loss_is_scipys_and_torchs():
    outputs, targets = torch.randn(50, 2, dtype=torch.float64), torch.randn(50, dtype=torch.float64)
    means, variances = gaussian_head(outputs)
    loss = gaussian_nll_nats(outputs, targets)
    np.testing.assert_allclose(loss, -stats.norm.logpdf(targets, means, variances.sqrt()), rtol=1e-12)
    theirs = nn.functional.gaussian_nll_loss(means, targets, variances, full=True, reduction="none")
    torch.testing.assert_close(loss, theirs)


def test_private_training_takes_the_loss_and_learns_the_noise():
    torch.manual_seed(0)  # the network's first weights
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(400, 1, generator=generator) * 2 - 1
    targets = inputs[:, 0] + 0.5 * torch.randn(400, generator=generator)
    mechanism = private.Mechanism(clip_norm=20.0, sample_rate=0.25, expected_batch_size=100.0, steps=150)
    settings = private.DPSGD(mechanism=mechanism, noise_multiplier=0.5, learning_rate=0.05)
    run = private.train(settings, nn.Sequential(nn.Linear(1, 2)), TensorDataset(inputs, targets),
                        loss=gaussian_nll_nats, randomness=private.SeededRandomness(0))  # fmt: skip
    with torch.no_grad():
        means, variances = gaussian_head(private.with_weights(nn.Sequential(nn.Linear(1, 2)), run.weights)(inputs))
    assert math.isclose(float(variances.mean()) ** 0.5, 0.5, rel_tol=0.15)
    assert float((means - inputs[:, 0]).square().mean()) < 0.03
    assert private.epsilon(run.event, delta=1e-3, adjacency="add-remove") < math.inf


BAD = [
    (np.zeros((2, 3)), np.zeros((2, 4))), (np.zeros((0, 3)), np.zeros((0, 3))), (np.zeros((3, 2)), np.zeros((2, 2))),
    (np.full((2, 3), np.nan), np.ones((2, 3))), (np.zeros((2, 3)), np.full((2, 3), -1.0)),
    (np.zeros((2, 3)), np.full((2, 3), np.inf)), (np.zeros((2, 3)), np.full((2, 3), np.nan)),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(BAD)))
def test_bad_members_are_refused_in_one_sentence(case):
    with pytest.raises(ValueError, match="expected") as caught:
        predictive_spread(*BAD[case])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("outputs", "targets"), [((4, 3), (4,)), ((4, 2), (5,)), ((4, 1), (4,))])
def test_other_shapes_of_outputs_are_refused(outputs, targets):
    with pytest.raises(ValueError, match="expected outputs"):
        gaussian_nll_nats(torch.zeros(outputs), torch.zeros(targets))
    if outputs[-1] != 2:
        with pytest.raises(ValueError, match="two outputs"):
            gaussian_head(torch.zeros(outputs))
