"""Gaps bin by bin: exact coverage, bins without a certificate, counts of a sample."""

from fractions import Fraction
from itertools import pairwise
from math import log, sqrt

import mpmath as mp
import numpy as np
import pytest
from mpmath import mpf
from numpy.random import default_rng
from scipy.stats import beta, binom

from bounds import calibration_sample, mce_clopper_pearson, mce_hoeffding
from bounds.reliability import ConfidenceBin, people_calibration

BOUNDS = [mce_hoeffding, mce_clopper_pearson]
every_bound = pytest.mark.parametrize("bound", BOUNDS)


def filled(count, correct, low=0.6, high=0.7, mean_confidence=None):
    mean = (low + high) / 2 if mean_confidence is None else mean_confidence
    return ConfidenceBin(low=low, high=high, count=count, correct=correct, mean_confidence=mean)


def at(bound, *bins, min_count=1, failure_prob=0.05):
    return bound(bins=list(bins), min_count=min_count, failure_prob=failure_prob)


@every_bound
def test_coverage_where_confidences_vary_in_their_bin(bound):
    """Two confidences, the ends of a wide bin, accuracies of their own: all counts of (high, correct)."""
    n, ends, share, accuracy, failure_prob = 12, (0.2, 1.0), 0.5, (0.9, 0.95), 0.2
    true = abs(share * (accuracy[0] - ends[0]) + (1 - share) * (accuracy[1] - ends[1]))
    failed = 0.0
    for m in range(n + 1):
        for right_low in range(n - m + 1):
            for right_high in range(m + 1):
                weight = (
                    binom.pmf(m, n, 1 - share)
                    * binom.pmf(right_low, n - m, accuracy[0])
                    * binom.pmf(right_high, m, accuracy[1])
                )
                mean = ((n - m) * ends[0] + m * ends[1]) / n
                seen = filled(n, right_low + right_high, *ends, mean_confidence=min(max(mean, 0.2), 1.0))
                failed += weight * (at(bound, seen, failure_prob=failure_prob).value < true)
    assert failed <= failure_prob


@every_bound
def test_bins_that_are_not_certified_are_free_and_vacuous(bound):
    kept = [filled(200, 140), filled(900, 700, 0.7, 0.8)]
    alone = at(bound, *kept, min_count=50)
    among = at(bound, filled(0, 0, 0.0, 0.3), kept[0], filled(49, 3, 0.3, 0.6), kept[1], min_count=50)
    assert among.value == alone.value
    assert [among.terms[f"gap_{b}"] for b in range(4)] == [1.0, alone.terms["gap_0"], 1.0, alone.terms["gap_1"]]
    assert (among.terms["bins"], among.terms["bins_certified"]) == (4, 2)
    assert among.terms["share_certified"] == pytest.approx(1100 / 1149)
    assert at(bound, *kept, min_count=1000).value == 1.0
    assert at(bound, kept[0], min_count=50).value < alone.terms["gap_0"]  # two bins cost a union


def test_values_at_fifty_digits():
    one, two = filled(200, 140, mean_confidence=0.625), filled(900, 700, 0.7, 0.8)
    made = at(mce_hoeffding, one, two)
    for b, each in enumerate((one, two)):
        gap = abs(mpf(each.correct) / each.count - mpf(each.mean_confidence))
        width = mpf(each.high) - mpf(each.low)
        truth = gap + (1 + width) * mp.sqrt(mp.log(2 / mpf(0.05)) / (2 * each.count))
        assert truth <= made.terms[f"gap_{b}"] <= truth + 1e-14
    made = at(mce_clopper_pearson, one)
    above = beta.ppf(1 - 0.025, 141, 60) - max(0.6, 0.625 - 0.1 * sqrt(log(40) / 400))
    assert made.value == pytest.approx(above, rel=1e-9)


@every_bound
def test_laws(bound):
    def value(count=400, correct=300, failure_prob=0.05):
        return at(bound, filled(count, correct), failure_prob=failure_prob).value

    assert 1.0 >= value(1, 0) > value(100, 75) > value(400, 300) > value(4000, 3000) > 0.1
    by_level = [value(failure_prob=level) for level in (0.9, 0.05, 1e-6, 1e-300)]
    by_gap = [value(correct=k) for k in (300, 320, 360, 400)]
    assert (by_level, by_gap) == (sorted(by_level), sorted(by_gap))
    assert by_level[-1] <= 1.0


def test_counts_and_gaps_are_those_of_the_definition_rounded_up():
    rng = default_rng(3)
    f, edges = rng.random(500), [0.0, 0.25, 0.5, 0.75, 1.0]
    f[:3] = (0.0, 0.5, 1.0)
    c = rng.random(500) < f
    made = calibration_sample(confidence=f, correct=c, edges=edges)
    gaps = [Fraction(int(right)) - Fraction(x) for x, right in zip(f.tolist(), c, strict=True)]
    slot = np.minimum((4 * f).astype(int), 3)
    exact = {
        "calibration_error": sum(abs(sum(g for g, b in zip(gaps, slot, strict=True) if b == k)) for k in range(4)),
        "mean_squared_gap": sum(g * g for g in gaps),
    }
    for name, total in exact.items():
        assert total / 500 <= Fraction(getattr(made, name)) <= total / 500 * (1 + Fraction(1, 10**14))
    assert [one.count for one in made.bins] == np.bincount(slot, minlength=4).tolist()
    assert [one.correct for one in made.bins] == [int(c[slot == k].sum()) for k in range(4)]
    assert made.n == 500
    assert [(one.low, one.high) for one in made.bins] == list(pairwise(edges))


def test_one_example_in_one_bin_is_all_of_them():
    one = ConfidenceBin(low=0.0, high=1.0, count=1, correct=1, mean_confidence=0.5)
    assert at(mce_hoeffding, one).terms["share_certified"] == 1.0


def test_the_plug_in_of_people_is_that_of_the_formula_rounded_up_a_little():
    rng = default_rng(8)
    confidence, people = rng.uniform(size=400), np.arange(400) % 40
    gap, edges = (rng.uniform(size=400) < 0.6) - confidence, np.array([0.0, 0.5, 1.0])
    slot = (confidence >= 0.5).astype(int)
    means = [np.array([(gap * (slot == b))[people == one].mean() for one in range(40)]).mean() for b in (0, 1)]
    squares = np.mean([np.abs(gap[people == one]).mean() ** 2 for one in range(40)])
    exact = np.array([np.abs(means).sum(), squares])
    found = np.array(people_calibration(confidence, gap + confidence > 0.5, people, edges))
    assert (found >= exact * (1.0 - 1e-14)).all()
    assert found == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_confidence_lies_in_the_bin_that_a_comparison_in_its_own_precision_says(kind):
    """Nine votes of ten are 0.9, which single precision rounds below the 0.9 of doubles."""
    edges, votes = np.linspace(0.0, 1.0, 11), (np.arange(1, 11).repeat(3) / 10).astype(kind)
    sample = calibration_sample(confidence=votes, correct=np.ones(30), edges=edges)
    rounded = edges.astype(kind)
    expected = [int(((votes >= low) & (votes < high)).sum()) for low, high in pairwise(rounded)]
    expected[-1] += 3  # the last bin has 1 too
    assert [one.count for one in sample.bins] == expected
    assert sum(expected) == 30
    assert [one.low for one in sample.bins] == rounded[:-1].tolist()
