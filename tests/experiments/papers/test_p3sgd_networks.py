"""DropBlock's law, dropout's places, first weights, configurations as JSON, data split by person."""

import json

import pytest
import torch
from torch import nn

from experiments.papers.runs.p3sgd import (
    Attack,
    DropBlock,
    DropBlock2d,
    Dropout,
    Network,
    Plain,
    Private,
    Training,
    maps,
    network,
    regularised,
)
from pacdp.cli.private.config import Budget, Sampling
from pacdp.cli.private.methods import P3SGD, UserDPSGD
from pacdp.cli.serial import from_dict, to_dict


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("rate", "size", "side"), [(0.3, 3, 7), (0.1, 2, 5), (0.3, 1, 6), (0.2, 9, 4)])
def test_dropblock_drops_squares_of_the_stated_law(rate, size, side):
    """A number survives if no square that covers it was drawn: (1 - γ)^(number of places whose square covers it)."""
    layer, block = DropBlock2d(rate, size, generator=generator()), min(size, side)
    out = layer(torch.ones(400, 20, side, side))
    kept = (out > 0).double()
    places = side - block + 1
    gamma = rate / block**2 * side**2 / places**2
    covering = torch.tensor([min(k, places - 1) - max(0, k - block + 1) + 1 for k in range(side)], dtype=torch.float64)
    law = (1.0 - gamma) ** torch.outer(covering, covering)
    torch.testing.assert_close(kept.mean((0, 1)), law, atol=5 * 0.5 / 8000**0.5, rtol=0.0)
    # no more is dropped than asked for, since squares overlap, and what is left is scaled to keep the sum
    assert 0.7 * rate < 1.0 - float(kept.mean()) < rate + 0.01
    assert float(out.sum()) == pytest.approx(out.numel(), rel=1e-4)
    # every zero lies in a whole square of zeros
    zero = 1.0 - kept
    whole = -nn.functional.max_pool2d(-zero, block, stride=1)
    covered = nn.functional.max_pool2d(nn.functional.pad(whole, (block - 1,) * 4), block, stride=1)
    assert torch.equal(covered, zero)


def test_dropblock_does_nothing_when_deployed_and_refuses_nonsense():
    layer, x = DropBlock2d(0.5, 3, generator=generator()), torch.rand(2, 3, 6, 6, generator=generator(1))
    assert torch.equal(layer.eval()(x), x)
    assert torch.equal(DropBlock2d(0.0, 3, generator=generator())(x), x)
    first, second = (DropBlock2d(0.5, 3, generator=generator(k))(x) for k in (5, 5))
    assert torch.equal(first, second)
    with pytest.raises(ValueError, match="rate"):
        DropBlock2d(1.0, 3, generator=generator())
    with pytest.raises(ValueError, match="block_size"):
        DropBlock2d(0.1, 0, generator=generator())


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (1, 50, 50), (1, 64, 64), (3, 32, 32), (1, 224, 224)])
@pytest.mark.parametrize("hidden", [0, 16])
def test_networks_take_every_data_set_and_dropblock_sees_maps_of_use(shape, hidden):
    layers = network(Network(width=4, hidden=hidden), shape, 3, generator=generator())
    x = torch.rand(2, *shape, generator=generator(1))
    assert layers(x).shape == (2, 3)
    seen = maps(layers)(x)
    assert seen.shape[:2] == (2, 8)
    assert 4 <= seen.shape[-1] <= 14
    with pytest.raises(ValueError, match="8x8"):
        network(Network(width=4), (58,), 2, generator=generator())


def test_regularisers_share_weights_and_stand_behind_activations():
    layers = network(Network(width=4, hidden=8), (1, 28, 28), 10, generator=generator())
    linear = network(Network(), (58,), 2, generator=generator())
    assert regularised(layers, None, generator=generator()) is layers
    kinds = [[type(layer).__name__ for layer in regularised(net, how, generator=generator())]
             for net, how in ((layers, Dropout()), (layers, DropBlock()), (linear, Dropout()))]  # fmt: skip
    assert [a for a, b in zip(kinds[0][:-1], kinds[0][1:], strict=True) if b == "ExampleDropout"] == ["Tanh"] * 3
    assert [a for a, b in zip(kinds[1][:-1], kinds[1][1:], strict=True) if b == "DropBlock2d"] == ["Tanh"] * 2
    assert kinds[2] == ["Flatten", "ExampleDropout", "Linear"]
    noisy = regularised(layers, DropBlock(), generator=generator())
    assert {id(p) for p in noisy.parameters()} == {id(p) for p in layers.parameters()}
    x = torch.rand(3, 1, 28, 28, generator=generator(1))
    assert not torch.equal(noisy(x), layers(x))
    assert torch.equal(noisy.eval()(x), layers(x))


@pytest.mark.parametrize("strategy", [
    Plain(), Plain(regulariser=Dropout(rate=0.2)), Plain(regulariser=DropBlock(block_size=5)),
    Private(method=P3SGD(noise_scales=(2.0, 1.0)), sampling=Sampling(), budget=Budget()),
    Private(method=UserDPSGD(), sampling=Sampling(), budget=Budget()),
])  # fmt: skip
@pytest.mark.parametrize("attack", [None, Attack(images=3)])
def test_configurations_come_back_from_json(strategy, attack):
    config = Training(network=Network(width=4), strategy=strategy, attack=attack)
    assert from_dict(Training, json.loads(json.dumps(to_dict(config)))) == config


def test_configurations_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="DropBlock"):
        Training(strategy=Plain(regulariser=DropBlock()))
    with pytest.raises(ValueError, match="spots"):
        Training(dataset="malaria", features="spots", network=Network(width=4))
    with pytest.raises(ValueError, match="records"):
        Training(records=0)
    values = to_dict(Training())
    with pytest.raises(ValueError, match="not the configuration"):
        from_dict(Training, values | {"unknown": 1})
