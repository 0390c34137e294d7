"""The compiled engine is taken for the layers that it knows and for no others."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import Conv2d, Flatten, GroupNorm, Identity, Linear, MaxPool2d, Parameter, ReLU, Sequential, Tanh
from torch.nn.utils import prune
from torch.testing import assert_close
from toys import dtypes, sparse_data, toy_data

from pacdp.chains import resident
from pacdp.chains.native import clipped
from pacdp.chains.native.convolution import ConvLayer
from pacdp.chains.native.dense import DenseLayer
from pacdp.chains.native.network import NativeNetwork, supports
from pacdp.chains.network import LoopedNetwork, VmappedNetwork
from pacdp.losses import bounded_cross_entropy
from tests.marks import every_case, parametrize
from tests.pacdp.draws import randn
from tests.pacdp.small_networks import slopes
from tests.pacdp.toys import pair

BATCH = 11
INPUTS = randn(20, 1, 6, 6, seed=1)

NOT_COMPILED = {
    "no bias": (Sequential(Linear(5, 1, bias=False)), (5,)),
    "nested": (Sequential(Sequential(Linear(5, 1))), (5,)),
    "no sequence": (Linear(5, 1), (5,)),
    "another activation": (Sequential(Linear(5, 4), Tanh(), Linear(4, 1)), (5,)),
    "first ReLU": (Sequential(ReLU(), Linear(5, 1)), (5,)),
    "subclass": (Sequential(type("Own", (Linear,), {})(5, 1)), (5,)),
    "empty": (Sequential(Flatten()), (5,)),
    "linear on the last of two axes": (Sequential(Linear(5, 4), Flatten(), Linear(12, 1)), (3, 5)),
    "shared": ((lambda layer: Sequential(layer, ReLU(), layer))(Linear(5, 5)), (5,)),
    "partly flattened": (Sequential(Flatten(2), Linear(5, 1)), (3, 5)),
}


def changed(change=len, seed=0):
    torch.manual_seed(seed)
    module = Sequential(
        Conv2d(1, 3, 3), ReLU(), MaxPool2d(2), Flatten(), Identity(), Linear(12, 8), ReLU(), Linear(8, 3)
    )
    change(module)
    return module.eval()


def remove_pruning(module):
    """Leaves plain layers whose parameters stand in another order."""
    prune.remove(prune.l1_unstructured(module[5], "weight", amount=0.5), "weight")


def of_its_own(index, function):
    def change(module):
        module[index].forward = function

    return change


def subclass(index, **members):
    def change(module):
        module[index].__class__ = type("Own", (type(module[index]),), members)

    return change


def doubled(layer, args, output=None):
    return 2 * (args[0] if output is None else output)


CHANGED = {
    "pruned": lambda m: prune.l1_unstructured(m[5], "weight", amount=0.5),
    "pruning made permanent": remove_pruning,
    "spectral norm by hook": lambda m: nn.utils.spectral_norm(m[5]),
    "weight norm": lambda m: nn.utils.parametrizations.weight_norm(m[0]),
    "forward hook": lambda m: m[5].register_forward_hook(doubled),
    "hook of an identity": lambda m: m[4].register_forward_hook(doubled),
    "hook of the flattening": lambda m: m[3].register_forward_pre_hook(doubled),
    "hook of the network": lambda m: m.register_forward_hook(doubled),
    "hook in the backward pass": lambda m: m[5].register_full_backward_hook(lambda layer, by, of: (2 * by[0],)),
    "a forward of its own": of_its_own(6, torch.tanh),
    "an identity with a forward of its own": of_its_own(4, torch.sin),
    "an identity of another kind": subclass(4, forward=lambda self, x: x.square()),
    "a flattening of another kind": subclass(3, forward=lambda self, x: x.flatten(1).flip(1)),
    "a parameter of the network": lambda m: m.register_parameter("scale", Parameter(torch.ones(1))),
    "a layer inside a layer": lambda m: m[5].add_module("more", Linear(2, 2)),
    "another kernel size": lambda m: setattr(m[0], "weight", Parameter(torch.randn(3, 1, 1, 1) + 1)),
    "a padding set later": lambda m: setattr(m[2], "ceil_mode", True),
}


@every_case("name", CHANGED)
def test_layers_that_are_not_what_their_types_say_are_left_to_autograd(name):
    """As a hook that changes gradients alone shows, outputs would not tell."""
    assert supports(changed(), INPUTS)
    assert not supports(changed(CHANGED[name]), INPUTS[:, :, :4, :4] if "kernel" in name else INPUTS)


@parametrize("name", [name for name in CHANGED if name not in ("another kernel size", "a padding set later")])
def test_what_chains_compute_is_the_module_and_its_gradient(name):
    data, loss = toy_data(n=40, classes=3, shape=(1, 6, 6)), bounded_cross_entropy(classes=3)
    module = changed(CHANGED[name])
    inputs, labels = pair(data)
    form = resident(module, inputs)
    own = form.layout.of(module)
    assert_close(form.logits(own, 0, 40), module(inputs).detach(), rtol=1e-4, atol=1e-5)
    gradient = torch.zeros_like(own)[None]
    rows = torch.arange(BATCH)
    form.backward(own[None].clone(), [form.gather(rows)], [0], [labels[rows]], loss, gradient)
    module.zero_grad()
    loss(module(inputs[rows]), labels[rows]).mean().backward()
    assert_close(gradient[0], form.layout.flatten(slopes(module)), rtol=1e-4, atol=1e-6)


def test_hooks_of_all_modules_are_left_to_autograd():
    assert supports(changed(), INPUTS)
    handle = nn.modules.module.register_module_forward_hook(doubled)
    try:
        assert not supports(changed(), INPUTS)
    finally:
        handle.remove()
    assert supports(changed(), INPUTS)


def faulty(kind, method, change):
    plain = getattr(kind, method)
    return lambda patch: patch.setattr(kind, method, lambda self, *a, **k: change(plain, self, *a, **k))


FAULTS = {
    "a unit that leaks": faulty(
        DenseLayer, "forward", lambda plain, self, *a, **k: plain(self, *a, **k) * np.float32(1.01)
    ),
    "a gradient of half the size": faulty(
        DenseLayer, "backward", lambda plain, self, slope, *a: plain(self, slope * np.float32(0.5), *a)
    ),
    "a convolution turned over": faulty(
        ConvLayer, "forward",
        lambda plain, self, x, w, *a, **k: plain(self, x, np.ascontiguousarray(w[:, :, ::-1]), *a, **k),
    ),
    "biases left out of the norms": lambda patch: patch.setattr(
        clipped, "through_layer",
        lambda *a, true=clipped.through_layer: true(*a[:3], a[3] - 1.0, a[4]),
    ),
    "filters left out of the norms": faulty(
        ConvLayer, "backward", lambda plain, self, *a: plain(self, *a[:4])
    ),
}  # fmt: skip


@every_case("name", FAULTS)
def test_an_engine_that_computes_something_else_is_not_taken(name, monkeypatch):
    """Planted faults, which no look at the layers shows."""
    module = changed()
    assert type(resident(module, INPUTS)) is NativeNetwork
    FAULTS[name](monkeypatch)
    assert supports(module, INPUTS)
    assert type(resident(module, INPUTS)) is LoopedNetwork


@pytest.mark.slow
@dtypes
@parametrize("seed", range(12))
def test_no_rounding_at_zeros_and_ties_turns_the_engine_down(seed, dtype):
    data = sparse_data(n=30, classes=3, seed=seed) if seed % 2 else toy_data(n=30, shape=(1, 6, 6))
    for change in (len, lambda m: [p.data.zero_() for p in m.parameters()]):
        module, inputs = changed(change, seed).to(dtype), torch.tensor(data.inputs).to(dtype)
        assert type(resident(module, inputs)) is NativeNetwork


@every_case("name", NOT_COMPILED)
def test_other_networks_are_left_to_autograd(name):
    model, shape = NOT_COMPILED[name]
    assert not supports(model, torch.zeros(4, *shape))


def test_integers_and_halves_are_left_to_autograd():
    for dtype in (torch.float32, torch.float16, torch.int64):
        assert supports(changed(), torch.zeros(4, 1, 6, 6, dtype=dtype)) == (dtype == torch.float32)


def test_batching_chooses_the_form():
    inputs = torch.tensor(toy_data(shape=(1, 6, 6), n=4).inputs)
    known, group = changed(), Sequential(Flatten(), Linear(36, 4), GroupNorm(2, 4))
    for model, batching, bfloat16, expected in (
        (known, "auto", False, NativeNetwork), (known, "loop", False, LoopedNetwork),
        (known, "vmap", False, VmappedNetwork), (known, "auto", True, LoopedNetwork),
        (group, "auto", False, LoopedNetwork), (group, "vmap", False, VmappedNetwork),
    ):  # fmt: skip
        assert type(resident(model, inputs, batching=batching, bfloat16=bfloat16)) is expected
