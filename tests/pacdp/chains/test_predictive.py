"""Predictive averages: the two-pass mean, the BALD identity, other computations, exact resumption."""

import itertools

import numpy as np
import pytest
import torch
from scipy import special, stats
from torch import equal

from pacdp.chains.predictive import PredictiveAverage
from tests.marks import parametrize, refusal
from tests.pacdp.draws import randn
from tests.pacdp.same import identical

N, FEATURES = 9, 3


def features(seed=0):
    return randn((N, FEATURES), seed=seed)


def draws(count, classes, *, scale=3.0, seed=1):
    return scale * randn((count, FEATURES * classes), seed=seed)


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
    return mean, stats.entropy(mean, axis=1), special.rel_entr(predictions, mean).sum(axis=2).mean(axis=0)


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


def test_chains_count_as_draws_and_order_matters_not():
    weights = draws(24, 3)
    one = average(weights, classes=3).result()
    for chains, order in itertools.product((2, 24), (1, -1)):
        result = average(list(weights.reshape(-1, chains, 9))[::order], classes=3).result()
        assert result.snapshots == 24
        assert torch.allclose(result.probabilities, one.probabilities, rtol=1e-14, atol=1e-16)
        assert torch.allclose(result.mutual_information_nats, one.mutual_information_nats, rtol=1e-12, atol=1e-14)


@parametrize("cut", [0, 7, 20])
def test_resumption_is_exact(cut):
    weights = draws(20, 3)
    state = average(weights[:cut], classes=3).state()
    resumed = PredictiveAverage(linear, n=N, classes=3)
    resumed.restore(state)
    before = {name: tensor.clone() for name, tensor in state.items()}
    for draw in weights[cut:]:
        resumed.add(draw)
    assert_same(resumed.result(), average(weights, classes=3).result())
    assert identical(state, before)  # copies, not the sums themselves


@parametrize("bad", [torch.nan, -torch.inf])
def test_what_is_refused_leaves_the_average_as_it_was(bad):
    """Logits that are no numbers or have another shape, and damaged states."""
    weights = draws(6, 3)
    sums = average(weights[:4], classes=3)
    before, state = sums.result(), average(weights, classes=3).state()
    broken = weights.clone()
    broken[5, 0] = bad
    for wrong, number in ((broken[4:], 6), (broken[5], 5)):
        with refusal(rf"of snapshot {number} are NaN or infinite: .* the 4 before is intact"):
            sums.add(wrong)
    for change in (
        {"snapshots": torch.tensor(7)},
        {"snapshots": torch.tensor(-6)},
        {"snapshots": torch.tensor(6.0)},
        {"entropies": torch.full((N,), bad, dtype=torch.float64)},
        {"probabilities": torch.full((N, 3), bad, dtype=torch.float64)},
        {"probabilities": torch.tensor([[7.0, -1.0, 0.0]] * N, dtype=torch.float64)},
        {"probabilities": torch.full((N, 3), 2.0)},
        {"probabilities": torch.full((N, 4), 1.5, dtype=torch.float64)},
        {"more": torch.ones(1)},
    ):
        with refusal(r"sum to snapshots=|state of a predictive average|the state is damaged"):
            sums.restore(state | change)
    assert_same(sums.result(), before)
    sums.add(weights[4:])
    assert sums.result().snapshots == 6


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

    there, here, again = on("cuda"), on("cpu"), on("cpu")
    there.add(weights.cuda())
    here.add(weights)
    again.restore(there.state())
    mean = there.result().probabilities.cpu()
    assert torch.allclose(again.result().probabilities, mean, rtol=1e-15, atol=0.0)  # a GPU divides otherwise
    assert torch.allclose(here.result().probabilities, mean, rtol=1e-12, atol=1e-15)
