"""Thresholds that control a risk: a naive twin of the tests, what is chosen. How often they fail: tests/coverage."""

from functools import partial
from math import fsum

import numpy as np
import pytest
from cells import read_again
from hypothesis import given
from hypothesis.strategies import floats, integers
from numpy.random import default_rng

from bounds import (
    betting_upper,
    clopper_pearson_upper,
    control_groups,
    control_risk,
    control_selective_risk,
    control_set_size,
)

"""Of errors at three levels of confidence, the highest first."""


def naive(losses, target, failure_prob, starts):
    """The tests of docs/guarantees.md, one by one: positions that passed."""
    n, count = losses.shape
    passed = set()
    for start in range(starts):
        for position in range(start * count // starts, count):
            limit = clopper_pearson_upper(int(losses[:, position].sum()), n, failure_prob / starts * (1 - 1e-15))
            if limit > target:
                break
            passed.add(position)
    return passed


@given(
    integers(1, 60), integers(1, 9), integers(1, 9), floats(0.01, 0.99), floats(0.01, 0.99),
    integers(0, 99),
)  # fmt: skip
def test_tests_are_those_of_a_naive_twin(n, count, starts, target, failure_prob, seed):
    starts = min(starts, count)
    rng = default_rng(seed)
    losses = rng.random((n, count)) < np.sort(rng.random(count)) * target * 1.5
    made = control_risk(
        losses=losses, thresholds=list(range(count)), target=target, failure_prob=failure_prob, starts=starts
    )  # fmt: skip
    passed = naive(losses, target, failure_prob, starts)
    assert {one.threshold for one in made.tests if one.passed} == passed
    assert made.threshold == (max(passed) if passed else None)
    assert made.level * starts <= failure_prob * (1 + 1e-15)
    certificate = made.certificate
    assert read_again(certificate) == certificate
    assert fsum(certificate.budget.values()) == certificate.failure_prob == failure_prob
    assert certificate.inputs["starts"] == starts
    if not passed:
        assert certificate.vacuous
        assert made.share == 0.0
    elif starts == count:
        (chosen,) = [one for one in made.tests if one.threshold == made.threshold]
        assert certificate.value == chosen.limit <= target
    else:
        assert certificate.value == target
        assert made.share == 1.0


def test_the_type_of_the_losses_decides_between_the_exact_and_the_betting_bound():
    errors = np.arange(200) % 10 == 0
    at = {"thresholds": [0.5], "target": 0.2, "failure_prob": 0.05}
    exact = control_risk(losses=errors[:, None], **at)
    assert exact.certificate.value == clopper_pearson_upper(20, 200, 0.05)
    bets = control_risk(losses=errors[:, None].astype(float), **at)
    assert bets.certificate.value == betting_upper(errors.astype(float), 0.05)


def test_selective_risk_is_that_of_the_records_answered():
    rng = default_rng(0)
    confidence = rng.random(3000)
    errors = rng.random(3000) < 0.4 * (1 - confidence)
    thresholds = [k / 20 for k in range(1, 20)]
    made = control_selective_risk(
        confidence=confidence, losses=errors, thresholds=thresholds, target=0.1, failure_prob=0.05
    )
    answered = confidence >= made.threshold
    (chosen,) = [one for one in made.tests if one.threshold == made.threshold]
    assert chosen.records == answered.sum()
    assert made.share == answered.mean()
    assert errors[answered].mean() <= chosen.risk <= errors[answered].mean() * (1 + 1e-14)
    assert made.certificate.value == clopper_pearson_upper(int(errors[answered].sum()), int(answered.sum()), 0.05 / 19)
    assert made.certificate.measures == "selective 0-1 risk"


def test_nothing_is_answered_above_every_confidence():
    made = control_selective_risk(
        confidence=[0.1] * 100, losses=[False] * 100, thresholds=[0.5], target=0.9, failure_prob=0.05
    )
    assert not made.qualifies
    assert (made.tests[0].limit, made.tests[0].records) == (1.0, 0)


def test_the_mean_size_of_sets_stays_below_the_target():
    rng = default_rng(1)
    scores = rng.dirichlet(np.ones(5), size=2000)
    thresholds = np.linspace(0.0, 0.9, 46).tolist()
    made = control_set_size(scores=scores, thresholds=thresholds, most_labels=2.0, failure_prob=0.05)
    assert 5 * made.certificate.value <= 2.0
    assert made.certificate.inputs["labels"] == 5
    lower = max(one for one in thresholds if one < made.threshold)
    for threshold, more in ((made.threshold, False), (lower, True)):
        sizes = (scores >= threshold).sum(axis=1) / 5
        assert [one.limit for one in made.tests if one.threshold == threshold] == [betting_upper(sizes, 0.05)]
        assert (betting_upper(sizes, 0.05) > 0.4) == more


def test_one_threshold_for_every_group_is_judged_by_the_worst():
    rng = default_rng(2)
    groups = np.array(["a", "b"])[(rng.random(4000) < 0.2).astype(int)]
    confidence = rng.random(4000)
    errors = rng.random(4000) < np.where(groups == "a", 0.2, 0.5) * (1 - confidence)
    at = {"thresholds": [k / 10 for k in range(10)], "target": 0.15, "failure_prob": 0.05}
    together = control_selective_risk(confidence=confidence, losses=errors, groups=groups, **at)
    alone = [
        control_selective_risk(confidence=confidence[groups == name], losses=errors[groups == name], **at)
        for name in ("a", "b")
    ]
    for one in together.tests:
        parts = [next(other for other in made.tests if other.threshold == one.threshold) for made in alone]
        assert one.limit == max(part.limit for part in parts)
        assert one.records == min(part.records for part in parts)
    assert together.threshold == max(made.threshold for made in alone)
    own = control_groups(
        control_selective_risk, groups=groups, records={"confidence": confidence, "losses": errors}, **at
    )
    assert {name: one.certificate.failure_prob for name, one in own.items()} == {"a": 0.025, "b": 0.025}
    assert own["b"].certificate.of == "predictor where it answers in group b"


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_the_threshold_answers_the_records_that_were_tested_whatever_precision_scores_have(kind):
    votes = default_rng(3).integers(0, 11, 500)  # of ten networks, whose mean is 0.9 in their own precision
    confidence, thresholds = (votes / 10).astype(kind), [0.9, 0.7, 0.6, 0.3]
    at = {"thresholds": thresholds, "target": 0.5, "failure_prob": 0.1}
    made = control_selective_risk(confidence=confidence, losses=votes < 9, **at)
    for one in made.tests:
        assert one.records == (confidence >= one.threshold).sum() == (confidence.astype(float) >= one.threshold).sum()
    assert [one.records for one in made.tests] == [(confidence >= one).sum() for one in thresholds]
    sizes = {"thresholds": thresholds, "most_labels": 1, "failure_prob": 0.1}
    sets = control_set_size(scores=np.stack([confidence, 0 * confidence], 1), **sizes)
    assert made.certificate.inputs["thresholds"] == sets.certificate.inputs["thresholds"]
    if kind is np.float32:
        with pytest.raises(ValueError, match=r"0\.89999\d+, which is the threshold 0\.9 in single precision"):
            control_selective_risk(confidence=confidence.tolist(), losses=votes < 9, **at)
    exact = control_selective_risk(confidence=votes / 10, losses=votes < 9, **at)
    assert [one.threshold for one in exact.tests] == thresholds


def test_scores_of_half_a_precision_in_single_meet_the_threshold_that_comparisons_in_theirs_do():
    errors = np.zeros(2000, dtype=bool)
    tested = partial(control_selective_risk, losses=errors, target=0.5, failure_prob=0.1)
    drawn = 1.0 - 0.25 * default_rng(4).random(2000)
    trees = [np.rint(many * drawn) / many for many in (128, 256)]  # 0.8984375, 0.9 in bfloat16, is one of them
    for scores in (*trees, drawn, drawn.round(3), drawn.astype(np.float32), trees[0].astype(np.float32)):
        tested(confidence=scores, thresholds=[0.9])
    brain = (drawn.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)  # bfloat16
    half = np.where(drawn < 0.9, 0.9, drawn).astype(np.float16)
    for coarse, near, precision in ((brain, 0.8984375, "bfloat16"), (half, 0.89990234375, "half precision")):
        for scores in (coarse.astype(np.float32), coarse.astype(float))[: 1 + (coarse is half)]:
            with pytest.raises(ValueError, match=rf"holds {near}, which is the threshold 0\.[89]\d* in {precision}"):
                tested(confidence=scores, thresholds=[0.9])
            with pytest.raises(ValueError, match=rf"scores holds {near}"):
                control_set_size(scores=scores[:, None], thresholds=[0.9], most_labels=1, failure_prob=0.1)
            found = tested(confidence=scores, thresholds=[near])
            assert found.tests[0].records == (scores >= near).sum()


def test_what_is_printed_names_its_confidence_and_is_rounded_up():
    chosen = control_risk(losses=np.zeros((100, 1), dtype=bool), thresholds=[1], target=0.5, failure_prob=0.05)
    assert str(chosen) == "Threshold 1.0: risk of rule at most 2.96% (95% confidence)."
    limit = chosen.tests[0].limit
    short = control_risk(losses=np.zeros((100, 1), dtype=bool), thresholds=[1], target=0.029, failure_prob=0.05)
    assert limit > 0.0295
    assert "an upper limit of 0.0296 from 100 records" in str(short)
