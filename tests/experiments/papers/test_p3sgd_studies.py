"""P3SGD's runs: DropBlock's law, dropout's places, first weights, the printed divisor and choice by hand, people on one
side of a split only, and the paper's accounting."""

import math
from dataclasses import replace

import pytest
import torch
from tiny_runs import RUNTIME
from torch import nn
from torch.nn import Linear
from torch.testing import assert_close
from torch.utils.data import TensorDataset

from experiments.runs.p3sgd import (
    ACTIVATIONS,
    TRAINING,
    Network,
    Plain,
    Training,
    drop_blocks,
    network,
    regularised,
)
from experiments.runs.p3sgd_printed import Comparing, PrintedP3SGD, sides
from pacdp.algorithms.p3sgd import P3SGD
from pacdp.loop import train
from pacdp.step.mechanism import Mechanism
from pacdp.step.noise import SeededRandomness
from tests.marks import near, parametrize
from tests.pacdp.toys import seeded

PEOPLE = torch.arange(40) // 4
X = torch.randn(40, 3, generator=seeded(0))
Y = (X[:, 0] > 0).long()
CLASSES = torch.arange(3)


@parametrize(("rate", "size", "side"), [(0.3, 3, 7), (0.1, 2, 5), (0.3, 1, 6), (0.2, 9, 4)])
def test_dropblock_drops_squares_of_the_stated_law(rate, size, side):
    """A number survives if no square that covers it was drawn: (1 - γ)^(number of places whose square covers it)."""
    block = min(size, side)
    out = drop_blocks(torch.ones(400, 20, side, side), rate=rate, size=size, generator=seeded())
    kept = (out > 0).double()
    places = side - block + 1
    gamma = rate / block**2 * side**2 / places**2
    covering = torch.tensor([min(k, places - 1) - max(0, k - block + 1) + 1 for k in range(side)], dtype=torch.float64)
    law = (1.0 - gamma) ** torch.outer(covering, covering)
    assert_close(kept.mean((0, 1)), law, atol=5 * 0.5 / 8000**0.5, rtol=0.0)
    # no more is dropped than asked for, since squares overlap, and what is left is scaled to keep the sum
    assert 0.7 * rate < 1.0 - float(kept.mean()) < rate + 0.01
    assert float(out.sum()) == near(out.numel(), rel=1e-4)
    # every zero lies in a whole square of zeros
    zero = 1.0 - kept
    whole = -nn.functional.max_pool2d(-zero, block, stride=1)
    covered = nn.functional.max_pool2d(nn.functional.pad(whole, (block - 1,) * 4), block, stride=1)
    assert torch.equal(covered, zero)


@parametrize("shape", [(1, 8, 8), (1, 28, 28), (1, 50, 50), (1, 64, 64), (3, 32, 32), (1, 224, 224)])
@parametrize("hidden", [0, 16])
def test_networks_take_every_data_set_and_dropblock_sees_maps_of_use(shape, hidden):
    x = torch.rand(2, *shape, generator=seeded(1))
    layers = network(Network(width=4, hidden=hidden), x, CLASSES, generator=seeded())
    assert layers(x).shape == (2, 3)
    seen = layers[: max(ACTIVATIONS) + 1](x)
    assert seen.shape[:2] == (2, 8)
    assert 4 <= seen.shape[-1] <= 14
    assert all(isinstance(layers[k], nn.Tanh) and isinstance(layers[k - 1], nn.Conv2d) for k in ACTIVATIONS)


def test_regularisers_drop_behind_activations_and_at_the_inputs_of_a_linear_layer():
    x = torch.rand(3, 1, 28, 28, generator=seeded(1))
    layers = network(Network(width=4, hidden=8), x, CLASSES, generator=seeded())
    assert torch.equal(regularised(layers, "", 0.3, generator=seeded())(x), layers(x))
    given, made = {}, {}
    for k, layer in enumerate(layers):
        layer.register_forward_hook(lambda _, x, y, k=k: (given.update({k: x[0]}), made.update({k: y}), None)[2])
    for how, behind in (("Dropout", [1, 4, 8]), ("DropBlock", [1, 4])):
        out = regularised(layers, how, 0.3, generator=seeded())(x)
        assert [k for k in range(len(layers) - 1) if not torch.equal(made[k], given[k + 1])] == behind
        assert not torch.equal(out, layers(x))
    linear = network(Network(), torch.rand(4, 58), CLASSES, generator=seeded())
    assert not any(float(p.detach().abs().max()) for p in linear.parameters())


def run(kind, **changes):
    mechanism = Mechanism(clip_norm=0.5, sample_rate=0.5, expected_batch_size=5.0, steps=1)
    settings = kind(**{"noise_scales": (1e-6,), "learning_rate": 1.0, "selection_epsilon": 0.3, **changes})
    torch.manual_seed(0)
    module = Linear(3, 2)
    start = module.weight.detach().clone()
    loss = nn.CrossEntropyLoss(reduction="none")
    made = train(settings, module, TensorDataset(X, Y), mechanism=mechanism, people=PEOPLE, loss=loss,
                 randomness=SeededRandomness(3))  # fmt: skip
    return settings, made.weights["weight"] - start


def test_the_printed_divisor_is_the_size_of_the_sample_and_not_its_expectation():
    (_, printed), (_, corrected) = run(PrintedP3SGD), run(P3SGD)
    sampled = len(SeededRandomness(3).batch(10, 0.5))
    assert sampled != 5
    assert_close(printed * sampled, corrected * 5.0, rtol=1e-3, atol=1e-4)


@parametrize("nats", [1e-12, 0.3, 8.0])
def test_the_printed_choice_weighs_losses_by_half_of_epsilon_over_their_bound(nats):
    settings, _ = run(PrintedP3SGD, noise_scales=(3.0, 1.0), selection_epsilon=nats)
    (better,) = settings.choices
    assert 0.5 <= better <= 1.0 / (1.0 + math.exp(-nats / 2.0)) + 1e-9
    if nats > 1.0:
        assert better > 0.501
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


def test_a_run_that_diverges_is_an_error_and_no_row(tmp_path):
    config = Training(network=Network(width=4), strategy=Plain(epochs=2, learning_rate=1e30))
    with pytest.raises((ValueError, RuntimeError), match=r"not finite|NaN"):
        TRAINING.carry_out(config, tmp_path / "run", RUNTIME)
