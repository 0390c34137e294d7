"""P3SGD as printed: its divisor and choice by hand, and a study whose sentences can fail."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import Linear
from torch.testing import assert_close
from torch.utils.data import TensorDataset

from experiments.papers.runs.p3sgd_printed import Comparing, PrintedP3SGD, WatchedP3SGD, sides
from pacdp.loop import train
from pacdp.step.mechanism import Mechanism
from pacdp.step.noise import SeededRandomness
from tests.pacdp.toys import seeded

PEOPLE = torch.arange(40) // 4
X = torch.randn(40, 3, generator=seeded(0))
Y = (X[:, 0] > 0).long()


def run(kind, **changes):
    mechanism = Mechanism(clip_norm=0.5, sample_rate=0.5, expected_batch_size=5.0, steps=1)
    settings = kind(**{"mechanism": mechanism, "noise_scales": (1e-6,), "learning_rate": 1.0, "score_bound": 3.0,
                       "local_batch_size": None, "selection_epsilon": 0.3, **changes})  # fmt: skip
    torch.manual_seed(0)
    module = Linear(3, 2)
    start = module.weight.detach().clone()
    loss = nn.CrossEntropyLoss(reduction="none")
    made = train(settings, module, TensorDataset(X, Y), people=PEOPLE, loss=loss, randomness=SeededRandomness(3))
    return settings, made.weights["weight"] - start


def test_the_printed_divisor_is_the_size_of_the_sample_and_not_its_expectation():
    (_, printed), (_, corrected) = run(PrintedP3SGD), run(WatchedP3SGD)
    sampled = len(SeededRandomness(3).batch(10, 0.5))
    assert sampled != 5
    assert_close(printed * sampled, corrected * 5.0, rtol=1e-3, atol=1e-4)


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
    (one, public), (other, same) = (sides(replace(config, seed=seed), None) for seed in (0, 1))
    assert torch.equal(public[0], same[0]), "the public people are nobody's secret and every seed's"
    assert one.people.unique().numel() == 10
    assert int(one.people.bincount().max()) <= 3
    assert not torch.equal(one.people.unique(), other.people.unique())
    rows, tested, of_public = (
        {tuple(row.tolist()) for row in inputs.flatten(1)} for inputs in (one.inputs, one.test_inputs, public[0])
    )
    assert not rows & (tested | of_public)
