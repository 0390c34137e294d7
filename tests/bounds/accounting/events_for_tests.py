"""Short names for schedules and what they spend."""

import pytest
from cells import steps

from bounds.accounting import privacy_delta, privacy_epsilon

RELATIONS = "add-remove", "replace-one"
either = pytest.mark.parametrize("adjacency", RELATIONS)


def spent(event, delta=1e-5, adjacency="add-remove", **options):
    return privacy_epsilon(event=event, delta=delta, adjacency=adjacency, **options)


def lost(event, epsilon, adjacency="add-remove", **options):
    return privacy_delta(event=event, epsilon=epsilon, adjacency=adjacency, **options)


HEADLINE = steps(1.1, 256 / 60000, 3516)
