"""Noise and rates beyond what a grid of losses can resolve: quiet, ordered, and above the truth."""

from math import inf

import pytest
from events_for_tests import HEADLINE, either, lost, spent, steps
from hypothesis import given, settings
from hypothesis.strategies import floats, integers, sampled_from

from bounds.accounting import Composed, Gaussian, PoissonSampled, privacy_profile, renyi_epsilon
from bounds.accounting._schedule import schedule
from bounds.accounting.gaussian import delta_bracket, epsilon_end

NOISES = [1e8, 1e12, 1e15, 1e100, 1e300]
RATES = [1e-300, 1e-20, 1e-10, 1e-5, 0.01, 0.999, 1.0]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("rate", RATES)
@either
def test_next_to_nothing_costs_next_to_nothing(noise, rate, adjacency):
    """A step's total variation is at most q/σ (2q/σ for replace-one), which a delta this large swallows."""
    for count in (1, 1000):
        event = steps(noise, rate, count)
        made = spent(event, 1e-4, adjacency)
        assert made.lower == made.upper == 0.0
        made = lost(event, 1e-6, adjacency)
        assert 0.0 <= made.lower <= made.estimate <= made.upper <= 1e-4
        assert renyi_epsilon(event=event, delta=1e-4, adjacency=adjacency).upper < 1e-3


@pytest.mark.parametrize("noise", [0.02, 0.05, 0.07, 0.099, 0.101, 0.15])
def test_strong_full_batch_losses_beside_a_sampled_step_stay_quiet_and_above(noise):
    alone = Gaussian(noise_multiplier=noise)
    both = Composed(events=(alone, PoissonSampled(sample_rate=0.01, event=Gaussian(noise_multiplier=1.0))))
    one, two = (spent(e) for e in (alone, both))
    assert two.upper >= one.lower
    assert lost(both, 1.0).upper > 0.99


@pytest.mark.parametrize("extra", [steps(1e300, 0.5, 100), steps(1.0, 1e-300, 100), Gaussian(noise_multiplier=1e300)])
@either
def test_negligible_steps_change_next_to_nothing(extra, adjacency):
    plain = spent(HEADLINE, adjacency=adjacency)
    made = spent(Composed(events=(HEADLINE, extra)), adjacency=adjacency)
    assert made.lower <= plain.upper
    assert made.upper == pytest.approx(plain.upper, rel=1e-3)
    assert made.lower == pytest.approx(plain.lower, rel=1e-3)


def test_noise_whose_squares_add_up_to_no_float_promises_nothing():
    made = schedule(Composed(events=(Gaussian(noise_multiplier=0.8e-154),) * 2), "add-remove")
    assert made.precision == inf


@pytest.mark.parametrize("mu", [1e-3, 0.1, 0.5, 3.0])
def test_both_ends_of_a_gaussian_epsilon_are_near_each_other(mu):
    lower, upper = (epsilon_end(mu, 1e-6, side) for side in (0, 1))
    assert 0.0 < lower <= upper <= lower * (1.0 + 1e-6)
    assert delta_bracket(mu, upper)[1] <= 1e-6 <= delta_bracket(mu, lower * (1.0 - 1e-9))[1]


def test_noise_too_small_for_a_square():
    for noise in (1e-160, 1e-300):
        assert spent(Gaussian(noise_multiplier=noise)).upper == inf
        both = Composed(events=(HEADLINE, Gaussian(noise_multiplier=noise)))
        assert spent(both).upper == inf


@settings(max_examples=settings.default.max_examples * 2 // 5)
@given(
    floats(-1.0, 300.0), floats(-300.0, 0.0), integers(1, 1000), floats(-40.0, -1.0),
    sampled_from(["add-remove", "replace-one"]),
)  # fmt: skip
def test_anything_is_answered_without_a_warning(log_noise, log_rate, count, log_delta, adjacency):
    event, delta = steps(10.0**log_noise, 10.0**log_rate, count), 10.0**log_delta
    made = spent(event, delta, adjacency)
    assert 0.0 <= made.lower <= made.estimate <= made.upper < inf
    back = lost(event, made.upper, adjacency)
    assert 0.0 <= back.lower <= min(back.upper, delta * (1 + 1e-6))
    assert (privacy_profile(event=event, adjacency=adjacency).deltas <= 1.0).all()
