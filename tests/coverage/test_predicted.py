"""Reports on predictions fail no more often than they say where the truth is known, and faults are caught."""

import numpy as np
import pytest
from numpy.random import default_rng

import pacdp
from tests.coverage.predicted import ROWS, TRIALS, error, failures, plain, refuted


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_rows_hold_together_and_faults_are_caught(row):
    assert not refuted(failures(row.sound, row.trials), row.trials)
    if row.broken is not None:
        assert refuted(failures(row.broken, row.trials), row.trials)


def test_all_rows_hold_together_and_are_not_absurdly_loose():
    assert failures(plain, TRIALS) > 0.02 * TRIALS
    assert failures(error, TRIALS) > 0.1 * TRIALS


@pytest.mark.parametrize("order", ["by error", "by class"])
def test_rows_that_were_sorted_do_not_mislead_the_betting_bounds(order):
    loss = default_rng(11).random(500) ** 2
    moved = np.sort(loss) if order == "by error" else np.concatenate([loss[::2], loss[1::2]])
    found = [pacdp.certify_predictions(losses={"loss": each}).statements[0].upper for each in (loss, moved)]
    assert found[1] == found[0]
