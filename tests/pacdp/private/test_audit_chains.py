"""The audit of chains: sound ones pass, and noise that is too small, stuck or quiet at the end is found."""

from dataclasses import replace

import pytest
from private_toys import mlp

import pacdp.algorithms.entropy_sgd as entropy_room
import pacdp.algorithms.sgld as sgld_room
from pacdp.algorithms import SGLD, EntropySGD
from pacdp.audit.chains import audit_chain
from pacdp.losses import bounded_cross_entropy
from tests.marks import every_case, parametrize, slow

COMMON = {"tau": 20.0, "batch_size": 8, "clip_norm": 0.5}
CHAINS = {
    "SGLD": SGLD(**COMMON, step_size=0.05, decay=0.1),
    "Entropy-SGLD": EntropySGD(**COMMON, inner_steps=10, outer_step_size=0.5),
    "Entropy-SGD": EntropySGD(**COMMON, beta=None, inner_steps=10, inner_decay=0.0),
}


@pytest.fixture(autouse=True)
def _few_steps(monkeypatch):
    monkeypatch.setattr("pacdp.audit.chains._RELEASES", 25)


def refuted(settings):
    audit = audit_chain(settings, mlp(), loss=bounded_cross_entropy(classes=3, max_loss=4.0), shape=(4,), classes=3,
                        failure_prob=0.0006)  # fmt: skip
    return {check.name for check in audit.refuted}


@parametrize(
    "settings", [*CHAINS.values(), replace(CHAINS["Entropy-SGLD"], inner_steps=1)], ids=[*CHAINS, "one inner step"]
)
def test_sound_chains_are_not_refuted(settings):
    assert refuted(settings) == set()


def halved(x, *, scale, **more):
    return {"scale": 0.5 * scale, **more}


def stuck(x, *, tick, **more):
    return {"tick": 0, **more}


def quiet_at_the_end(x, *, scale, stream, tick, **more):
    """The last step of an inner loop alone has too little noise."""
    ends = stream == entropy_room.NOISE and tick % 10 == 9
    return {"scale": 0.5 * scale if ends else scale, "stream": stream, "tick": tick, **more}


@every_case(
    ("name", "changed", "found"),
    [("SGLD", halved, "noise: variance by tensor"), ("SGLD", stuck, "noise: repeats"),
     ("Entropy-SGLD", quiet_at_the_end, "noise: variance by step"),
     slow("Entropy-SGD", quiet_at_the_end, "noise: variance by step")],
)  # fmt: skip
def test_faults_of_chains_are_found(name, changed, found, monkeypatch):
    room = sgld_room if name == "SGLD" else entropy_room
    langevin = room.langevin
    monkeypatch.setattr(room, "langevin", lambda x, **told: langevin(x, **changed(x, **told)))
    assert found in refuted(CHAINS[name])
