"""A flat vector holds every parameter once, and its views share its memory."""

import torch
from torch import nn
from toys import seeded

from pacdp.chains import Layout
from pacdp.models import Architecture, build
from tests.pacdp.marks import every_case


class Odd(nn.Module):
    """Parameters of all shapes, one of them a number, a linear layer in a nest and attention."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.nest = nn.Sequential(nn.Sequential(nn.Linear(4, 3, bias=False)), nn.Conv2d(1, 2, 3))
        self.attention = nn.MultiheadAttention(4, 2)
        self.norm = nn.LayerNorm(4)


NETWORKS = {
    "odd": Odd,
    "linear": lambda: nn.Linear(4, 2).double(),
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
        assert torch.equal(views[own], parameter)
        assert views[own].dtype == flat.dtype == parameter.dtype
    assert torch.equal(layout.flatten(views), flat)
    for view in views.values():
        view += 1
    assert torch.equal(flat, layout.of(model) + 1)


def test_the_weights_of_linear_layers_lie_input_major():
    model = nn.Sequential(nn.Linear(4, 2))
    layout = Layout(model)
    flat = layout.of(model)
    assert torch.equal(flat[:8].reshape(4, 2), model[0].weight.t())
    assert layout.views(flat)["0.weight"].t().is_contiguous()
    assert torch.equal(flat[8:], model[0].bias)
