"""A person as a canary: sound people's algorithms pass, half the noise and patients cut in two are caught."""

import pytest
from mechanism_faults import Faulty, a_patient_cut_in_two
from numpy.random import default_rng
from private_toys import cross_entropy, mechanism, mlp

from pacdp.audit.canaries import audit_training
from pacdp.audit.mechanism import made_up
from pacdp.private import P3SGD, UserDPSGD
from tests.marks import at_most, parametrize

pytestmark = pytest.mark.usefixtures("known_network")
LOCAL = {"noise_scales": (9.0, 6.0), "learning_rate": 0.3, "local_batch_size": 2, "selection_epsilon": 0.01}
ALGORITHMS = {
    "user level": UserDPSGD(learning_rate=0.05),
    "user level, in parts": UserDPSGD(learning_rate=0.05, records_at_once=1),
    "P3SGD": P3SGD(**LOCAL),
    "P3SGD, nested": P3SGD(**LOCAL, nested=True),
}


def audited(name, *, factor=1.0, canaries=1000, **more):
    data, people = made_up((4,), classes=3, units=20, people=True)
    algorithm = ALGORITHMS[name]
    numbers = mechanism(noise_multiplier=None if algorithm.FIXES_NOISE else 6.0, sample_rate=1.0, steps=12)
    return audit_training(algorithm, mlp(), data, mechanism=numbers, loss=cross_entropy, people=people, delta=1e-5,
                          generator=default_rng(1), canaries=canaries, randomness=Faulty(seed=4, factor=factor),
                          **more)  # fmt: skip


@at_most(2, "name", ALGORITHMS)
def test_half_the_noise_is_caught_and_the_claim_is_not(name):
    sound = audited(name)
    assert not sound.contradicted
    assert 0.1 < sound.result.mu_lower < 12**0.5 / 4.9
    assert audited(name, factor=0.5).contradicted


@parametrize("name", ["user level", "P3SGD"])
def test_a_patient_cut_in_two_is_caught(name, monkeypatch):
    sound = audited(name, canaries=2400)
    assert not sound.contradicted
    a_patient_cut_in_two(monkeypatch.setattr)
    found = audited(name, canaries=2400)
    assert found.contradicted
    assert found.result.mu_lower > 1.5 * sound.result.mu_lower
