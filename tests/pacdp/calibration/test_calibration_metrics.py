"""Calibration errors: slow twins, laws that hold over all of them, exact expectations."""

import math
from functools import partial

import numpy as np
import pytest
from calibration_tools import Case, calibrated, continuous, one_class, pairs, slow_equal_mass, slow_gaps, ties
from numpy.random import default_rng
from scipy import special

from pacdp import calibration
from pacdp.calibration import (
    ace,
    ece,
    mce,
    sce,
    summary,
    top_label,
)  # fmt: skip
from pacdp.calibration.metrics import equal_width_index
from tests.marks import every_case, parametrize

ERRORS = [ece, mce, sce, ace]
SCORES = [calibration.accuracy, calibration.nll_nats, calibration.brier]
CASES = [made for seed in range(3) for made in (continuous(seed, n=40 * seed + 5), ties(seed, pieces=10))]
near = partial(pytest.approx, rel=1e-11, abs=1e-13)
each_error = parametrize("function", ERRORS, ids=lambda function: function.__name__)


@parametrize("bins", [1, 10, 40])
def test_plain_python_finds_the_same_and_equal_mass_shares_examples_and_ties_among_bins(bins):
    for case in CASES[:4]:
        examples = pairs(case)
        assert [error(*case, bins=bins) for error in (ece, mce)] == near(slow_gaps(examples, bins))
        classes = range(case.probabilities.shape[1])
        for error, slow in ((ace, slow_equal_mass), (sce, lambda *at: slow_gaps(*at)[0])):
            each = [slow(one_class(case, k), bins) for k in classes]
            assert error(*case, bins=bins) == near(math.fsum(each) / len(classes))


@every_case("function", [*ERRORS, *SCORES], ids=lambda function: function.__name__)
def test_order_names_of_classes_and_copies_do_not_matter(function):
    rng = default_rng(0)
    for case in CASES:
        probabilities, labels, value = *case, near(function(*case))
        order, classes = rng.permutation(len(labels)), rng.permutation(probabilities.shape[1])
        assert function(probabilities[order], labels[order]) == value
        clear = (probabilities == probabilities.max(axis=1, keepdims=True)).sum(axis=1) == 1  # no ties for the top
        renamed = function(probabilities[clear][:, classes], np.argsort(classes)[labels[clear]])
        assert renamed == near(function(probabilities[clear], labels[clear]))
        assert function(np.repeat(probabilities, 2, axis=0), np.repeat(labels, 2)) == value


@each_error
@pytest.mark.every_case
def test_perfect_calibration_is_zero_and_certain_and_always_wrong_is_one(function):
    for classes in (2, 4):
        assert function(*calibrated(classes=classes)) == pytest.approx(0.0, abs=1e-12)
    assert function(np.tile([1.0, 0.0], (50, 1)), np.ones(50, dtype=np.int64)) == pytest.approx(1.0, abs=1e-9)


@parametrize("case", CASES)
def test_ranges_and_orders(case):
    confidence, correct = top_label(probabilities=case.probabilities, labels=case.labels)
    mean_gap, slack = abs(float(confidence.mean() - correct.mean())), 1e-12
    values = {function.__name__: function(*case) for function in ERRORS}
    assert all(0.0 <= value <= 1.0 for value in values.values())
    assert mean_gap - slack <= values["ece"] <= values["mce"] + slack
    assert max(values["sce"], values["ace"]) <= 2 / case.probabilities.shape[1]
    assert ece(*case, bins=4) <= ece(*case, bins=16) + slack, "merged bins cancel"


def test_single_precision_meets_edges_in_single_precision_and_its_softmax_is_taken():
    """The float32 of k/25 may be below the float64, but is in the same bin; the last is closed."""
    edges = np.arange(26) / 25
    for kind in "fd":
        assert equal_width_index(edges.astype(kind), bins=25).tolist() == [*range(25), 24]
        assert equal_width_index(np.nextafter(edges[1:-1].astype(kind), 0), bins=25).tolist() == list(range(24))
    logits = default_rng(0).normal(scale=20.0, size=(500, 10)).astype(np.float32)
    labels = default_rng(1).integers(0, 10, 500)
    single, double = (special.softmax(logits.astype(kind), axis=1) for kind in "fd")
    for function in ERRORS:
        assert function(single, labels) == pytest.approx(function(double, labels), abs=1e-5), function.__name__
        for whole in (int, np.uint8):  # certain predictions
            certain = np.eye(10, dtype=whole)[single.argmax(axis=1)]
            assert function(certain, labels) == function(certain.astype(float), labels) > 0.1, function.__name__


def test_summary_holds_every_number_and_only_finite_ones():
    case = Case(np.array([[0.2, 0.8], [1.0, 0.0], [0.5, 0.5]]), np.array([1, 1, 0]))
    found = summary(*case, bins=10)
    for error in ERRORS:
        assert found[error.__name__] == error(*case, bins=10)
    assert found["accuracy"] == calibration.accuracy(*case)
    assert (found["n"], found["classes"], found["bins"]) == (3, 2, 10)
    assert found["nll_nats"] is None, "a label had probability 0"
    assert summary(np.array([[0.25, 0.75]]), np.array([1]))["macro_auc"] is None
