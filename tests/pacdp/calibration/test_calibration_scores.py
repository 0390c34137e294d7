"""Accuracy, NLL, Brier and its parts, AUC: scikit-learn, slow twins, exact identities, refusals."""

import math
import re

import calibration_tools as tools
import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from pacdp.calibration import BrierDecomposition, accuracy, auc, brier, brier_decomposition, macro_auc, nll_nats

CASES = [tools.continuous(seed) for seed in range(30)] + [tools.ties(seed, pieces=10) for seed in range(30)]
WHOLE = [case for case in CASES if len(set(case.labels.tolist())) == case.probabilities.shape[1]]


@pytest.mark.parametrize("case", CASES)
def test_scikit_learn_finds_the_same_scores(case: tools.Case) -> None:
    probabilities, labels = case
    classes = list(range(probabilities.shape[1]))
    assert accuracy(*case) == pytest.approx(sklearn_metrics.accuracy_score(labels, probabilities.argmax(axis=1)))
    theirs = sklearn_metrics.brier_score_loss(labels, probabilities, labels=classes, scale_by_half=False)
    assert brier(*case) == pytest.approx(theirs, rel=1e-12)
    if (np.take_along_axis(probabilities, labels[:, None], axis=1) > 1e-12).all():
        assert nll_nats(*case) == pytest.approx(sklearn_metrics.log_loss(labels, probabilities, labels=classes))
    else:
        assert math.isinf(nll_nats(*case))


def test_scikit_learn_finds_the_same_macro_auc() -> None:
    assert len(WHOLE) > 40
    for case in WHOLE:
        probabilities, labels = case
        given = probabilities[:, 1] if probabilities.shape[1] == 2 else probabilities
        theirs = sklearn_metrics.roc_auc_score(labels, given, multi_class="ovr", average="macro")
        assert macro_auc(*case) == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("case", WHOLE[::6])
def test_auc_counts_pairs_and_ties_half(case: tools.Case) -> None:
    for k in range(case.probabilities.shape[1]):
        found = auc(case.probabilities[:, k], case.labels == k)
        assert found == pytest.approx(tools.slow_auc(tools.one_class(case, k)), abs=1e-12)
        assert auc(-case.probabilities[:, k], case.labels == k) == pytest.approx(1.0 - found, abs=1e-12)
        assert auc(np.exp(3 * case.probabilities[:, k]), case.labels == k) == pytest.approx(found, abs=1e-12)
        assert auc(np.zeros(len(case.labels)), case.labels == k) == 0.5


@pytest.mark.parametrize("bins", [None, 1, 10, 15])
@pytest.mark.parametrize("case", CASES[::3])
def test_the_parts_of_the_brier_score_add_up(case: tools.Case, bins: int | None) -> None:
    parts = brier_decomposition(*case, bins=bins)
    assert isinstance(parts, BrierDecomposition)
    assert parts.score == pytest.approx(brier(*case), rel=1e-12)
    assert 0.0 <= parts.reliability <= 2.0
    assert -1e-15 <= parts.resolution <= parts.uncertainty + 1e-12
    assert parts.uncertainty < 1.0
    if bins is None:
        assert parts.within_bins == pytest.approx(0.0, abs=1e-15), "Murphy's three parts are exact"
    if bins == 1:
        assert parts.resolution == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("case", CASES[40:44])
def test_murphy_s_parts_in_plain_python(case: tools.Case) -> None:
    found = brier_decomposition(*case, bins=None)
    n, reliability, resolution = len(case.labels), 0.0, 0.0
    for k in range(case.probabilities.shape[1]):
        examples = tools.one_class(case, k)
        base = sum(o for _, o in examples) / n
        for value in {p for p, _ in examples}:
            outcomes = [o for p, o in examples if p == value]
            frequency = sum(outcomes) / len(outcomes)
            reliability += len(outcomes) * (value - frequency) ** 2 / n
            resolution += len(outcomes) * (frequency - base) ** 2 / n
    assert found.reliability == pytest.approx(reliability, rel=1e-11)
    assert found.resolution == pytest.approx(resolution, rel=1e-11)


@pytest.mark.parametrize("classes", [2, 3])
def test_calibrated_groups_have_no_reliability_term(classes: int) -> None:
    parts = brier_decomposition(*tools.calibrated(classes=classes), bins=None)
    assert parts.reliability == pytest.approx(0.0, abs=1e-15)
    assert parts.resolution > 0.1


def test_certain_predictions() -> None:
    right, wrong = np.eye(3), np.roll(np.eye(3), 1, axis=1)
    labels = np.arange(3)
    assert (accuracy(right, labels), brier(right, labels), nll_nats(right, labels)) == (1.0, 0.0, 0.0)
    assert math.copysign(1.0, nll_nats(right, labels)) == 1.0
    assert (accuracy(wrong, labels), brier(wrong, labels), nll_nats(wrong, labels)) == (0.0, 2.0, math.inf)
    assert macro_auc(right, labels) == 1.0


def test_an_auc_without_both_kinds_is_refused() -> None:
    with pytest.raises(ValueError, match="positive and negative examples for an AUC, got 2 and 0"):
        auc(np.array([0.1, 0.2]), np.array([True, True]))
    with pytest.raises(ValueError, match=re.escape("each of 3 classes for the macro AUC, got none of [1]")):
        macro_auc(np.full((2, 3), 1 / 3), np.array([0, 2]))
    with pytest.raises(ValueError, match="finite scores"):
        auc(np.array([0.1, math.nan]), np.array([True, False]))
    with pytest.raises(ValueError, match="n outcomes"):
        auc(np.array([0.1, 0.2]), np.array([True]))
    with pytest.raises(ValueError, match="bins >= 1"):
        brier_decomposition(np.full((2, 3), 1 / 3), np.array([0, 2]), bins=0)
