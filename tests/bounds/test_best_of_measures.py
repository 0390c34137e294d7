"""A choice is among certificates of one risk: the smallest number of several risks bounds none in particular."""

from dataclasses import replace

import pytest

from bounds import Certificate, best_of, maurer


def about(*, of: str = "randomised", measures: str = "0-1 risk", risk: float = 0.1) -> Certificate:
    return replace(maurer(risk=risk, kl_nats=5.0, n=1000, failure_prob=0.01), of=of, measures=measures)


def test_half_the_brier_risk_is_not_compared_with_the_error():
    error, brier = about(risk=0.10), about(measures="half the Brier risk", risk=0.04)
    for pair in ([error, brier], [brier, error]):
        with pytest.raises(ValueError, match=r"certificates must measure one risk, got 0-1 risk, half the Brier risk"):
            best_of(pair, budget=0.05)


def test_different_predictors_may_be_compared_and_the_result_says_whose_it_is():
    mean, drawn = about(of="mean weights", risk=0.2), about(of="randomised", risk=0.1)
    best = best_of([mean, drawn], budget=0.05)
    assert (best.of, best.measures) == ("randomised", "0-1 risk")


def test_a_best_of_one_risk_is_not_compared_with_another_risk():
    first = best_of([about(risk=0.2), about(risk=0.1)], budget=0.02)
    second = best_of([about(measures="ECE", risk=0.05)], budget=0.01)
    with pytest.raises(ValueError, match="measure"):
        best_of([first, second], budget=0.05)
