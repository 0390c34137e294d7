"""The audit of two real processes: their noise is one, and noise that each adds in full, or alike, is caught."""

import pytest
from private_toys import FIXED, M, cross_entropy, mlp
from torch import multiprocessing

from pacdp.audit.mechanism import audit_mechanism, made_up
from pacdp.private import DPSGD, P3SGD, SeededRandomness, SystemRandomness
from pacdp.step.processes import RankRandomness
from tests.marks import parametrize, slow
from tests.two_processes import two_processes

SGD = DPSGD(learning_rate=0.1)


def in_full():
    """Each process adds all of the noise."""
    RankRandomness.noised = lambda self, total, *, std: SystemRandomness().noised(total.double(), std=std)
    return SystemRandomness()


def alike():
    """Each process adds its share, and all draw the same one."""
    source = SeededRandomness(3)

    def noised(self, total, *, std):
        return source.noised(total, std=std / 2**0.5).double()

    RankRandomness.noised = noised
    return SystemRandomness()


def audited(algorithm=SGD, *, randomness=SystemRandomness, people=False):
    data, owners = made_up((4,), classes=3, units=33, people=people)
    return audit_mechanism(algorithm, mlp(), data, mechanism=FIXED if algorithm.FIXES_NOISE else M, loss=cross_entropy,
                           people=owners, randomness=randomness, processes=2, failure_prob=1e-4)  # fmt: skip


@pytest.mark.slow
def test_two_processes_are_sound():
    assert audited().refuted == ()


@pytest.mark.slow
def test_two_processes_on_people_are_sound():
    local = P3SGD(noise_scales=(2.0, 1.0), learning_rate=0.3, local_batch_size=2)
    assert audited(local, people=True).refuted == ()


@parametrize("source", [alike, slow(in_full)])
def test_noise_that_is_there_twice_is_caught(source, monkeypatch):
    monkeypatch.setattr(multiprocessing, "spawn", lambda function, args, nprocs: two_processes(function, args))
    assert "noise: variance by tensor" in {check.name for check in audited(randomness=source).refuted}
