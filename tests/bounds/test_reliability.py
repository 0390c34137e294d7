"""Brier risk: twice the bound of its half. Calibration errors: test_laws.py, and tests/coverage."""

from dataclasses import replace
from functools import partial
from math import ulp

import pytest
from mpmath import mpf

from bounds import brier_risk, maurer


def test_brier_is_twice_the_bound_of_its_half_and_follows_its_certificate():
    made = brier_risk(brier=0.1, bound=partial(maurer, kl_nats=30.0, n=5000, failure_prob=0.05))
    half = maurer(risk=0.05, kl_nats=30.0, n=5000, failure_prob=0.05)
    assert made.certificate == replace(half, measures="half the Brier risk")
    assert float(made) == made.value == 2 * half.value
    assert made.value <= mpf(made.calibration_error) ** 2 <= made.value * (1 + mpf("1e-14"))
    assert brier_risk(brier=2.0, bound=partial(maurer, kl_nats=0.0, n=10, failure_prob=0.05)).value == 2.0


@pytest.mark.parametrize("units", range(1, 12))
def test_half_of_the_smallest_losses_is_rounded_up(units):
    brier = units * ulp(0.0)
    made = brier_risk(brier=brier, bound=partial(maurer, kl_nats=0.0, n=9, failure_prob=0.05))
    assert 2.0 * made.certificate.terms["empirical_risk"] >= brier
