"""No bound fails more often than it says, and broken bounds are caught by the same test."""

import pytest

from tests.coverage.entries import BROKEN, ENTRIES
from tests.coverage.harness import LEVEL, run, worst

every_entry = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)


def check(entry, datasets):
    outcomes = run(entry, datasets)
    for outcome in outcomes:
        assert outcome.p_value >= LEVEL, outcome
    assert worst(outcomes).interval[1] >= entry.share * worst(outcomes).nominal  # and not absurdly rarely
    assert min(outcome.slack for outcome in outcomes) <= entry.slack


@every_entry
def test_bounds_fail_at_most_as_often_as_they_say(entry):
    check(entry, 2000)


@pytest.mark.slow
@every_entry
def test_bounds_fail_at_most_as_often_as_they_say_on_twenty_thousand_data_sets(entry):
    check(entry, 20_000)


@pytest.mark.parametrize("entry", BROKEN, ids=lambda entry: entry.name)
def test_broken_bounds_are_caught(entry):
    assert worst(run(entry, 2000)).p_value < LEVEL
