"""Calibration errors: slow twins, laws that hold over all of them, exact expectations, refusals."""

import math
from functools import partial

import calibration_tools as tools
import numpy as np
import pytest
from scipy import special, stats

from pacdp import calibration
from pacdp.calibration import (
    ace,
    adaptive_ece,
    debiased_l2,
    debiased_square,
    ece,
    mce,
    rmsce,
    sce,
    smooth_ece,
    summary,
    top_label,
)  # fmt: skip
from pacdp.calibration.binning import equal_width_index

ERRORS = [ece, mce, rmsce, debiased_l2, adaptive_ece, sce, ace, smooth_ece]
PLUG_IN = [error for error in ERRORS if error is not debiased_l2]
SCORES = [calibration.accuracy, calibration.nll_nats, calibration.brier]
ALL = [*ERRORS, *SCORES, debiased_square]
CASES = [tools.continuous(seed) for seed in range(12)] + [tools.ties(seed, pieces=10) for seed in range(12)]


def by_name(function) -> str:
    return function.__name__


@pytest.mark.parametrize("bins", [1, 7, 10, 15, 1000])
@pytest.mark.parametrize("case", CASES)
def test_plain_python_finds_the_same(case: tools.Case, bins: int) -> None:
    examples = tools.pairs(case)
    near = partial(pytest.approx, rel=1e-11, abs=1e-13)
    assert ece(*case, bins=bins) == near(tools.slow_ece(examples, bins))
    assert mce(*case, bins=bins) == near(tools.slow_mce(examples, bins))
    assert rmsce(*case, bins=bins) == near(tools.slow_rmsce(examples, bins))
    assert debiased_square(*case, bins=bins) == near(tools.slow_debiased(examples, bins))
    classes = case.probabilities.shape[1]
    each = [tools.slow_ece(tools.one_class(case, k), bins) for k in range(classes)]
    assert sce(*case, bins=bins) == near(math.fsum(each) / classes)


@pytest.mark.parametrize("bins", [1, 4, 15, 40])
@pytest.mark.parametrize("case", [tools.continuous(seed, n=30) for seed in range(4)] + CASES[-3:])
def test_equal_mass_shares_examples_and_ties_among_bins(case: tools.Case, bins: int) -> None:
    classes = case.probabilities.shape[1]
    assert adaptive_ece(*case, bins=bins) == pytest.approx(tools.slow_equal_mass(tools.pairs(case), bins), rel=1e-11)
    each = [tools.slow_equal_mass(tools.one_class(case, k), bins) for k in range(classes)]
    assert ace(*case, bins=bins) == pytest.approx(math.fsum(each) / classes, rel=1e-11)


def test_more_bins_of_equal_mass_than_examples_is_the_mean_residual() -> None:
    case = tools.continuous(3, n=20, classes=3)
    confidence, correct = top_label(probabilities=case.probabilities, labels=case.labels)
    assert adaptive_ece(*case, bins=2000) == pytest.approx(np.abs(correct - confidence).mean(), rel=1e-12)


@pytest.mark.parametrize("case", [tools.continuous(seed, n=n) for seed in range(3) for n in (5, 40, 120)] + CASES[-3:])
def test_smooth_ece_is_the_fixed_point_of_the_direct_sums(case: tools.Case) -> None:
    assert smooth_ece(*case) == pytest.approx(tools.slow_smooth(tools.pairs(case)), abs=1e-5)


def test_smooth_ece_moves_little_when_confidences_do() -> None:
    case = tools.continuous(5, n=200, classes=2)
    at_edge = np.where(case.probabilities > 0.5, 0.6, 0.4)
    below = np.where(case.probabilities > 0.5, 0.6 - 1e-9, 0.4 + 1e-9)
    assert abs(smooth_ece(at_edge, case.labels) - smooth_ece(below, case.labels)) < 1e-8


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("function", ALL, ids=by_name)
def test_the_order_of_the_examples_does_not_matter(function, case: tools.Case) -> None:
    order = np.random.default_rng(0).permutation(len(case.labels))
    same = function(case.probabilities[order], case.labels[order])
    assert same == pytest.approx(function(*case), rel=1e-11, abs=1e-13)


