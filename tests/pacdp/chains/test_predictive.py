"""Predictive averages: the two-pass mean, the BALD identity, other computations, exact resumption."""

import itertools

import mpmath
import numpy as np
import pytest
import torch
from scipy import special, stats
from torch import Tensor

from pacdp.chains.predictive import Predictive, PredictiveAverage
from pacdp.chains.snapshots import MemorySnapshots, WeightsShape

N, FEATURES = 9, 3


def features(seed: int = 0) -> Tensor:
    return torch.randn((N, FEATURES), generator=torch.Generator().manual_seed(seed))


def draws(count: int, classes: int, *, scale: float = 3.0, seed: int = 1) -> Tensor:
    return scale * torch.randn((count, FEATURES * classes), generator=torch.Generator().manual_seed(seed))


def linear(weights: Tensor) -> Tensor:
    """Logits [n, classes]; [n, 1] for one weight vector."""
    return features() @ weights.reshape(FEATURES, -1)


def average(weights: Tensor, *, classes: int) -> PredictiveAverage:
    sums = PredictiveAverage(linear, n=N, classes=classes)
    for draw in weights:
        sums.add(draw)
    return sums


def two_pass(weights: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, entropy and mutual information from all predictions at once, by scipy, with the mean KL for the last."""
    logits = torch.stack([linear(draw) for draw in weights]).double().numpy()
    if logits.shape[2] == 1:
        predictions = np.concatenate([special.expit(-logits), special.expit(logits)], axis=2)
    else:
        predictions = special.softmax(logits, axis=2)
    mean = predictions.mean(axis=0)
    return mean, stats.entropy(mean, axis=1), special.rel_entr(predictions, mean).sum(axis=2).mean(axis=0)


def assert_same(left: Predictive, right: Predictive) -> None:
    assert left.snapshots == right.snapshots
    for name in ("probabilities", "entropy_nats", "expected_entropy_nats", "mutual_information_nats"):
        assert torch.equal(getattr(left, name), getattr(right, name)), name


@pytest.mark.parametrize("columns", [1, 2, 3, 10])
@pytest.mark.parametrize("count", [1, 2, 50])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e4])
def test_the_average_is_the_two_pass_mean(columns: int, count: int, scale: float) -> None:
    weights = draws(count, columns, scale=scale)
    result = average(weights, classes=max(2, columns)).result()
    mean, entropy, mutual = two_pass(weights)
    assert result.snapshots == count
    assert result.probabilities.dtype == torch.float64
    assert np.allclose(result.probabilities, mean, rtol=1e-13, atol=1e-300)
    assert np.allclose(result.entropy_nats, entropy, rtol=1e-12, atol=1e-14)
    assert np.allclose(result.mutual_information_nats, mutual, rtol=1e-11, atol=1e-14)
    assert torch.equal(result.mutual_information_nats, result.entropy_nats - result.expected_entropy_nats)
    assert float(result.mutual_information_nats.min()) >= -1e-12
    assert float(result.entropy_nats.max()) <= np.log(max(2, columns)) + 1e-12
    assert bool((result.expected_entropy_nats >= 0).all())


def test_fifty_digits() -> None:
    """Five draws of a two-class network against mpmath, which shares no line with the sums."""
    weights = draws(5, 1, scale=8.0)
    result = average(weights, classes=2).result()
    with mpmath.workdps(50):
        for i in range(N):
            logits = [mpmath.mpf(float(linear(draw)[i, 0])) for draw in weights]
            ones = [1 / (1 + mpmath.exp(-f)) for f in logits]

            def entropy(p: mpmath.mpf) -> mpmath.mpf:
                return -p * mpmath.log(p) - (1 - p) * mpmath.log(1 - p)

            mean = sum(ones) / 5
            assert abs(float(result.probabilities[i, 1]) - mean) < 1e-15
            assert abs(float(result.probabilities[i, 0]) - (1 - mean)) < 1e-15
            mutual = entropy(mean) - sum(map(entropy, ones)) / 5
            assert mutual > 0
            assert abs(float(result.mutual_information_nats[i]) - mutual) < 1e-14


def test_certain_draws_that_disagree_have_all_their_uncertainty_in_the_weights() -> None:
    rows = torch.tensor([[1e30, 0.0, -1e30], [0.0, 1e30, -1e30]])
    sums = PredictiveAverage(lambda weights: weights.expand(N, 3), n=N, classes=3)
    sums.add(rows)
    result = sums.result()
    assert result.probabilities.tolist() == [[0.5, 0.5, 0.0]] * N
    assert result.expected_entropy_nats.tolist() == [0.0] * N
    assert torch.allclose(result.mutual_information_nats, torch.full((N,), float(np.log(2)), dtype=torch.float64))


def test_one_draw_says_nothing_of_the_weights() -> None:
    result = average(draws(1, 4), classes=4).result()
    assert result.mutual_information_nats.tolist() == [0.0] * N


@pytest.mark.parametrize("shape", [(N,), (N, 1), (N, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_two_classes_in_three_shapes(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    logit = torch.linspace(-4, 4, N).to(dtype)
    logits = torch.stack([torch.zeros_like(logit), logit], dim=1) if shape == (N, 2) else logit.reshape(shape)
    sums = PredictiveAverage(lambda weights: logits, n=N, classes=2)
    sums.add(torch.ones(1))
    assert torch.allclose(sums.result().probabilities[:, 1], torch.sigmoid(logit.double()), rtol=1e-14, atol=0)


def test_chains_count_as_draws_and_order_matters_not() -> None:
    weights = draws(24, 3)
    one = average(weights, classes=3).result()
    for chains, order in itertools.product((2, 8, 24), (1, -1)):
        store = MemorySnapshots(
            shape=WeightsShape(chains=chains, parameters=(("w", (9,)),), layout="flat"), keep=24 // chains
        )
        for step, group in enumerate(weights.reshape(-1, chains, 9)):
            store.append(step, group)
        sums = PredictiveAverage(linear, n=N, classes=3)
        for _, group in list(store)[::order]:
            sums.add(group)
        result = sums.result()
        assert result.snapshots == 24
        assert torch.allclose(result.probabilities, one.probabilities, rtol=1e-14, atol=1e-16)
        assert torch.allclose(result.mutual_information_nats, one.mutual_information_nats, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("cut", [0, 1, 7, 20])
def test_resumption_is_exact(cut: int) -> None:
    weights = draws(20, 3)
    state = average(weights[:cut], classes=3).state()
    resumed = PredictiveAverage(linear, n=N, classes=3)
    resumed.restore(state)
    before = {name: tensor.clone() for name, tensor in state.items()}
    for draw in weights[cut:]:
        resumed.add(draw)
    assert_same(resumed.result(), average(weights, classes=3).result())
    assert all(torch.equal(state[name], before[name]) for name in before)  # copies, not the sums themselves


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("classes", [2, 3])
def test_logits_that_are_no_numbers_are_refused_and_counted(bad: float, classes: int) -> None:
    weights = draws(6, classes)
    sums = average(weights[:4], classes=classes)
    before = sums.result()
    broken = weights.clone()
    broken[5, 0] = bad
    for wrong, number in ((broken[4:], 6), (broken[5], 5)):
        says = rf"logits of snapshot {number} are NaN or infinite: .* the average of the 4 before is intact"
        with pytest.raises(ValueError, match=says):
            sums.add(wrong)
        assert_same(sums.result(), before)
    sums.add(weights[4:])
    assert sums.result().snapshots == 6


@pytest.mark.parametrize("shape", [(N, 2), (N, 4), (N,), (N, 1), (N + 1, 3), (3, N), (1, N, 3)])
def test_logits_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    sums = PredictiveAverage(lambda weights: torch.zeros(shape), n=N, classes=3)
    with pytest.raises(ValueError, match=r"expected logits \[\(9, 3\)\] of snapshot 1, got"):
        sums.add(torch.ones(2))


def test_an_empty_average_and_no_chains_are_refused() -> None:
    sums = PredictiveAverage(linear, n=N, classes=3)
    with pytest.raises(ValueError, match="expected at least one snapshot in the predictive average"):
        sums.result()
    with pytest.raises(ValueError, match="of one chain or more"):
        sums.add(torch.ones(0, 9))
    for n, classes in ((0, 2), (3, 1)):
        with pytest.raises(ValueError, match="expected n >= 1 inputs and classes >= 2"):
            PredictiveAverage(linear, n=n, classes=classes)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"snapshots": torch.tensor(7)}, "sum to snapshots=7 in each row"),
        ({"snapshots": torch.tensor(-6)}, "sum to snapshots=-6 in each row"),
        ({"snapshots": torch.tensor(6.0)}, "expected the state of a predictive average"),
        ({"entropies": torch.full((N,), float("nan"), dtype=torch.float64)}, "the state is damaged"),
        ({"probabilities": torch.full((N, 3), float("nan"), dtype=torch.float64)}, "the state is damaged"),
        ({"probabilities": torch.tensor([[7.0, -1.0, 0.0]] * N, dtype=torch.float64)}, "the state is damaged"),
        ({"probabilities": torch.full((N, 3), 2.0)}, "expected the state of a predictive average"),
        ({"probabilities": torch.full((N, 4), 1.5, dtype=torch.float64)}, "expected the state of a predictive average"),
        ({"more": torch.ones(1)}, "expected the state of a predictive average"),
    ],
)
def test_a_damaged_state_is_refused(change: dict[str, Tensor], says: str) -> None:
    sums = average(draws(6, 3), classes=3)
    before = sums.result()
    with pytest.raises(ValueError, match=says):
        sums.restore(sums.state() | change)
    with pytest.raises(ValueError, match="expected the state of a predictive average"):
        sums.restore({})
    assert_same(sums.result(), before)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU")
def test_a_gpu_gives_the_same_average() -> None:
    weights = draws(20, 3)
    inputs = features().cuda().double()
    sums = PredictiveAverage(lambda w: inputs @ w.double().reshape(FEATURES, 3), n=N, classes=3, device="cuda")
    sums.add(weights.cuda())
    host = PredictiveAverage(lambda w: features().double() @ w.double().reshape(FEATURES, 3), n=N, classes=3)
    host.restore(sums.state())
    assert torch.equal(host.result().probabilities, sums.result().probabilities.cpu())
    mean = sums.result().probabilities.cpu()
    host = PredictiveAverage(lambda w: features().double() @ w.double().reshape(FEATURES, 3), n=N, classes=3)
    host.add(weights)
    assert torch.allclose(host.result().probabilities, mean, rtol=1e-12, atol=1e-15)
