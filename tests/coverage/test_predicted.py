"""Reports on predictions fail no more often than they say where the truth is known, and faults are caught."""

import pytest

from tests.coverage.predicted import ROWS, TRIALS, error, failures, plain, refuted


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_rows_hold_together_and_faults_are_caught(row):
    assert not refuted(failures(row.sound, row.trials), row.trials)
    if row.broken is not None:
        assert refuted(failures(row.broken, row.trials), row.trials)


def test_all_rows_hold_together_and_are_not_absurdly_loose():
    assert failures(plain, TRIALS) > 0.02 * TRIALS
    assert failures(error, TRIALS) > 0.1 * TRIALS
