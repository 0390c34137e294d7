"""Calibration error and Brier risk: check values, exact coverage, what the private forms pay, convexity."""

from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np
import pytest
from mpmath import mpf
from scipy.stats import multinomial

from bounds import brier_risk, ece_hoeffding, ece_second_moment, maurer


def compositions(n, parts):
    """All ways to write n as an ordered sum of counts."""
    for bars in combinations(range(n + parts - 1), parts - 1):
        yield np.diff([-1, *bars, n + parts - 1]) - 1


@pytest.mark.parametrize("failure_prob", [0.3, 0.05])
@pytest.mark.parametrize(
    "law", [(0.5, 0.5, 0.0, 0.0), (0.35, 0.15, 0.05, 0.45), (0.62, 0.38, 0.0, 0.0), (0.0, 0.3, 0.7, 0.0)]
)
def test_coverage_of_held_out_calibration_exactly(law, failure_prob):
    """Two bins, (bin, correct) of four kinds, confidences 0 and 1: all samples of twelve with their probabilities."""
    n, gaps, where = 12, np.array([1.0, 0.0, 0.0, -1.0]), np.array([0, 0, 1, 1])
    true = sum(abs((np.array(law) * gaps)[where == b].sum()) for b in (0, 1))
    failed = {"hoeffding": 0.0, "second moment": 0.0}
    for counts in compositions(n, 4):
        plug_in = sum(abs((counts * gaps)[where == b].sum()) for b in (0, 1)) / n
        squares = float((counts * gaps**2).sum() / n)
        probability = float(multinomial.pmf(counts, n, law))
        told = {"calibration_error": float(plug_in), "n": n, "failure_prob": failure_prob}
        failed["hoeffding"] += probability * (ece_hoeffding(**told).value < true)
        failed["second moment"] += probability * (ece_second_moment(**told, mean_squared_gap=squares).value < true)
    assert max(failed.values()) <= failure_prob


def test_brier_is_twice_the_bound_of_its_half_and_follows_its_certificate():
    made = brier_risk(brier=0.1, bound=partial(maurer, kl_nats=30.0, n=5000, failure_prob=0.05))
    half = maurer(risk=0.05, kl_nats=30.0, n=5000, failure_prob=0.05)
    assert made.certificate == replace(half, measures="half the Brier risk")
    assert float(made) == made.value == 2 * half.value
    assert made.value <= mpf(made.calibration_error) ** 2 <= made.value * (1 + mpf("1e-14"))
    assert brier_risk(brier=2.0, bound=partial(maurer, kl_nats=0.0, n=10, failure_prob=0.05)).value == 2.0
    assert brier_risk(brier=5e-324, bound=lambda risk: maurer(risk=risk, kl_nats=0.0, n=9, failure_prob=0.05)).value > 0
