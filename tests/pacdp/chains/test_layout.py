"""A flat vector holds every parameter once, and its views share its memory."""

import torch
from torch import equal
from torch.nn import Conv2d, LayerNorm, Linear, Module, MultiheadAttention, Parameter, Sequential
from toys import seeded

from pacdp.chains import Layout
from pacdp.models import Architecture, build
from tests.marks import every_case


class Odd(Module):
    """Parameters of all shapes, one of them a number, a linear layer in a nest and attention."""

    def __init__(self):
        super().__init__()
        self.scale = Parameter(torch.tensor(2.0))
        self.nest = Sequential(Sequential(Linear(4, 3, bias=False)), Conv2d(1, 2, 3))
        self.attention = MultiheadAttention(4, 2)
        self.norm = LayerNorm(4)


NETWORKS = {
    "odd": Odd,
    "linear": lambda: Linear(4, 2).double(),
    "conv": lambda: build(Architecture(name="conv"), input_shape=(1, 28, 28), classes=3, generator=seeded(0)),
}


@every_case("name", NETWORKS)
def test_a_flat_copy_holds_every_parameter_once_and_its_views_share_its_memory(name):
    model = NETWORKS[name]()
    layout = Layout(model)
    flat = layout.of(model)
    assert flat.shape == (layout.dim,) == (sum(p.numel() for p in model.parameters()),)
    assert not flat.requires_grad
    views = layout.views(flat)
    assert list(views) == [n for n, _ in model.named_parameters()]
    for own, parameter in model.named_parameters():
        assert equal(views[own], parameter)
        assert views[own].dtype == flat.dtype == parameter.dtype
    assert equal(layout.flatten(views), flat)
    for view in views.values():
        view += 1
    assert equal(flat, layout.of(model) + 1)


def test_the_weights_of_linear_layers_lie_input_major():
    model = Sequential(Linear(4, 2))
    layout = Layout(model)
    flat = layout.of(model)
    assert equal(flat[:8].reshape(4, 2), model[0].weight.t())
    assert layout.views(flat)["0.weight"].t().is_contiguous()
    assert equal(flat[8:], model[0].bias)
