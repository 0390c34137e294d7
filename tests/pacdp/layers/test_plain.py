"""Layers with anything attached are not plain; other weights stand in for a network's own and leave no trace."""

import copy

import torch
from small_networks import reused, tied
from torch import nn
from torch.nn import Linear, ReLU, Sequential

from pacdp.layers.plain import call_with, is_plain, is_plain_linear, repeats_itself
from tests.marks import parametrize


def shared_within():
    """A network inside twice, and a weight that a third layer shares with it."""
    inner = Sequential(Linear(6, 6), nn.BatchNorm1d(6))
    module = Sequential(inner, nn.Tanh(), inner, Linear(6, 6))
    module[3].weight = inner[0].weight
    return module.eval()


@parametrize(
    "build_one", [reused, tied, shared_within, lambda: Linear(6, 3)], ids=["reused", "tied", "shared within", "plain"]
)
def test_other_weights_are_used_everywhere_and_come_back_out(build_one):
    """functional_call alone leaves its tensors in a layer that the network holds twice."""
    torch.manual_seed(0)
    module, x = build_one(), torch.randn(5, 6)

    def objects():
        return {name: id(p) for name, p in module.named_parameters(remove_duplicate=False)}

    before, own = module(x), objects()
    other = {name: torch.randn(p.shape) for name, p in module.named_parameters()}
    buffers = {name: value.clone() for name, value in module.named_buffers()}
    twin = copy.deepcopy(module)
    for name, value in other.items():
        twin.get_parameter(name).data.copy_(value)
    for _ in range(2):
        assert torch.equal(call_with(module, {**other, **buffers}, x), twin(x))
        assert torch.equal(module(x), before)
        assert objects() == own
        assert all(isinstance(p, nn.Parameter) for p in module.parameters())


def test_a_layer_is_plain_if_nothing_was_attached_to_it():
    assert is_plain_linear(Linear(3, 2))
    assert not is_plain(nn.ReLU6(), ReLU)
    for attach in (
        lambda m: m.register_full_backward_hook(lambda *a: None),
        lambda m: m.register_buffer("more", torch.ones(1)),
        lambda m: m.add_module("more", ReLU()),
        lambda m: setattr(m, "_call_impl", torch.sin),
        lambda m: setattr(m, "weight", nn.Parameter(torch.ones(5, 3))),
        lambda m: delattr(m, "bias"),
    ):
        layer = Linear(3, 2)
        attach(layer)
        assert not is_plain_linear(layer)


class Strange(torch.Tensor):
    """A kind of tensor whose products may be anything."""


def test_a_layer_whose_class_computes_otherwise_does_not_repeat_itself(monkeypatch):
    assert repeats_itself(nn.Tanh().eval())
    monkeypatch.setattr(nn.Tanh, "forward", lambda self, x: x - x.mean(0))
    assert not repeats_itself(nn.Tanh().eval())


def test_what_may_compute_otherwise_at_another_pass_does_not_repeat_itself():
    def network(*more):
        return nn.Sequential(nn.Linear(3, 2), nn.GELU(), *more).eval()

    class Counting(nn.Linear):
        pass

    hooked, replaced, drawing = network(), network(), network(nn.Dropout())
    hooked[0].register_forward_hook(lambda *_: None)
    replaced[0].forward = lambda x: x[:, :2]
    drawing[2].train()
    pruned = network()
    nn.utils.parametrizations.weight_norm(pruned[0])
    activated = nn.TransformerEncoderLayer(4, 2, activation=torch.sin).eval()
    strange = network()
    strange[0].weight = torch.nn.Parameter(torch.randn(2, 3).as_subclass(Strange))
    others = (strange, network(nn.RNN(2, 2)), network(nn.Softmax(dim=None)), network(Counting(2, 2)), network().train())
    assert repeats_itself(network())
    assert repeats_itself(network(nn.Dropout(), nn.ReLU()))
    for other in (hooked, replaced, drawing, pruned, activated, *others, len):
        assert not repeats_itself(other)
