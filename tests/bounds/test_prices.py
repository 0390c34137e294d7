"""What prices promise beyond the formulas that use them: one step for prior and draw, refusals, exact ends."""

from math import log

import pytest
from cells import within_rounding

from bounds import disintegrated, exponential_mechanism_epsilon


def test_an_independent_prior_pays_for_prior_and_draw_in_one_step():
    made = disintegrated(risk=0.02, log_density_ratio=40.0, n=6000, failure_prob=0.05)
    assert made.nats("confidence") == within_rounding(log(20.0))


@pytest.mark.parametrize("still", [{"beta": 0.0, "tau": 3.0}, {"beta": 3.0, "tau": 0.0}])
def test_a_mechanism_that_does_not_look_at_its_records_loses_no_privacy(still):
    assert exponential_mechanism_epsilon(**still, loss_range=2.0, n=10) == 0.0
