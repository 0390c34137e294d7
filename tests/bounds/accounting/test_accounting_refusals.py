"""What the accountant refuses, in words that name the argument: a row for every check."""

from functools import partial
from math import inf

import pytest
from cells import refused
from events_for_tests import steps

from bounds.accounting import (
    Composed,
    ExponentialMechanism,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    SelfComposed,
    calibrate_noise,
    event_from_dict,
    loss_distribution,
    privacy_delta,
    privacy_epsilon,
    renyi_divergences,
    trade_off,
)

ONE = steps(1.0, 0.01)
PURE = ExponentialMechanism(epsilon=2.0, adjacency="add-remove")
OTHER = ExponentialMechanism(epsilon=1.0, adjacency="replace-one")
UNLESS = {"adjacency": "add-remove"}
asked = partial(privacy_epsilon, delta=1e-5, **UNLESS)
sampled = partial(PoissonSampled, sample_rate=0.1)
REFUSED = [
    (partial(PoissonSampled, sample_rate="0.1", event=ONE), "sample_rate must be a real number"),
    (partial(sampled, sample_rate=0.0, event=ONE), r"sample_rate must lie in \(0, 1\]"),
    (partial(Gaussian, noise_multiplier=0.0), "noise_multiplier must be positive"),
    (partial(ExponentialMechanism, epsilon=-1.0, **UNLESS), "epsilon must be positive"),
    (partial(Composed, events=()), "events must hold at least one event"),
    (partial(SelfComposed, event=ONE, count=0), "count must be a whole number"),
    (partial(asked, event=ONE, delta=0.0), "delta must lie strictly"),
    (partial(asked, event=ONE, adjacency="zero-out"), "adjacency must be one of"),
    (partial(privacy_delta, event=ONE, epsilon=-1.0, **UNLESS), "epsilon must not be negative"),
    (partial(privacy_delta, event=ONE, epsilon=inf, **UNLESS), "epsilon must be finite"),
    (partial(loss_distribution, event=NonPrivate(), **UNLESS), "event must promise something"),
    (partial(renyi_divergences, event=ONE, orders=(1.0,), **UNLESS), "orders must be above 1"),
    (partial(trade_off, event=ONE, type_i=1.5, **UNLESS), "type_i must lie in"),
    (
        partial(calibrate_noise, event=Composed(events=(ONE, PURE)), epsilon=1.0, delta=1e-6, **UNLESS),
        "epsilon must be within reach",
    ),
    (partial(asked, event=OTHER), "ExponentialMechanism is stated for replace-one neighbours"),
    (partial(asked, event=sampled(event=ONE)), "PoissonSampled must not hold another"),
    (partial(asked, event=sampled(event=PURE)), "PoissonSampled must hold a Gaussian"),
    (
        partial(
            asked,
            event=sampled(event=Composed(events=(Gaussian(noise_multiplier=1.0), OTHER))),
            adjacency="replace-one",
        ),
        "PoissonSampled with exponential mechanisms",
    ),
    (partial(event_from_dict, {"event": "Laplace"}), "event must"),
]


@pytest.mark.every_case
@pytest.mark.parametrize(("call", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_has_no_meaning_or_no_theorem_is_refused_in_words(call, words):
    refused(f"^{words}", call)


def test_the_relation_is_never_a_default():
    with pytest.raises(TypeError):
        privacy_epsilon(event=ONE, delta=1e-5)
