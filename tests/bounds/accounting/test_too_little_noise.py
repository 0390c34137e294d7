"""Steps whose noise is too little for the grid: neither end of the bracket may claim what is not so (finding P4)."""

from math import inf

import pytest
import subsampled_by_mpmath as twin
from events_for_tests import either, lost, spent, steps

from bounds.accounting import Composed, NonPrivate, PoissonSampled


@either
@pytest.mark.parametrize(("rate", "noise"), [(1e-6, 0.04), (1e-6, 1e-3), (3e-6, 0.03)])
def test_a_record_that_hardly_ever_takes_part_is_hidden_whatever_the_noise(rate, noise, adjacency):
    """The accountant said infinity at both ends; the truth is about 0."""
    found = spent(steps(noise, rate), adjacency=adjacency)
    assert found.lower == 0.0
    assert found.upper <= 2.0 * rate
    assert twin.delta(adjacency, rate, noise, found.upper) <= 1e-5


@either
@pytest.mark.parametrize(("rate", "noise", "count"), [(1e-4, 0.03, 1), (0.5, 1e-3, 3), (1e-6, 0.04, 20)])
def test_the_lower_end_of_what_is_given_up_is_no_claim(rate, noise, count, adjacency):
    found = spent(steps(noise, rate, count), adjacency=adjacency)
    assert (found.lower, found.upper) == (0.0, inf)
    at_one = lost(steps(noise, rate, count), 1.0, adjacency)
    assert (at_one.lower, at_one.upper) == (0.0, 1.0)


def test_what_is_left_when_it_takes_no_part_is_paid_at_the_delta_that_is_left():
    rate, rest, delta = 1e-6, steps(1.1, 0.01, 300), 1e-5
    both = spent(Composed(events=(rest, steps(0.01, rate))), delta)
    alone = spent(rest, delta - 1.0001 * rate)
    assert alone.upper <= both.upper <= alone.upper + 2e-6
    assert both.lower == 0.0


def test_a_release_without_protection_is_known_to_have_none():
    for event in (NonPrivate(), Composed(events=(NonPrivate(), steps(1.0, 0.01)))):
        found = spent(event)
        assert (found.lower, found.upper) == (inf, inf)
    sampled = spent(PoissonSampled(sample_rate=1e-6, event=NonPrivate()))
    assert sampled.lower == 0.0
    assert sampled.upper <= 2e-6
