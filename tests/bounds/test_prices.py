"""What prices promise beyond the formulas that use them: one step for prior and draw, refusals, exact ends."""

import pytest

from bounds import exponential_mechanism_epsilon


@pytest.mark.parametrize("still", [{"beta": 0.0, "tau": 3.0}, {"beta": 3.0, "tau": 0.0}])
def test_a_mechanism_that_does_not_look_at_its_records_loses_no_privacy(still):
    assert exponential_mechanism_epsilon(**still, loss_range=2.0, n=10) == 0.0
