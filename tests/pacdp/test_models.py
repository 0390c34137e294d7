"""Networks have the paper's sizes, depend on their generator alone, and judge each example by itself."""

import torch
from toys import seeded

from pacdp.models import Architecture, batch_dependent_layers, build
from tests.marks import every_case, parametrize

IMAGE = (1, 28, 28)

CONVOLUTIONS = 20 * (25 + 1) + 50 * (20 * 25 + 1) + 500 * (200 + 1)
SIZES = [
    (Architecture(name="conv"), 2, CONVOLUTIONS + 501),
    (Architecture(name="conv", norm="batch"), 2, CONVOLUTIONS + 501 + 2 * 70),
    (Architecture(name="conv", norm="group"), 10, CONVOLUTIONS + 10 * 501 + 2 * 70),
    (Architecture(name="fc600"), 2, 832_201),
    (Architecture(name="fc1200"), 2, 2_384_401),
    (Architecture(name="fc", hidden=(3,)), 4, 3 * 785 + 4 * 4),
]


@every_case(("architecture", "classes", "count"), SIZES)
def test_parameter_counts(architecture, classes, count):
    model = build(architecture, input_shape=IMAGE, classes=classes, generator=seeded(0))
    assert sum(parameter.numel() for parameter in model.parameters()) == count
    assert bool(batch_dependent_layers(model)) == (architecture.norm == "batch")
    assert model(torch.zeros(4, *IMAGE)).shape == (4, 1 if classes == 2 else classes)


@parametrize(("name", "norm"), [("fc", "none"), ("conv", "batch"), ("conv", "group")])
def test_weights_come_from_the_generator_alone(name, norm):
    before = torch.get_rng_state()
    first, again, other = (
        build(Architecture(name=name, norm=norm), input_shape=IMAGE, classes=2, generator=seeded(seed)).state_dict()
        for seed in (3, 3, 4)
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first[next(iter(first))], other[next(iter(other))])
    assert all(torch.isfinite(tensor).all() for tensor in first.values())


def test_first_weights_fill_the_interval_of_one_over_root_fan_in():
    model = build(Architecture(hidden=(50, 40)), input_shape=(100,), classes=2, generator=seeded(0))
    for layer, fan_in in zip(model[1::2], (100, 50, 40), strict=True):
        for parameter in layer.parameters():
            assert parameter.abs().max() <= fan_in**-0.5
        assert layer.weight.abs().max() > 0.9 * fan_in**-0.5


@parametrize("width", [2, 5, 100])
def test_group_norm_does_not_erase_the_input(width):
    model = build(Architecture(hidden=(width,), norm="group"), input_shape=(8,), classes=2, generator=seeded(0))
    assert model(torch.randn(64, 8, generator=seeded(1))).std() > 1e-3
