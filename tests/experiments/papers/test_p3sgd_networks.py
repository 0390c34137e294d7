"""DropBlock's law, dropout's places, first weights, configurations as JSON, data split by person."""

from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from experiments.papers.runs.p3sgd import (
    DropBlock,
    DropBlock2d,
    Dropout,
    Network,
    maps,
    network,
    regularised,
)
from tests.marks import refusal
from tests.pacdp.toys import seeded


@pytest.mark.parametrize(("rate", "size", "side"), [(0.3, 3, 7), (0.1, 2, 5), (0.3, 1, 6), (0.2, 9, 4)])
def test_dropblock_drops_squares_of_the_stated_law(rate, size, side):
    """A number survives if no square that covers it was drawn: (1 - γ)^(number of places whose square covers it)."""
    layer, block = DropBlock2d(rate, size, generator=seeded()), min(size, side)
    out = layer(torch.ones(400, 20, side, side))
    kept = (out > 0).double()
    places = side - block + 1
    gamma = rate / block**2 * side**2 / places**2
    covering = torch.tensor([min(k, places - 1) - max(0, k - block + 1) + 1 for k in range(side)], dtype=torch.float64)
    law = (1.0 - gamma) ** torch.outer(covering, covering)
    assert_close(kept.mean((0, 1)), law, atol=5 * 0.5 / 8000**0.5, rtol=0.0)
    # no more is dropped than asked for, since squares overlap, and what is left is scaled to keep the sum
    assert 0.7 * rate < 1.0 - float(kept.mean()) < rate + 0.01
    assert float(out.sum()) == pytest.approx(out.numel(), rel=1e-4)
    # every zero lies in a whole square of zeros
    zero = 1.0 - kept
    whole = -nn.functional.max_pool2d(-zero, block, stride=1)
    covered = nn.functional.max_pool2d(nn.functional.pad(whole, (block - 1,) * 4), block, stride=1)
    assert torch.equal(covered, zero)


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (1, 50, 50), (1, 64, 64), (3, 32, 32), (1, 224, 224)])
@pytest.mark.parametrize("hidden", [0, 16])
def test_networks_take_every_data_set_and_dropblock_sees_maps_of_use(shape, hidden):
    layers = network(Network(width=4, hidden=hidden), shape, 3, generator=seeded())
    x = torch.rand(2, *shape, generator=seeded(1))
    assert layers(x).shape == (2, 3)
    seen = maps(layers)(x)
    assert seen.shape[:2] == (2, 8)
    assert 4 <= seen.shape[-1] <= 14
    with refusal("8x8"):
        network(Network(width=4), (58,), 2, generator=seeded())


def test_regularisers_share_weights_and_stand_behind_activations():
    layers = network(Network(width=4, hidden=8), (1, 28, 28), 10, generator=seeded())
    linear = network(Network(), (58,), 2, generator=seeded())
    assert regularised(layers, None, generator=seeded()) is layers

    def kinds(net, how):
        return [type(layer).__name__ for layer in regularised(net, how, generator=seeded())]

    for how, name, count in ((Dropout(), "ExampleDropout", 3), (DropBlock(), "DropBlock2d", 2)):
        assert [a for a, b in pairwise(kinds(layers, how)) if b == name] == ["Tanh"] * count
    assert kinds(linear, Dropout()) == ["Flatten", "ExampleDropout", "Linear"]
    noisy = regularised(layers, DropBlock(), generator=seeded())
    assert {id(p) for p in noisy.parameters()} == {id(p) for p in layers.parameters()}
    x = torch.rand(3, 1, 28, 28, generator=seeded(1))
    assert not torch.equal(noisy(x), layers(x))
    assert torch.equal(noisy.eval()(x), layers(x))
