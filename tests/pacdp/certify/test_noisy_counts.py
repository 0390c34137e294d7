"""Certificates from counts with noise: they hold as often as they say, and carry what the noise may have hidden."""

import math

import numpy as np
import torch
from scipy import stats

import bounds
from pacdp import Network, Private, certify
from pacdp.certify import BoundSet, Refusal
from pacdp.certify.networks import noisy_certificate, released_certificate
from pacdp.certify.released_counts import ReleasedErrors, released_errors
from pacdp.random.grid import GRID_LOG2
from pacdp.step.noise import SeededRandomness, SystemRandomness
from pacdp.store.reservation import NoLedger
from pacdp.verify.certificate import check_certificate
from tests.edits import seen
from tests.marks import near, parametrize, refusal, slow
from tests.pacdp.toys import seeded

GAUSSIAN = bounds.GaussianDP(mu=0.02, adjacency="add-remove", status="exact mechanism")
ABOUT = {"privacy": GAUSSIAN, "failure_prob": 0.05, "of": "weights", "measures": "0-1 risk"}
PLAIN = {"price": bounds.Accounted(privacy=GAUSSIAN), "failure_prob": 0.049}


def counted(errors, n, std=20.0, unit="example"):
    return ReleasedErrors(errors=errors, n=n, std_errors=std, std_n=std, unit=unit)


def test_noise_of_nothing_costs_what_its_failure_probability_costs():
    made, exact = (
        noisy_certificate(counted(200.0, 5000.0, 1e-9), **ABOUT),
        released_certificate(200 / 5000, n=5000, **PLAIN),
    )
    assert made.value == near(exact.value, rel=1e-9)
    assert made.failure_prob == near(0.05)
    assert made.budget["noise on the counts"] == near(0.001)


@parametrize("std", [3.0, slow(50.0), 300.0])
def test_the_bound_is_that_of_the_worst_counts_and_fails_less_often_than_the_noise_may(std, whole):
    source, draws, below = SeededRandomness(3), 100 if whole else 10, 0
    exact = released_certificate(400 / 10_000, n=10_000, **PLAIN).value
    for _ in range(draws):
        counts = released_errors(400, 10_000, std_errors=std, std_n=std, randomness=source, ledger=NoLedger(), run="a")
        made = noisy_certificate(counts, **ABOUT)
        errors, n = counts.at_worst(failure_prob=made.budget["noise on the counts"])
        assert made.inputs["n"] == n
        assert made.inputs["risk"] == near(errors / n)
        below += made.value < exact
    assert stats.binom(draws, 0.001).sf(below - 1) > 1e-4


@parametrize(("std", "errors", "unit"), [(50.0, 100 + 3 / 1024, "person"), (2048.0, 10_001, "example")])
def test_no_bit_of_a_count_is_released_beside_its_noise(std, errors, unit):
    about = {"std_errors": std, "std_n": std, "ledger": NoLedger(), "run": "a", "unit": unit}
    cell = math.ldexp(1.0, math.frexp(std)[1] - 1 - GRID_LOG2)
    made = [released_errors(errors, 20_000, randomness=SystemRandomness(), **about) for _ in range(4)]
    assert errors % cell
    assert {one.errors % cell for one in made} == {0.0}, "the grid of the noise, whatever the count"


def test_counts_beyond_the_grid_of_their_noise_are_refused():
    about = {"ledger": NoLedger(), "run": "a", "randomness": SystemRandomness()}
    for least in (2e-5, 1e-3):
        made = released_errors(9_999, 40_000, std_errors=least, std_n=least, **about)
        assert made.errors == near(9_999, abs=8 * least + 1e-3)
    with refusal("must be at least 1.9e-05 for 40000 records, got 1e-09 and 50.0: noise so small hides nothing"):
        released_errors(9_999, 40_000, std_errors=1e-9, std_n=50.0, **about)


@parametrize(("std", "share"), [(50.0, 1e-3), (500.0, 2e-2)])
def test_worst_counts_fail_no_more_often_than_was_paid_for_on_the_grid_of_the_noise(std, share):
    cell = math.ldexp(1.0, math.frexp(std)[1] - 1 - GRID_LOG2)
    offs = np.arange(-10 * std / cell, 0.0) * cell
    reached = [counted(10_000 + off, 20_000, std).at_worst(failure_prob=share)[0] >= 10_000 for off in offs]
    assert stats.norm.cdf((offs[np.argmax(reached)] - cell / 2) / std) <= share / 2


def test_records_that_noise_may_have_made_up_certify_nothing():
    made = noisy_certificate(counted(3.0, 50.0), **ABOUT)
    assert isinstance(made, Refusal)
    assert "less noise" in made.reason
    more = noisy_certificate(counted(90.0, 100.0), **ABOUT)
    assert more.value == 1.0, "more errors than records are a risk of one"


@parametrize("unit", ["example", "person"])
def test_the_door_releases_once_and_shows_nothing_else(unit):
    generator = seeded(1)
    inputs = torch.randn(600, 3, generator=generator)
    labels = (inputs.sum(dim=1) > 0).long()
    people = None if unit == "example" else np.arange(600) // 2
    bound = BoundSet(inputs=inputs, labels=labels, people=people)
    law = Network(network=lambda x: torch.stack([-x[:, 0], x[:, 0]], dim=1))
    asked = []

    def release(errors, n, whose):
        asked.append((errors, n, whose))
        return counted(errors + 4.5, n - 7.25, 5.0, whose)

    source = Private(privacy=GAUSSIAN, rows=bound.rows, unit=unit)
    found, exact = (certify(law, bound, prior=source, release=release), certify(law, bound, prior=source))
    (made,) = found.certificates
    (plain,) = exact.certificates
    assert asked == [(near(plain.inputs["risk"] * bound.units, abs=0.3), bound.units, unit)]
    assert (found.rows, found.measured, found.monte_carlo) == (None, (), ())
    assert found.n == made.inputs["n"]
    assert found.n < bound.units - 7
    assert found.examples == (found.n if unit == "example" else None)
    assert made.value > plain.value
    assert made.hypotheses == plain.hypotheses
    assert seen(check_certificate(made.to_dict())) == {"follows"}
    with refusal("release goes with"):
        certify(law, bound, prior=source, release=release, test=BoundSet(inputs=inputs + 1, labels=labels))
    assert len(asked) == 1
