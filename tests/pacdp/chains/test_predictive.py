"""Predictive averages: the two-pass mean, the BALD identity, other computations."""

import itertools

import numpy as np
import pytest
import torch
from scipy import special, stats
from torch import equal

from pacdp.chains.predictive import PredictiveAverage
from tests.marks import parametrize, refusal
from tests.pacdp.draws import randn

N, FEATURES = 9, 3


def features():
    return randn((N, FEATURES))


def draws(count, classes, *, scale=3.0):
    return scale * randn((count, FEATURES * classes), seed=1)


def linear(weights):
    """Logits [n, classes]; [n, 1] for one weight vector."""
    return features() @ weights.reshape(FEATURES, -1)


def average(weights, *, classes):
    sums = PredictiveAverage(linear, n=N, classes=classes)
    for draw in weights:
        sums.add(draw)
    return sums


def two_pass(weights):
    """Mean, entropy and mutual information from all predictions at once, by scipy, with the mean KL for the last."""
    logits = torch.stack([linear(draw) for draw in weights]).double().numpy()
    if logits.shape[2] == 1:
        predictions = np.concatenate([special.expit(-logits), special.expit(logits)], axis=2)
    else:
        predictions = special.softmax(logits, axis=2)
    mean = predictions.mean(axis=0)
    return (mean, stats.entropy(mean, axis=1), special.rel_entr(predictions, mean).sum(axis=2).mean(axis=0))


def assert_same(left, right):
    assert left.snapshots == right.snapshots
    for name in ("probabilities", "entropy_nats", "expected_entropy_nats", "mutual_information_nats"):
        assert equal(getattr(left, name), getattr(right, name)), name


@parametrize("columns", [1, 2, 10])
def test_the_average_is_the_two_pass_mean(columns):
    for count, scale in itertools.product((1, 2, 50), (1e-3, 1.0, 30.0, 1e4)):
        weights = draws(count, columns, scale=scale)
        result = average(weights, classes=max(2, columns)).result()
        mean, entropy, mutual = two_pass(weights)
        assert result.snapshots == count
        assert result.probabilities.dtype == torch.float64
        assert np.allclose(result.probabilities, mean, rtol=1e-13, atol=1e-300)
        assert np.allclose(result.entropy_nats, entropy, rtol=1e-12, atol=1e-14)
        assert np.allclose(result.mutual_information_nats, mutual, rtol=1e-11, atol=1e-14)
        assert equal(result.mutual_information_nats, result.entropy_nats - result.expected_entropy_nats)
        assert float(result.mutual_information_nats.min()) >= -1e-12
        assert count > 1 or not result.mutual_information_nats.any()  # one draw says nothing of the weights
        assert (result.expected_entropy_nats >= 0).all()


@parametrize("shape", [(N,), (N, 1), (N, 2)])
@parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_two_classes_in_three_shapes(shape, dtype):
    logit = torch.linspace(-4, 4, N).to(dtype)
    logits = torch.stack([torch.zeros_like(logit), logit], dim=1) if shape == (N, 2) else logit.reshape(shape)
    sums = PredictiveAverage(lambda weights: logits, n=N, classes=2)
    sums.add(torch.ones(1))
    assert torch.allclose(sums.result().probabilities[:, 1], torch.sigmoid(logit.double()), rtol=1e-14, atol=0)


@parametrize("bad", [torch.nan, -torch.inf])
def test_logits_that_are_no_numbers_leave_the_average_as_it_was(bad):
    weights = draws(6, 3)
    sums = average(weights[:4], classes=3)
    before, broken = sums.result(), weights[5].clone()
    broken[0] = bad
    with refusal(r"of snapshot 5 are NaN or infinite: .* the 4 before is intact"):
        sums.add(broken)
    assert_same(sums.result(), before)
    sums.add(weights[4])
    assert_same(sums.result(), average(weights[:5], classes=3).result())


@parametrize("shape", [(N, 2), (N + 1, 3), (1, N, 3)])
def test_logits_of_another_shape_are_refused(shape):
    sums = PredictiveAverage(lambda weights: torch.zeros(shape), n=N, classes=3)
    with refusal(r"expected logits \[\(9, 3\)\] of snapshot 1, got"):
        sums.add(torch.ones(2))


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
def test_a_gpu_gives_the_same_average():
    weights = draws(20, 3)

    def on(device):
        inputs = features().double().to(device)
        return PredictiveAverage(lambda w: inputs @ w.double().reshape(FEATURES, 3), n=N, classes=3, device=device)

    there, here = on("cuda"), on("cpu")
    for draw in weights:
        there.add(draw.cuda())
        here.add(draw)
    mean = there.result().probabilities.cpu()
    assert torch.allclose(here.result().probabilities, mean, rtol=1e-12, atol=1e-15)
