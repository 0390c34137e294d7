"""Uncertainty of classes: slow twins, laws; what is refused leaves an average as it was."""

import math

import numpy as np
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from pacdp.uncertainty import PredictiveAverage, class_uncertainty
from tests.marks import parametrize, refusal

PARTS = ("expected_entropy_nats", "mutual_information_nats", "predictive_entropy_nats", "variation_ratio")


GOOD = np.full((2, 2), 0.5)


def members(*shape, concentration=0.3):
    return default_rng(0).dirichlet([concentration] * shape[2], size=shape[:2])


@parametrize("shape", [(1, 1, 2), (5, 11, 3), (40, 6, 10)])
def test_every_example_is_what_scipy_and_plain_python_find(shape):
    given = members(*shape)
    found = class_uncertainty(given)
    for i, rows in enumerate(given.swapaxes(0, 1)):
        mean = [math.fsum(column) / len(rows) for column in rows.T]
        assert_allclose(found.probabilities[i], mean, rtol=1e-13)
        expected = math.fsum(float(stats.entropy(row)) for row in rows) / len(rows)
        between = math.fsum(float(stats.entropy(row, mean)) for row in rows) / len(rows)
        assert math.isclose(found.predictive_entropy_nats[i], float(stats.entropy(mean)), abs_tol=1e-13)
        assert math.isclose(found.expected_entropy_nats[i], expected, abs_tol=1e-13)
        assert math.isclose(found.mutual_information_nats[i], between, abs_tol=1e-12), "mean KL to the mean prediction"
        votes = [int(np.argmax(row)) for row in rows]
        assert math.isclose(found.variation_ratio[i], 1 - max(map(votes.count, votes)) / len(rows), abs_tol=1e-15)
    assert_array_equal(given.mean(axis=0), found.probabilities)
    average = PredictiveAverage()
    for member in given:
        average.add(member)
        with refusal("probabilities >= 0, got nan"):
            average.add(member * np.nan)
        for other in (np.vstack([member, member]), np.full((1, 4), 0.25), member[:1] if len(member) > 1 else GOOD):
            with refusal("probabilities of the same examples and classes"):
                average.add(other)
    assert average.members == len(given)
    assert_array_equal(average.result().variation_ratio, found.variation_ratio)
    single = (class_uncertainty(given.astype(np.float32).astype(float)), class_uncertainty(given.astype(np.float32)))
    for part in PARTS:
        assert_allclose(*(getattr(one, part) for one in single), err_msg="it is summed in double")


@parametrize("count", [1, 17, 1000])
def test_equal_members_have_no_mutual_information_and_never_less_than_none(count):
    found = class_uncertainty(np.repeat(members(1, 50, 7, concentration=0.05), count, axis=0))
    assert (found.mutual_information_nats >= 0.0).all()
    assert found.mutual_information_nats.max() < 1e-13
    assert found.variation_ratio.max() == 0.0
