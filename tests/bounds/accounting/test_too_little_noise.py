"""Steps whose noise is too little for the grid: neither end of the bracket may claim what is not so (finding P4)."""

import math

import mpmath as mp
import pytest

from bounds.accounting import (
    Composed,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    SelfComposed,
    privacy_delta,
    privacy_epsilon,
)


def step(rate, noise, count=1):
    return SelfComposed(event=PoissonSampled(sample_rate=rate, event=Gaussian(noise_multiplier=noise)), count=count)


def true_delta(rate, noise, epsilon, adjacency):
    """The hockey-stick divergence of one sampled Gaussian, the larger direction, at 60 digits."""
    with mp.workdps(60):
        q, s = mp.mpf(rate), mp.mpf(noise)

        def density(x, mean):
            return mp.npdf(x, mean, s)

        def one(x):
            return (1 - q) * density(x, 0) + q * density(x, 1)

        def other(x):
            none = density(x, 0)
            return none if adjacency == "add-remove" else (1 - q) * none + q * density(x, -1)

        edges = sorted({mp.mpf(c) + k * s for c in (-1, 0, 1) for k in (-40, -10, -4, -1, 0, 1, 4, 10, 40)})
        grown = mp.exp(epsilon)
        sides = []
        for p, r in ((one, other), (other, one)):
            sides.append(mp.quad(lambda x, p=p, r=r: max(mp.mpf(0), p(x) - grown * r(x)), edges))
        return float(max(sides))


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize(("rate", "noise"), [(1e-6, 0.04), (1e-6, 1e-3), (3e-6, 0.03)])
def test_a_record_that_hardly_ever_takes_part_is_hidden_whatever_the_noise(rate, noise, adjacency):
    """The accountant said infinity at both ends; the truth is about 0."""
    found = privacy_epsilon(event=step(rate, noise), delta=1e-5, adjacency=adjacency)
    assert found.lower == 0.0
    assert found.upper <= 2.0 * rate
    assert true_delta(rate, noise, found.upper, adjacency) <= 1e-5


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize(("rate", "noise", "count"), [(1e-4, 0.03, 1), (0.5, 1e-3, 3), (1e-6, 0.04, 20)])
def test_the_lower_end_of_what_is_given_up_is_no_claim(rate, noise, count, adjacency):
    found = privacy_epsilon(event=step(rate, noise, count), delta=1e-5, adjacency=adjacency)
    assert (found.lower, found.upper) == (0.0, math.inf)
    at_one = privacy_delta(event=step(rate, noise, count), epsilon=1.0, adjacency=adjacency)
    assert (at_one.lower, at_one.upper) == (0.0, 1.0)


def test_what_is_left_when_it_takes_no_part_is_paid_at_the_delta_that_is_left():
    rate, rest, delta = 1e-6, step(0.01, 1.1, 300), 1e-5
    both = privacy_epsilon(event=Composed(events=(rest, step(rate, 0.01))), delta=delta, adjacency="add-remove")
    alone = privacy_epsilon(event=rest, delta=delta - 1.0001 * rate, adjacency="add-remove")
    assert alone.upper <= both.upper <= alone.upper + 2e-6
    assert both.lower == 0.0


def test_a_release_without_protection_is_known_to_have_none():
    for event in (NonPrivate(), Composed(events=(NonPrivate(), step(0.01, 1.0)))):
        found = privacy_epsilon(event=event, delta=1e-5, adjacency="add-remove")
        assert (found.lower, found.upper) == (math.inf, math.inf)
    sampled = privacy_epsilon(
        event=PoissonSampled(sample_rate=1e-6, event=NonPrivate()), delta=1e-5, adjacency="add-remove"
    )
    assert sampled.lower == 0.0
    assert sampled.upper <= 2e-6
