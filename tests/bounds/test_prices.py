"""What prices promise beyond the formulas that use them: one step for prior and draw, refusals, exact ends."""

from functools import partial
from math import ulp

import pytest

from bounds import brier_risk, exponential_mechanism_epsilon, maurer


@pytest.mark.parametrize("still", [{"beta": 0.0, "tau": 3.0}, {"beta": 3.0, "tau": 0.0}])
def test_a_mechanism_that_does_not_look_at_its_records_loses_no_privacy(still):
    assert exponential_mechanism_epsilon(**still, loss_range=2.0, n=10) == 0.0


@pytest.mark.parametrize("units", range(1, 12))
def test_half_of_the_smallest_brier_losses_is_rounded_up(units):
    brier = units * ulp(0.0)
    made = brier_risk(brier=brier, bound=partial(maurer, kl_nats=0.0, n=9, failure_prob=0.05))
    assert 2.0 * made.certificate.terms["empirical_risk"] >= brier
