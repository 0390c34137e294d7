"""Certificates from counts with noise: they hold as often as they say, and carry what the noise may have hidden."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import bounds
from bounds.accounting import Composed, Gaussian, PoissonSampled, SelfComposed, privacy_epsilon, privacy_record
from pacdp import BoundSet, HeldOut, Network, Private, certify
from pacdp.certify import Refusal
from pacdp.certify.networks import noisy_certificate, released_certificate
from pacdp.released_counts import ReleasedErrors, released_errors
from pacdp.reservation import NoLedger, Unit
from pacdp.step.noise import SeededRandomness
from pacdp.verify.certificate import check_certificate

GAUSSIAN = bounds.GaussianDP(mu=0.02, adjacency="add-remove", status="exact mechanism")
ABOUT: dict[str, Any] = {"privacy": GAUSSIAN, "failure_prob": 0.05, "of": "weights", "measures": "0-1 risk"}
PLAIN: dict[str, Any] = {"price": bounds.Accounted(privacy=GAUSSIAN), "failure_prob": 0.049}


def counted(errors: float, n: float, std: float = 20.0, unit: Unit = "example") -> ReleasedErrors:
    return ReleasedErrors(errors=errors, n=n, std_errors=std, std_n=std, unit=unit)


def test_noise_of_nothing_costs_what_its_failure_probability_costs() -> None:
    made, exact = (
        noisy_certificate(counted(200.0, 5000.0, 1e-9), **ABOUT),
        released_certificate(200 / 5000, n=5000, **PLAIN),
    )
    assert isinstance(made, bounds.Certificate)
    assert made.value == pytest.approx(exact.value, rel=1e-9)
    assert made.failure_prob == pytest.approx(0.05)
    assert made.budget["noise on the counts"] == pytest.approx(0.001)


@pytest.mark.parametrize("std", [3.0, 50.0, 300.0])
def test_the_bound_is_that_of_the_worst_counts_and_fails_less_often_than_the_noise_may(std: float) -> None:
    source, draws, below = SeededRandomness(3), 100, 0
    exact = released_certificate(400 / 10_000, n=10_000, **PLAIN).value
    for _ in range(draws):
        counts = released_errors(400, 10_000, std_errors=std, std_n=std, randomness=source, ledger=NoLedger(), run="a")
        made = noisy_certificate(counts, **ABOUT)
        assert isinstance(made, bounds.Certificate)
        errors, n = counts.at_worst(failure_prob=made.budget["noise on the counts"])
        assert made.inputs["n"] == n
        assert made.inputs["risk"] == pytest.approx(errors / n)
        below += made.value < exact
    assert stats.binom(draws, 0.001).sf(below - 1) > 1e-4


def test_records_that_noise_may_have_made_up_certify_nothing() -> None:
    made = noisy_certificate(counted(3.0, 50.0), **ABOUT)
    assert isinstance(made, Refusal)
    assert "less noise" in made.reason


def test_more_errors_than_records_are_a_risk_of_one() -> None:
    made = noisy_certificate(counted(90.0, 100.0), **ABOUT)
    assert isinstance(made, bounds.Certificate)
    assert made.value == 1.0


@pytest.mark.parametrize("unit", ["example", "person"])
def test_the_door_releases_once_and_shows_nothing_else(unit: Unit) -> None:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(600, 3, generator=generator)
    labels = (inputs[:, 0] + 0.3 * torch.randn(600, generator=generator) > 0).long()
    people = None if unit == "example" else np.arange(600) // 2
    bound = BoundSet(inputs=inputs, labels=labels, people=people)
    law = Network(network=lambda x: torch.stack([-x[:, 0], x[:, 0]], dim=1))
    asked = []

    def release(errors: float, n: int, whose: Unit) -> ReleasedErrors:
        asked.append((errors, n, whose))
        return counted(errors + 4.5, n - 7.25, 5.0, whose)

    source = Private(privacy=GAUSSIAN, rows=bound.rows, unit=unit)
    found, exact = certify(law, bound, prior=source, release=release), certify(law, bound, prior=source)
    (made,) = found.certificates
    (plain,) = exact.certificates
    assert asked == [(pytest.approx(plain.inputs["risk"] * bound.units, abs=0.3), bound.units, unit)]
    assert (found.rows, found.measured, found.monte_carlo) == (None, (), ())
    assert found.n == made.inputs["n"]
    assert found.n < bound.units - 7
    assert found.examples == (found.n if unit == "example" else None)
    assert made.value > plain.value
    assert made.hypotheses == plain.hypotheses
    assert {one.verdict for one in check_certificate(made.to_dict())} == {"follows"}
    with pytest.raises(ValueError, match="release goes with"):
        certify(law, bound, prior=HeldOut(rows=bound.rows), release=release)
    with pytest.raises(ValueError, match="release goes with"):
        certify(law, bound, prior=source, release=release, test=BoundSet(inputs=inputs + 1, labels=labels))
    assert len(asked) == 1


def test_what_the_noise_costs_on_mnist() -> None:
    """The committed run of DP-SGD (experiments/results/private): 2596 errors of 60,000 at epsilon 0.5."""
    run = SelfComposed(
        event=PoissonSampled(sample_rate=0.02, event=Gaussian(noise_multiplier=3.29538442000592)), count=500
    )
    about: dict[str, Any] = ABOUT | {"privacy": privacy_record(event=run, adjacency="add-remove")}
    exact, made = (
        released_certificate(
            2596 / 60_000, n=60_000, price=bounds.Accounted(privacy=about["privacy"]), failure_prob=0.05
        ),
        noisy_certificate(counted(2596.0, 60_000.0, 50.0), **about),
    )
    assert isinstance(made, bounds.Certificate)
    at_two_thousandths = counted(2596.0, 60_000.0, 50.0).at_worst(failure_prob=0.002)
    assert at_two_thousandths[0] - 2596 == pytest.approx(0.0026 * 60_000, abs=2.0)
    assert 0.0045 < made.value - exact.value < 0.0055, "half a point of the certificate"
    costs = [
        privacy_epsilon(
            event=Composed(events=(run, *(Gaussian(noise_multiplier=50.0),) * times)),
            delta=1e-5,
            adjacency="add-remove",
        ).upper
        for times in range(3)
    ]
    assert 0.005 < costs[1] - costs[0] < 0.0055
    assert 0.010 < costs[2] - costs[0] < 0.011
