"""A flat vector holds every parameter once, and its views share its memory."""

import pytest
import torch
from torch import nn
from toys import seeded

from pacdp.chains import Layout
from pacdp.models import Architecture, build


class Odd(nn.Module):
    """Parameters of all shapes, one of them a number, a linear layer in a nest and attention."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.nest = nn.Sequential(nn.Sequential(nn.Linear(4, 3, bias=False)), nn.Conv2d(1, 2, 3))
        self.attention = nn.MultiheadAttention(4, 2)
        self.norm = nn.LayerNorm(4)


def network(name: str) -> nn.Module:
    if name == "odd":
        return Odd()
    if name == "linear":
        return nn.Linear(4, 2)
    return build(Architecture(name=name), input_shape=(1, 28, 28), classes=3, generator=seeded(0))


NETWORKS = ["fc", "conv", "odd", "linear"]


@pytest.mark.parametrize("name", NETWORKS)
def test_views_of_the_flat_vector_are_the_parameters(name: str) -> None:
    model = network(name)
    layout = Layout(model)
    flat = layout.of(model)
    assert flat.shape == (layout.dim,) == (sum(p.numel() for p in model.parameters()),)
    views = layout.views(flat)
    for parameter_name, parameter in model.named_parameters():
        assert torch.equal(views[parameter_name], parameter)
    assert list(views) == [n for n, _ in model.named_parameters()]
    assert torch.equal(layout.flatten(views), flat)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_views_share_memory_and_cover_each_number_once(name: str, batch: tuple[int, ...]) -> None:
    layout = Layout(network(name))
    flat = torch.zeros(*batch, layout.dim)
    for view in layout.views(flat).values():
        assert view.shape[: len(batch)] == batch
        view += 1
    assert torch.equal(flat, torch.ones_like(flat))


def test_chains_do_not_mix() -> None:
    layout = Layout(network("odd"))
    flat = torch.randn(3, layout.dim, generator=seeded(1))
    together = layout.views(flat)
    for k in range(3):
        for name, view in layout.views(flat[k]).items():
            assert torch.equal(together[name][k], view)


def test_the_weights_of_linear_layers_lie_input_major() -> None:
    model = nn.Sequential(nn.Linear(4, 2))
    layout = Layout(model)
    flat = layout.of(model)
    assert torch.equal(flat[:8].reshape(4, 2), model[0].weight.t())
    assert layout.views(flat)["0.weight"].t().is_contiguous()
    assert torch.equal(flat[8:], model[0].bias)


def test_flat_vectors_are_copies() -> None:
    model = nn.Linear(2, 1)
    flat = Layout(model).of(model)
    assert not flat.requires_grad
    before = flat.clone()
    flat += 1
    assert torch.equal(Layout(model).of(model), before)


def test_precision_is_kept() -> None:
    model = nn.Linear(2, 1).double()
    assert Layout(model).of(model).dtype == torch.float64


@pytest.mark.parametrize("fault", ["missing", "shape", "transposed", "empty"])
def test_other_parameters_are_refused(fault: str) -> None:
    model = nn.Linear(3, 2)
    named = dict(model.named_parameters())
    if fault in ("missing", "empty"):
        del named["weight"]
    if fault == "empty":
        named.clear()
    if fault in ("shape", "transposed"):
        named["weight"] = torch.zeros(3, 2) if fault == "transposed" else torch.zeros(2, 4)
    with pytest.raises(ValueError, match=r"expected parameter weight of shape \(2, 3\), got (nothing|\()"):
        Layout(model).flatten(named)
