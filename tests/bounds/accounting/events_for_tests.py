"""Short names for schedules and what they spend."""

import pytest

from bounds.accounting import Gaussian, PoissonSampled, SelfComposed, privacy_delta, privacy_epsilon

RELATIONS = "add-remove", "replace-one"
either = pytest.mark.parametrize("adjacency", RELATIONS)


def steps(noise_multiplier, sample_rate, count=1):
    one = PoissonSampled(sample_rate=sample_rate, event=Gaussian(noise_multiplier=noise_multiplier))
    return SelfComposed(event=one, count=count)


def spent(event, delta=1e-5, adjacency="add-remove", **options):
    return privacy_epsilon(event=event, delta=delta, adjacency=adjacency, **options)


def lost(event, epsilon, adjacency="add-remove", **options):
    return privacy_delta(event=event, epsilon=epsilon, adjacency=adjacency, **options)


HEADLINE = steps(1.1, 256 / 60000, 3516)
