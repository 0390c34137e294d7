"""Thresholds of detectors and prediction sets: the limits that decide. How often they fail: tests/coverage."""

import numpy as np
from hypothesis import given
from hypothesis.strategies import floats, integers
from numpy.random import default_rng

from bounds import clopper_pearson_upper, control_false_negatives, control_miscoverage
from bounds.risk_control import allowed_misses


def detect(scores, target, failure_prob=0.05, positives=None, **groups):
    """For positives all of them, unless told otherwise."""
    positives = [True] * len(scores) if positives is None else positives
    return control_false_negatives(
        scores=scores, positives=positives, target=target, failure_prob=failure_prob, **groups
    )


@given(integers(1, 10**6), floats(0, 1), floats(1e-9, 1 - 1e-9))
def test_so_many_misses_and_no_more_are_allowed(n, target, failure_prob):
    allowed = allowed_misses(n, target, failure_prob)
    assert -1 <= allowed <= n
    if allowed >= 0:
        assert clopper_pearson_upper(allowed, n, failure_prob) <= target
    if allowed < n:
        assert clopper_pearson_upper(allowed + 1, n, failure_prob) > target


def test_a_detector_sounds_where_it_must():
    rng = default_rng(0)
    positive = rng.random(3000) < 0.1
    scores = rng.normal(size=3000) + 2.0 * positive
    made = detect(scores, 0.1, positives=positive)
    found = scores >= made.threshold
    missed = int((~found & positive).sum())
    assert missed == allowed_misses(int(positive.sum()), 0.1, 0.05)
    assert made.tests[0].limit == clopper_pearson_upper(missed, int(positive.sum()), 0.05)
    assert made.share == found.mean()
    assert (made.certificate.value, made.certificate.terms["records_counted"]) == (0.1, positive.sum())
    assert made.certificate.hypothesis("thresholds fixed beforehand").standing == "proved"


def test_prediction_sets_hold_the_true_label():
    rng = default_rng(1)
    scores = rng.dirichlet(np.ones(5), size=3000)
    labels = np.array([rng.choice(5, p=row) for row in scores])
    made = control_miscoverage(scores=scores, labels=labels, target=0.1, failure_prob=0.05)
    covered = scores[np.arange(3000), labels] >= made.threshold
    assert made.share == covered.mean()
    assert 3000 - covered.sum() == allowed_misses(3000, 0.1, 0.05)
    assert made.certificate.measures == "miscoverage"


def test_groups_share_the_least_threshold():
    rng = default_rng(2)
    groups = np.repeat([0, 1], 500)
    scores = rng.normal(size=1000) + groups
    both, alone = detect(scores, 0.2, groups=groups), detect(scores[:500], 0.2)
    assert both.threshold == alone.threshold
    assert (both.tests[0].records, both.tests[0].limit) == (500, alone.tests[0].limit)
    nobody = detect(scores, 0.9, positives=groups == 1, groups=groups)
    assert not nobody.qualifies


def test_too_few_positives_say_so():
    made = detect(np.arange(58.0), 0.05)
    assert made.threshold is None
    assert made.certificate.vacuous
    assert detect(np.arange(9.0), 1.0).threshold == 8.0
