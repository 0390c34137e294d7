"""The audit of whole mechanisms: sound ones pass, and each of the ten faults of the review is found by its check."""

from dataclasses import dataclass, replace

import pytest
import torch
from mechanism_faults import ALONE, FAULTS, SIZES, WEIGHTS, a_patient_cut_in_two, noting_sizes
from numpy.random import default_rng
from private_toys import GHOST, SOUND, M, bayes_network, cross_entropy, mlp
from scipy import stats
from torch import nn
from torch.nn import Sequential

from pacdp.algorithms.algorithm import Descent
from pacdp.audit.mechanism import audit_mechanism, made_up
from pacdp.private import DPBBP, DPSGD, DPSGLD, SeededRandomness, SystemRandomness, Table
from tests.marks import at_most, every_case, near, parametrize, refusal

pytestmark = pytest.mark.usefixtures("known_network")
LEVEL = 0.01 / len(SOUND)


SEEDED = {"noise: grid", "noise: secret"}
"""What cannot be checked of noise from a seed."""
PARTS = {"sensitivity": "sens", "resuming": "resume", "few_units": "empty", "noise_alone": ("noise alone", "draws")}
"""Parts of the audit, and how the names of their checks begin."""


def audited(algorithm, *, randomness=lambda: SeededRandomness(5), steps=20, failure_prob=LEVEL, network=None,
            numbers=M, **more):  # fmt: skip
    """The audit of settings, or of a sound mechanism by its name."""
    settings, numbers, made = SOUND[algorithm] if isinstance(algorithm, str) else (algorithm, numbers, mlp)
    dataset, people = made_up((4,), classes=3, units=33, people=settings.by_person)
    return audit_mechanism(settings, network or made(), dataset, mechanism=numbers, loss=cross_entropy, people=people,
                           randomness=randomness, steps=steps, failure_prob=failure_prob, generator=default_rng(1),
                           **more)  # fmt: skip


def refuted(audit):
    return {check.name for check in audit.refuted}


def moved(audit):
    """How far one unit was seen to move a sum, over C."""
    (seen,) = (check.seen for check in audit.checks if check.name == "sensitivity: one unit")
    return float(seen.split(" C by")[0])


@at_most(2, "name", SOUND)
def test_sound_mechanisms_are_not_refuted(name):
    audit = audited(name)
    assert refuted(audit) == set()
    assert moved(audit) > 0.99  # the bound is reached
    if name == "P3SGD, nested":
        assert any(check.name == "choices" and check.unchecked for check in audit.checks), "nobody sees the others"
    assert audit.level * sum(check.p_value is not None for check in audit.checks) == near(LEVEL)


def test_noise_of_the_system_is_not_refuted():
    """Nor a step that is killed between the two releases of P3SGD."""
    audit = audited("DP-SGD", randomness=SystemRandomness, steps=12, failure_prob=1e-6, canaries=100)
    assert refuted(audit) == set()
    assert audit.checks[-1].name == "canaries"
    assert audit.level < 1e-6 / 40
    two = audited("P3SGD", randomness=SystemRandomness, steps=8, failure_prob=1e-6)
    assert refuted(two) == set()
    assert not {check.name: check for check in two.checks}["choices"].unchecked


@parametrize("most", [1, 5])
def test_parts_of_a_batch_have_one_draw_of_weights_as_the_auditor_has(most, monkeypatch):
    for part in ("resuming", "few_units", "noise_alone"):
        monkeypatch.setattr(f"pacdp.audit.mechanism.of_{part}", lambda *_, **__: ())
    numbers = replace(GHOST, max_physical_batch=most)
    audit = audited(DPBBP(learning_rate=0.1), numbers=numbers, network=bayes_network(), steps=4)
    assert refuted(audit) == set()
    assert moved(audit) > 0.99


@parametrize("steps", [4, 8])
def test_schedules_that_end_with_the_run_begin_again_in_the_auditor_s_longer_ones(steps):
    table = Table(values=(0.1, 0.2, 0.3, 0.4))
    numbers = replace(M, steps=4, noise_multiplier=[1.0, 1.3, 1.1, 1.2].__getitem__)
    for algorithm in (DPSGD(learning_rate=table), DPSGLD(convention="tempered", step_size=table)):
        own = numbers if isinstance(algorithm, DPSGD) else replace(numbers, noise_multiplier=None)
        audit = audited(algorithm, numbers=own, steps=steps)
        assert refuted(audit) == set()
        assert moved(audit) > 0.99


