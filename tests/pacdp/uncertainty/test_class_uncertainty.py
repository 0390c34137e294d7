"""Uncertainty of classes: slow twins, laws, the twin in pacdp.chains, refusals."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from pacdp.chains.predictive import PredictiveAverage
from pacdp.uncertainty import (
    class_uncertainty,
    expected_entropy_nats,
    mutual_information_nats,
    predictive_entropy_nats,
    predictive_mean,
    variation_ratio,
)

ALL = [class_uncertainty, expected_entropy_nats, mutual_information_nats, predictive_entropy_nats, predictive_mean,
       variation_ratio]  # fmt: skip
SHAPES = [(1, 1, 2), (2, 7, 2), (5, 11, 3), (40, 6, 10)]


def members(shape: tuple[int, int, int], *, seed: int = 0, concentration: float = 0.3) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet([concentration] * shape[2], size=shape[:2])


@pytest.mark.parametrize("shape", SHAPES)
def test_every_example_is_what_scipy_and_plain_python_find(shape):
    given = members(shape)
    found = class_uncertainty(given)
    for i in range(shape[1]):
        rows = given[:, i]
        mean = [math.fsum(rows[:, k]) / len(rows) for k in range(shape[2])]
        np.testing.assert_allclose(found.probabilities[i], mean, rtol=1e-13)
        total = float(stats.entropy(mean))
        expected = math.fsum(float(stats.entropy(row)) for row in rows) / len(rows)
        between = math.fsum(float(stats.entropy(row, mean)) for row in rows) / len(rows)
        assert math.isclose(found.predictive_entropy_nats[i], total, abs_tol=1e-13)
        assert math.isclose(found.expected_entropy_nats[i], expected, abs_tol=1e-13)
        assert math.isclose(found.mutual_information_nats[i], between, abs_tol=1e-12), "mean KL to the mean prediction"
        votes = [int(np.argmax(row)) for row in rows]
        most = max(votes.count(k) for k in range(shape[2]))
        assert math.isclose(found.variation_ratio[i], 1 - most / len(rows), abs_tol=1e-15)


@pytest.mark.parametrize("shape", SHAPES)
def test_single_functions_say_the_same(shape):
    given, found = members(shape, seed=1), class_uncertainty(members(shape, seed=1))
    for function in ALL[1:]:
        name = "probabilities" if function is predictive_mean else function.__name__
        np.testing.assert_array_equal(function(given), getattr(found, name))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("count", [1, 3, 17, 1000])
def test_equal_members_have_no_mutual_information_and_never_less_than_none(seed, count):
    given = np.repeat(members((1, 50, 7), seed=seed, concentration=0.05), count, axis=0)
    found = class_uncertainty(given)
    assert (found.mutual_information_nats >= 0.0).all()
    assert found.mutual_information_nats.max() < 1e-13
    assert found.variation_ratio.max() == 0.0
    np.testing.assert_allclose(found.predictive_entropy_nats, found.expected_entropy_nats, atol=1e-13)


def test_members_that_are_sure_of_different_classes_know_nothing():
    for classes in (2, 3, 10):
        found = class_uncertainty(np.eye(classes)[:, None, :])
        assert found.expected_entropy_nats[0] == 0.0
        assert math.isclose(found.mutual_information_nats[0], math.log(classes), rel_tol=1e-14)
        assert math.isclose(found.predictive_entropy_nats[0], math.log(classes), rel_tol=1e-14)
        assert math.isclose(found.variation_ratio[0], 1 - 1 / classes, rel_tol=1e-14)


def test_order_of_members_and_of_classes_does_not_matter():
    given = members((9, 20, 4), seed=3)
    found = class_uncertainty(given)
    turned = class_uncertainty(given[::-1, :, [2, 0, 3, 1]])
    for name in ("predictive_entropy_nats", "expected_entropy_nats", "mutual_information_nats", "variation_ratio"):
        np.testing.assert_allclose(getattr(turned, name), getattr(found, name), atol=1e-13)


def test_the_running_average_of_chains_finds_the_same():
    logits = torch.randn(6, 12, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    average = PredictiveAverage(lambda weights: weights.reshape(12, 5), n=12, classes=5)
    for draw in logits:
        average.add(draw.reshape(-1))
    theirs, ours = average.result(), class_uncertainty(logits.softmax(-1).numpy())
    np.testing.assert_allclose(ours.probabilities, theirs.probabilities.numpy(), atol=1e-14)
    for name in ("expected_entropy_nats", "mutual_information_nats"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name).numpy(), atol=1e-13)


def test_single_precision_is_summed_in_double():
    given = members((30, 8, 10), seed=5).astype(np.float32)
    found = class_uncertainty(given)
    assert found.probabilities.dtype == np.float64
    np.testing.assert_allclose(
        found.mutual_information_nats, class_uncertainty(given.astype(float)).mutual_information_nats
    )


GOOD = np.full((2, 3, 2), 0.5)
BAD = {
    "NaN": np.where(np.arange(12).reshape(2, 3, 2) == 5, np.nan, GOOD),
    "negative": GOOD + np.array([-0.6, 0.6]),
    "sums": GOOD * 1.01,
    "infinite": np.where(np.arange(12).reshape(2, 3, 2) == 5, np.inf, GOOD),
    "one class": np.ones((2, 3, 1)),
    "no member": np.ones((0, 3, 2)),
    "no example": np.ones((2, 0, 2)),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("function", ALL, ids=lambda function: function.__name__)
def test_bad_members_are_refused_in_one_sentence(function, name):
    with pytest.raises(ValueError, match="expected") as caught:
        function(BAD[name])
    assert "\n" not in str(caught.value)
    assert "members" in str(caught.value)
