"""Calibration error and Brier risk: check values, exact coverage, what the private forms pay, convexity."""

from itertools import combinations
from math import log

import mpmath as mp
import numpy as np
import pytest
from mpmath import mpf
from scipy.stats import multinomial

from bounds import PureDP, ece_hoeffding, ece_pac_bayes, ece_second_moment
from bounds.printed import dp_ece_pac_bayes, private_ece_pac_bayes
from bounds.transfer import transfer_nats

SAMPLE = {"calibration_error": 0.01, "mean_squared_gap": 0.015, "n": 10_000, "failure_prob": 0.05}
KNOWN = {"adjacency": "replace-one", "status": "accounted"}


@pytest.mark.parametrize("kl_nats", [0.0, 30.0, 2000.0])
@pytest.mark.parametrize("mean_squared_gap", [0.0001, 0.02, 1.0])
def test_value_at_fifty_digits(kl_nats, mean_squared_gap):
    told = {**SAMPLE, "mean_squared_gap": mean_squared_gap, "kl_nats": kl_nats}
    cost = mpf(kl_nats) - mp.log(mpf(0.05)) + mp.log(20)
    etas = [mpf(0.5 * 0.8**k) for k in range(20)]
    slack = min((-e - mp.log(1 - e)) / e * mpf(mean_squared_gap) + cost / (e * 10_000) for e in etas)
    truth = min(mpf(1), mpf(0.01) + slack)
    assert truth <= ece_pac_bayes(**told).value <= truth * (1 + 1e-13)


def test_private_forms_pay_the_transfer_once():
    """ln 20 for the grid is added to the transfer; it is not put through it as a smaller failure probability."""
    told = {**SAMPLE, "kl_nats": 20.0}
    pure = PureDP(epsilon=0.02, **KNOWN)
    as_pure, as_dp = (private_ece_pac_bayes(**told, privacy=pure), dp_ece_pac_bayes(**told, epsilon=0.02))
    assert as_pure.value == as_dp.value
    assert as_dp.nats("transfer") == transfer_nats(epsilon=0.02, n=10_000, failure_prob=0.05)
    assert as_dp.nats("grid") == pytest.approx(log(20))


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
