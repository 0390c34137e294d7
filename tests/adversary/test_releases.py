"""Private training keeps its epsilon against the best attack on what it releases; less noise than is said is found."""

import numpy as np
import torch

from pacdp.opacus.loader import Epoch
from pacdp.private import SeededRandomness
from tests.adversary.releases import (
    HABITS,
    LEVEL,
    Habit,
    attacked,
    refuted,
    trained,
    watched_head,
    watched_once_an_epoch,
)
from tests.marks import every_case, parametrize


@every_case("name", HABITS)
def test_no_attack_refutes_the_epsilon_that_is_printed(name, whole):
    runs = 20 if whole else 1
    for seed in range(runs):
        found = attacked(name, seed, LEVEL / (len(HABITS) * runs))
        assert not found, f"run {seed} of {name}: {found}"


@parametrize("name", ["a row of one's own", "small noise", "people who share inputs"])
def test_less_noise_than_is_said_is_refuted(name, monkeypatch):
    right = SeededRandomness.noised
    monkeypatch.setattr(
        SeededRandomness, "noised", lambda self, total, *, std: right(self, total, std=0.7 * std))  # fmt: skip
    assert attacked(name, 0, LEVEL / len(HABITS))


def attacked_once_an_epoch(**options):
    member = np.random.default_rng(5).random(4000) < 0.5
    statistic, event = watched_once_an_epoch(member, 1, **options)
    return refuted(Habit(steps=1), statistic, member, event, LEVEL)


def less_noise(monkeypatch):
    right = SeededRandomness.noised
    monkeypatch.setattr(SeededRandomness, "noised", lambda self, x, *, std: right(self, x, std=0.8 * std))


def the_places_of_the_first_epoch(monkeypatch):
    right = SeededRandomness.places

    def first(self, n, batches):
        if not hasattr(self, "kept"):
            self.kept = right(self, n, batches)
        return self.kept

    monkeypatch.setattr(SeededRandomness, "places", first)


def epochs_that_count_at_their_end(monkeypatch):
    monkeypatch.setattr(Epoch, "begins", property(lambda self: self.used == 4))


ONCE = {
    "noise": (less_noise, {}),
    "places": (the_places_of_the_first_epoch, {"same": True}),
    "count": (epochs_that_count_at_their_end, {"steps": 3, "noise": 1.0}),
}


@parametrize("name", ONCE)
def test_once_an_epoch_no_attack_refutes_epsilon_and_each_planted_fault_is_found(name, monkeypatch):
    plant, options = ONCE[name]
    assert not attacked_once_an_epoch(**options)
    plant(monkeypatch)
    assert attacked_once_an_epoch(**options)


@parametrize("fault", ["too little noise", "all iterates"])
def test_no_attack_on_a_head_refutes_the_epsilon_of_its_last_iterate_and_each_planted_fault_is_found(
    fault, monkeypatch
):
    member = np.random.default_rng(5).random(1000) < 0.5
    last, every, event = watched_head(member, 0)
    assert not refuted(Habit(steps=1), last, member, event, LEVEL)
    if fault == "too little noise":
        right = SeededRandomness.noised
        monkeypatch.setattr(SeededRandomness, "noised", lambda self, x, *, std: right(self, x, std=0.4 * std))
        every, _, _ = watched_head(member, 0)
    assert refuted(Habit(steps=1), every, member, event, LEVEL)


def moved_by(unit, *, steps=3, people=False):
    """How far a unit moves what is released: with and without it, at the same noise. Others are all the same."""

    def run(tokens, targets):
        whose = torch.arange(len(tokens)).clamp(max=9)
        made = trained(Habit(steps=steps, records=int(people)), 4, tokens, targets, whose, 1)
        return made.weights["words.weight"]

    tokens, targets = torch.zeros(9, 1, dtype=torch.long), torch.full((9,), 2.0)
    own = (torch.tensor([[row] for row, _ in unit]), torch.tensor([float(target) for _, target in unit]))
    without, with_it = (run(tokens, targets), run(torch.cat([tokens, own[0]]), torch.cat([targets, own[1]])))
    return float((with_it - without).norm()) / steps


@parametrize(
    ("unit", "people"),
    [([(0, 2.0)], False), ([(1, 1e30)], False), ([(0, float("nan"))], False), ([(2, float("-inf"))], False),
     ([(1, 3e38)], False), ([(0, 5.0), (1, 5.0), (2, 5.0)], True), ([(0, float("nan")), (1, 9.0)], True),
     ([(k % 4, 1e20) for k in range(40)], True)],
)  # fmt: skip
def test_a_unit_moves_a_release_by_the_norm_at_most(unit, people):
    assert moved_by(unit, people=people) <= 1 + 1e-4