@parametrize(
    ("name", "layer", "refused"),
    [
        ("DP-SGD", nn.Dropout(0.5), None),
        ("DP-SGD", nn.Dropout1d(0.5), "no counterpart"),
        ("DP-SGD", nn.RReLU(), "global generator"),
        ("P3SGD", nn.Dropout(0.5), "contributes"),
    ],
)
def test_dropout_is_no_noise_that_follows_the_data(name, layer, refused):
    """Its masks are drawn again where they can be; where not, the audit says so and accuses nobody."""
    network = Sequential(*mlp()[:2], layer, mlp()[2])
    if refused is None:
        assert refuted(audited(name, network=network)) == set()
    else:
        with refusal(refused):
            audited(name, network=network)


@pytest.mark.slow
def test_false_alarms_are_as_rare_as_they_say(whole):
    """Of all checks together, paid for jointly; what is certain is refuted in no run."""
    runs, alarms = 200 if whole else 20, 0
    for _ in range(runs):
        found = audited("DP-SGD by the reference", randomness=SystemRandomness, steps=6, failure_prob=0.2).refuted
        assert all(check.p_value is not None for check in found)
        alarms += bool(found)
    assert alarms <= stats.binom.isf(1e-6, runs, 0.2)


@every_case(("fault", "name", "found"), FAULTS)
def test_a_planted_fault_is_found_by_its_check(fault, name, found, monkeypatch):
    torch.manual_seed(0)
    for part, names in PARTS.items():
        if fault not in ALONE and not any(check.startswith(names) for check in found):
            monkeypatch.setattr(f"pacdp.audit.mechanism.of_{part}", lambda *_, **__: ())
    audit = audited(name, **(fault(monkeypatch.setattr) or {}))
    assert found == refuted(audit) if fault in ALONE else found <= refuted(audit)
    assert fault is not a_patient_cut_in_two or moved(audit) > 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Own(Descent):
    """w ← w - lr · made(released sum / B), with no optimizer, after what ``more`` does with the step."""

    learning_rate: float = 0.1
    made: str = "signs"
    more: str = "nothing"

    def optimizer(self, parameters):
        return None

    @torch.no_grad()
    def update(self, step):
        for name, w in step.weights.items():
            match self.more:
                case "the clipped sum":
                    w += 0.1 * step.total[name]
                case "the size of the batch":
                    w *= 1.0 + 0.01 * SIZES[-1]
                case "its own draws":
                    w += 0.01 * step.randomness.noised(torch.zeros_like(w), std=1.0)
        released = step.release(self.noise_at(step.number, step.mechanism))
        for name, w in step.weights.items():
            w -= self.learning_rate * OWN_UPDATES[self.made](released[name] / step.mechanism.expected_batch_size)
        return 0


OWN_UPDATES = {"signs": torch.sign, "a bounded step": lambda g: g / g.norm().clamp(min=0.1)}


@parametrize("name", OWN_UPDATES)
def test_an_update_that_is_post_processing_of_another_kind_is_not_refuted(name):
    audit = audited(Own(made=name), steps=30)
    assert refuted(audit) == set()
    unchecked = {check.name for check in audit.checks if check.unchecked}
    assert unchecked == {row["name"] for row in audit.to_dict()["checks"] if not row["checked"]} == SEEDED


@parametrize("more", ["the clipped sum", "the size of the batch", "its own draws"])
def test_an_update_that_looks_at_more_than_was_released_is_refuted(more, monkeypatch):
    """One that draws numbers of its own cannot be checked, and is said to be unchecked."""
    noting_sizes(monkeypatch.setattr)
    audit = audited(Own(more=more), steps=30)
    found = {check.name: check for check in audit.checks}
    if more == "its own draws":
        assert all(found[name].unchecked and "draws numbers of its own" in found[name].seen for name in WEIGHTS)
    else:
        assert refuted(audit) >= WEIGHTS
