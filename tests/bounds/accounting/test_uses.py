"""What a composed event is used for: hand-over to bounds, attack rates, calibration, records, refusals."""

import json
from dataclasses import replace
from math import exp

import numpy as np
import pytest
from events_for_tests import HEADLINE, either, lost, spent, steps
from scipy.stats import norm

from bounds.accounting import (
    Composed,
    ExponentialMechanism,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    PrivacyBound,
    SelfComposed,
    best_true_positive_rate,
    calibrate_noise,
    event_from_dict,
    event_from_json,
    event_to_dict,
    event_to_json,
    loss_distribution,
    privacy_epsilon,
    privacy_profile,
    privacy_record,
    renyi_epsilon,
    trade_off,
)

ALL = Composed(
    events=(
        steps(1.5, 0.01, 3),
        ExponentialMechanism(epsilon=0.1, adjacency="add-remove"),
        Gaussian(noise_multiplier=7.0),
        NonPrivate(),
    )
)


def test_events_survive_json():
    assert event_from_json(event_to_json(ALL)) == ALL
    assert event_from_dict(json.loads(json.dumps(event_to_dict(ALL)))) == ALL


def test_bounds_survive_json():
    made = spent(HEADLINE)
    assert PrivacyBound(**json.loads(json.dumps(made.to_dict()))) == made
    assert float(made) == made.upper == made.epsilon == made.guarantee.epsilon


def test_long_compositions_fit_the_record():
    long = steps(3.0, 0.001, 200_000)
    assert loss_distribution(event=long, adjacency="add-remove").with_record.sum() >= 1.0 - 1e-12


@either
def test_distribution_and_profile_promise_what_the_accountant_does(adjacency):
    law, at = loss_distribution(event=HEADLINE, adjacency=adjacency), (-1.0, 0.0, 0.3, 1.0)
    x = law.losses
    profile = privacy_profile(event=HEADLINE, adjacency=adjacency, epsilons=at)
    for epsilon, told in zip(at[1:], profile.deltas[1:], strict=True):
        bound = lost(HEADLINE, epsilon, adjacency)
        above = x > epsilon
        delta = float(law.with_record[above] @ -np.expm1(epsilon - x[above])) + law.infinity_mass
        assert bound.lower <= delta <= bound.upper * 1.01 + 1e-9
        assert bound.lower <= told <= bound.upper * (1 + 1e-6) + 1e-9
    assert 1 - exp(-1.0) <= profile.deltas[0] < 1 - exp(-1.0) + 0.02
    assert law.with_record.sum() + law.infinity_mass == pytest.approx(1.0, abs=1e-7)
    assert law.infinity_mass < 1e-15


def test_attack_rates_of_the_headline_setting():
    assert best_true_positive_rate(event=HEADLINE, adjacency="add-remove", false_positive_rate=0.01) == pytest.approx(
        0.021, abs=1e-3
    )
    levels = np.linspace(0.0, 1.0, 41)
    errors = trade_off(event=HEADLINE, adjacency="add-remove", type_i=levels)
    assert (np.diff(errors) <= 1e-12).all()
    assert (np.diff(errors, 2) >= -1e-6).all()
    assert (errors <= 1.0 - levels + 1e-12).all()
    assert errors[0] > 0.999


def test_trade_off_of_a_gaussian():
    levels = np.array([1e-4, 0.01, 0.3, 0.9])
    made = trade_off(event=Gaussian(noise_multiplier=1.0), adjacency="add-remove", type_i=levels)
    true = norm.cdf(norm.ppf(1.0 - levels) - 1.0)
    assert (made <= true + 1e-12).all()
    assert made == pytest.approx(true, abs=1e-4)
    assert trade_off(event=NonPrivate(), adjacency="add-remove", type_i=0.5) == 0.0


def test_calibration_of_the_headline_setting():
    made = calibrate_noise(event=HEADLINE, epsilon=1.0, delta=1e-5, adjacency="add-remove")
    assert made.achieved == spent(made.event)
    assert made.achieved.upper <= 1.0
    assert made.event.event.event.noise_multiplier == pytest.approx(1.185, abs=3e-3)


def test_calibration_to_where_nothing_is_spent_at_all():
    """With enough noise the delta alone covers it: epsilon is 0 there, and no logarithm of it is taken."""
    at = {"delta": 0.3, "adjacency": "add-remove"}
    made = calibrate_noise(event=Gaussian(noise_multiplier=1.0), epsilon=1e-3, tolerance=1e-4, **at)
    assert made.achieved.upper <= 1e-3
    less = Gaussian(noise_multiplier=made.scale * (1.0 - 2e-4))
    assert privacy_epsilon(event=less, **at).upper > 1e-3


def test_a_promise_carries_what_it_was_accounted_from_and_equals_one_that_does_not():
    for event in (steps(2.0, 0.01, 30), Gaussian(noise_multiplier=20.0)):
        record = privacy_record(event=event, adjacency="add-remove")
        assert event_from_json(record.event) == event
        assert type(record).from_dict(record.to_dict()).event == record.event
        bare = replace(record, event="")
        assert bare == record
        assert "event" not in bare.to_dict()
        assert type(bare).from_dict(bare.to_dict()) == record


@pytest.mark.parametrize("noise", [0.02, 1e-30])
def test_losses_that_no_grid_holds_are_refused(noise):
    with pytest.raises(ValueError, match="give it more noise"):
        loss_distribution(event=Gaussian(noise_multiplier=noise), adjacency="add-remove")


def test_where_the_grid_has_no_epsilon_renyi_s_is_taken():
    event = SelfComposed(event=PoissonSampled(sample_rate=0.001, event=Gaussian(noise_multiplier=1e4)), count=10**13)
    given = {"event": event, "delta": 1e-6, "adjacency": "add-remove"}
    assert privacy_epsilon(**given).upper == renyi_epsilon(**given).upper < 2.1