@pytest.mark.parametrize("case", CASES[:12])
@pytest.mark.parametrize("function", ALL, ids=by_name)
def test_the_names_of_the_classes_do_not_matter(function, case: tools.Case) -> None:
    order = np.random.default_rng(1).permutation(case.probabilities.shape[1])
    same = function(case.probabilities[:, order], np.argsort(order)[case.labels])
    assert same == pytest.approx(function(*case), rel=1e-11, abs=1e-13)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("function", [*PLUG_IN, *SCORES], ids=by_name)
def test_data_twice_over_have_the_same_plug_in_value(function, case: tools.Case) -> None:
    twice = function(np.repeat(case.probabilities, 2, axis=0), np.repeat(case.labels, 2))
    assert twice == pytest.approx(function(*case), rel=1e-11, abs=1e-13)


def test_the_debiased_square_takes_less_from_data_twice_over() -> None:
    case = tools.continuous(6, n=200)
    twice = debiased_square(np.tile(case.probabilities, (2, 1)), np.tile(case.labels, 2))
    assert debiased_square(*case) < twice < rmsce(*case) ** 2


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("function", ERRORS, ids=by_name)
def test_perfect_calibration_is_zero(function, classes: int) -> None:
    assert function(*tools.calibrated(classes=classes)) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("function", ERRORS, ids=by_name)
def test_certain_and_always_wrong_is_the_largest_value(function) -> None:
    probabilities, labels = np.tile([1.0, 0.0], (50, 1)), np.ones(50, dtype=np.int64)
    assert function(probabilities, labels) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_ranges_and_orders(case: tools.Case) -> None:
    confidence, correct = top_label(probabilities=case.probabilities, labels=case.labels)
    mean_gap, slack = abs(float(confidence.mean() - correct.mean())), 1e-12
    classes = case.probabilities.shape[1]
    values = {function.__name__: function(*case) for function in ERRORS}
    assert all(0.0 <= value <= 1.0 for value in values.values())
    assert mean_gap - slack <= values["ece"] <= values["rmsce"] + slack
    assert values["rmsce"] <= values["mce"] + slack
    assert values["debiased_l2"] <= values["rmsce"] + slack
    assert min(values["adaptive_ece"], values["smooth_ece"]) >= mean_gap - slack
    assert max(values["sce"], values["ace"]) <= 2 / classes
    assert ece(*case, bins=1) == pytest.approx(mean_gap, abs=1e-12) == adaptive_ece(*case, bins=1)
    assert ece(*case, bins=4) <= ece(*case, bins=16) + slack, "merged bins cancel"
    assert -0.25 <= debiased_square(*case) <= 1.0


