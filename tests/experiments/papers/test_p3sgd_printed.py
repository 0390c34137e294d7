"""P3SGD as printed: its divisor and choice by hand, and a study whose sentences can fail."""

import math
from dataclasses import replace

import polars as pl
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from experiments.papers.p3sgd_printed import STUDY
from experiments.papers.runs.p3sgd_printed import Comparing, PrintedP3SGD, WatchedP3SGD, sides
from pacdp.loop import train
from pacdp.step.mechanism import Mechanism
from pacdp.step.noise import SeededRandomness

PEOPLE = torch.arange(40) // 4
X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()


def run(kind, **changes):
    mechanism = Mechanism(clip_norm=0.5, sample_rate=0.5, expected_batch_size=5.0, steps=1)
    settings = kind(**{"mechanism": mechanism, "noise_scales": (1e-6,), "learning_rate": 1.0, "score_bound": 3.0,
                       "local_batch_size": None, "selection_epsilon": 0.3, **changes})  # fmt: skip
    torch.manual_seed(0)
    module = nn.Linear(3, 2)
    start = module.weight.detach().clone()
    loss = nn.CrossEntropyLoss(reduction="none")
    made = train(settings, module, TensorDataset(X, Y), people=PEOPLE, loss=loss, randomness=SeededRandomness(3))
    return settings, made.weights["weight"] - start


def test_the_printed_divisor_is_the_size_of_the_sample_and_not_its_expectation():
    (_, printed), (_, corrected) = run(PrintedP3SGD), run(WatchedP3SGD)
    sampled = len(SeededRandomness(3).batch(10, 0.5))
    assert sampled != 5
    torch.testing.assert_close(printed * sampled, corrected * 5.0, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("nats", [1e-12, 0.3, 8.0])
def test_the_printed_choice_weighs_losses_by_half_of_epsilon_over_their_bound(nats):
    settings, _ = run(PrintedP3SGD, noise_scales=(3.0, 1.0), selection_epsilon=nats)
    (seen,) = settings.seen
    assert 0.5 <= seen.better_probability <= 1.0 / (1.0 + math.exp(-nats / 2.0)) + 1e-9
    if nats > 1.0:
        assert seen.better_probability > 0.501
    assert settings.choice is None, "the accountant is asked for nothing that it could charge"


def test_people_of_a_seed_are_on_one_side_only_and_differ_between_seeds():
    config = Comparing(people=10, each=3, public_people=4)
    found = {seed: sides(replace(config, seed=seed), None) for seed in (0, 1)}
    (one, public), (other, same) = found[0], found[1]
    assert torch.equal(public[0], same[0]), "the public people are nobody's secret and every seed's"
    assert one.people.unique().numel() == 10
    assert int(one.people.bincount().max()) <= 3
    assert not torch.equal(one.people.unique(), other.people.unique())
    rows = {tuple(row.tolist()) for row in one.inputs.flatten(1)}
    assert not rows & {tuple(row.tolist()) for row in one.test_inputs.flatten(1)}
    assert not rows & {tuple(row.tolist()) for row in public[0].flatten(1)}


def planted(**changes: tuple[float, float]) -> pl.DataFrame:
    """Gap and testing accuracy by strategy, in four seeds."""
    usual = {"SGD": (10.0, 80.0), "SGD+Dropout": (8.0, 81.0), "P3SGD, printed": (1.0, 70.0),
             "P3SGD, corrected": (1.0, 75.0), "P3SGD, coin": (1.0, 70.0)}  # fmt: skip
    rows = []
    for seed in range(4):
        for name, (gap, test) in (usual | changes).items():
            two = name.startswith("P3SGD")
            rows.append({"problem": "lungs", "strategy": name, "seed": seed, "gap": gap + 0.1 * seed,
                         "test_accuracy": test + 0.2 * seed, "train_accuracy": gap + test,
                         "noise_scales": "{3, 1}" if two else None, "better_probability": 0.5 if two else None,
                         "quieter_taken": 0.5 if two else None, "standing": None, "step": None,
                         "epsilon": None, "delta": None, "epsilon_lower": None, "contradicted": None})  # fmt: skip
        for step, accuracy in ((0, 90.0), (100, 20.0 + seed)):
            rows.append({**dict.fromkeys(rows[0]), "problem": "mnist", "strategy": "noise alone", "seed": seed,
                         "noise_scales": "{3}", "step": step, "test_accuracy": accuracy})  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)


def held(table: pl.DataFrame, words: str):
    (claim,) = [one for one in STUDY.judge(table, "cpu").claims if words in one.sentence]
    return claim.holds


@pytest.mark.parametrize(
    ("words", "changes", "usual"),
    [
        ("SGD overfits", {"SGD": (1.0, 80.0)}, True),
        ("as printed has a gap", {"P3SGD, printed": (9.0, 70.0)}, True),
        ("printed is more accurate", {"P3SGD, printed": (1.0, 90.0)}, False),
        ("corrected outperforms", {"P3SGD, corrected": (1.0, 90.0)}, False),
        ("is worth 1 point", {"P3SGD, printed": (1.0, 75.0)}, False),
    ],
)
def test_sentences_turn_with_what_they_speak_of(words, changes, usual):
    assert held(planted(), words) is usual
    assert held(planted(**changes), words) is (not usual)


def test_a_lead_of_less_than_a_point_is_no_lead_and_noise_that_destroys_is_told():
    assert held(planted(**{"P3SGD, corrected": (1.0, 81.5)}), "corrected outperforms") is False
    assert held(planted(), "A trained network keeps its accuracy") is False