@pytest.mark.parametrize("accuracy", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("n", [2, 5, 30])
def test_the_debiased_square_has_no_bias_and_the_plug_in_has(n: int, accuracy: float) -> None:
    """Expectation over all 2^n outcomes, by the binomial law."""
    probabilities = np.tile([0.7, 0.3], (n, 1))
    chances = [float(stats.binom.pmf(k, n, accuracy)) for k in range(n + 1)]
    outcomes = [(np.arange(n) >= k).astype(np.int64) for k in range(n + 1)]
    square = math.fsum(p * debiased_square(probabilities, y) for p, y in zip(chances, outcomes, strict=True))
    plug_in = math.fsum(p * rmsce(probabilities, y) ** 2 for p, y in zip(chances, outcomes, strict=True))
    assert square == pytest.approx((accuracy - 0.7) ** 2, abs=1e-13)
    assert plug_in == pytest.approx((accuracy - 0.7) ** 2 + accuracy * (1 - accuracy) / n, abs=1e-13)


def test_single_precision_meets_edges_in_single_precision() -> None:
    """The float32 of k/25 may be below the float64, but is in the same bin; the last is closed."""
    edges = np.arange(26) / 25
    assert (edges.astype(np.float32).astype(np.float64) < edges).any(), "some are rounded down"
    for kind in "fd":
        assert equal_width_index(edges.astype(kind), bins=25).tolist() == [*range(25), 24]
        assert equal_width_index(np.nextafter(edges[1:-1].astype(kind), 0), bins=25).tolist() == list(range(24))


def test_single_precision_softmax_is_taken() -> None:
    logits = np.random.default_rng(0).normal(scale=20.0, size=(500, 10)).astype(np.float32)
    labels = np.random.default_rng(1).integers(0, 10, 500)
    single, double = (special.softmax(logits.astype(kind), axis=1) for kind in "fd")
    for function in ERRORS:
        assert function(single, labels) == pytest.approx(function(double, labels), abs=1e-5), function.__name__


def test_summary_holds_every_number_and_only_finite_ones() -> None:
    case = tools.ties(2, pieces=10)
    found = summary(*case, bins=10)
    binned = [error for error in ERRORS if error is not smooth_ece]
    assert all(found[error.__name__] == error(*case, bins=10) for error in binned)
    assert found["smooth_ece"] == smooth_ece(*case)
    assert found["accuracy"] == calibration.accuracy(*case)
    assert (found["n"], found["classes"], found["bins"]) == (*case.probabilities.shape, 10)
    assert found["nll_nats"] is None, "some label had probability 0"
    assert math.isinf(calibration.nll_nats(*case))
    assert all(value is None or math.isfinite(value) for value in found.values())
    one = summary(np.array([[0.25, 0.75]]), np.array([1]))
    assert one["macro_auc"] is None
    assert one["nll_nats"] == pytest.approx(-math.log(0.75), rel=1e-15)


GOOD, LABELS = np.full((4, 2), 0.5), np.array([0, 1, 0, 1])
BAD = {
    "no example": (GOOD[:0], LABELS[:0], "n >= 1"),
    "one class": (np.ones((4, 1)), LABELS * 0, "classes >= 2"),
    "too few labels": (GOOD, LABELS[:3], "one label for each of 4"),
    "label too large": (GOOD, LABELS + 1, "labels in 0 .. 1, got 1 .. 2"),
    "negative label": (GOOD, LABELS - 1, "labels in 0 .. 1, got -1 .. 0"),
    "logits": (GOOD - 1.0, LABELS, "not logits"),
    "nan": (np.where(np.eye(4, 2), np.nan, GOOD), LABELS, "got nan"),
    "infinite": (np.where(np.eye(4, 2), np.inf, GOOD), LABELS, "off by inf"),
    "rows": (GOOD * 1.001, LABELS, "sum to 1 within 0.0001, one is off by 0.001"),
}


@pytest.mark.parametrize("reason", BAD)
@pytest.mark.parametrize(
    "function", [*ALL, calibration.macro_auc, calibration.brier_decomposition, summary], ids=by_name
)
def test_bad_predictions_are_refused_in_one_sentence(function, reason: str) -> None:
    probabilities, labels, said = BAD[reason]
    with pytest.raises(ValueError) as caught:
        function(probabilities, labels)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("function", [ece, mce, rmsce, debiased_l2, adaptive_ece, sce, ace, summary], ids=by_name)
def test_no_bins_are_refused(function) -> None:
    with pytest.raises(ValueError, match="bins >= 1, got 0"):
        function(GOOD, LABELS, bins=0)


def test_rows_off_by_rounding_are_taken() -> None:
    probabilities = np.array([[1.00005, 0.0], [0.3, 0.69995]])
    assert ece(probabilities, np.array([0, 1])) == pytest.approx((0.0 + 1 - 0.69995) / 2)
