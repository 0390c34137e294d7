"""Compiled, looped and batched gradients are those of plain autograd, and a chain's are its own."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from toys import seeded, sparse_data, toy_data

from pacdp.chains import resident
from pacdp.chains.autograd import LoopedNetwork, VmappedNetwork
from pacdp.chains.native.network import NativeNetwork
from pacdp.chains.network import Network
from pacdp.data import Dataset
from pacdp.losses import Loss, bounded_cross_entropy, zero_one
from pacdp.models import Architecture, Norm, build

K, BATCH = 3, 11
FORMS: dict[str, Callable[..., Network]] = {
    "native": lambda model, inputs: NativeNetwork(model, inputs, batch_size=BATCH),
    "loop": LoopedNetwork, "vmap": VmappedNetwork,
}  # fmt: skip
DATA = {"sparse": sparse_data, "dense": toy_data}


def network(classes: int, hidden: tuple[int, ...] = (9, 8), shape: tuple[int, ...] = (1, 6, 6)) -> nn.Module:
    return build(Architecture(hidden=hidden), input_shape=shape, classes=classes, generator=seeded(0))


def data_of(kind: str, classes: int) -> Dataset:
    return DATA[kind](n=60, classes=classes, shape=(1, 6, 6))


def weights_of(form: Network, chains: int = K, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(chains, form.layout.dim, generator=seeded(3), dtype=torch.float64).to(dtype) / 3


def batches_of(data: Dataset, *, groups: int) -> tuple[list[Tensor], list[int], list[Tensor]]:
    """Minibatches, which of them each chain reads, and each chain's labels: with repeated examples, as drawn ones."""
    rng = np.random.default_rng(1)
    drawn = [torch.tensor(rng.integers(0, data.n, BATCH)) for _ in range(groups)]
    drawn[0][1] = drawn[0][0]
    group = [0, 1, 0] if groups == 2 else [0] * K
    return drawn, group, [torch.tensor(data.labels)[drawn[g]] for g in group]


def evaluated(form: Network, data: Dataset, weights: Tensor, loss: Loss, *, groups: int) -> tuple[Tensor, Tensor]:
    drawn, group, labels = batches_of(data, groups=groups)
    gradient = torch.full_like(weights, torch.nan)
    found = form.backward(weights, [form.gather(i) for i in drawn], group[: len(weights)], labels[: len(weights)],
                          loss, gradient)  # fmt: skip
    return gradient, found.to(weights.dtype)


def plain(model: nn.Module, form: Network, data: Dataset, weights: Tensor, loss: Loss, groups: int) -> tuple:
    """Slow twin: the module itself with each chain's parameters, and .backward()."""
    twin, (drawn, group, labels) = copy.deepcopy(model), batches_of(data, groups=groups)
    gradients, seen = [], []
    for k, g in enumerate(group):
        with torch.no_grad():
            for name, view in form.layout.views(weights[k]).items():
                twin.get_parameter(name).copy_(view)
        twin.zero_grad()
        logits = twin(torch.tensor(data.inputs).to(weights.dtype)[drawn[g]])
        mean = loss(logits, labels[k]).mean()
        mean.backward()
        gradients.append(form.layout.flatten({name: p.grad for name, p in twin.named_parameters()}))
        seen.append(torch.stack([mean.detach(), zero_one()(logits.detach(), labels[k]).mean()]))
    return torch.stack(gradients), torch.stack(seen, dim=1)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("name", FORMS)
def test_gradients_are_those_of_plain_autograd(name: str, kind: str, classes: int, groups: int) -> None:
    data, model = data_of(kind, classes), network(classes).double()
    form = FORMS[name](model, torch.tensor(data.inputs).double())
    if name == "native":
        assert (form.rows is not None) == (kind == "sparse")
    weights, loss = weights_of(form), bounded_cross_entropy(classes=classes)
    before = weights.clone()
    found = evaluated(form, data, weights, loss, groups=groups)
    for ours, exact in zip(found, plain(model, form, data, weights, loss, groups), strict=True):
        assert float((ours - exact).abs().max()) <= 1e-10 * float(exact.abs().max())
    assert torch.equal(weights, before)


@pytest.mark.parametrize(("name", "norm"), [("native", "none"), ("loop", "none"), ("loop", "group"), ("vmap", "group")])
def test_convolutions_too(name: str, norm: Norm) -> None:
    data = toy_data(n=20, classes=3, shape=(1, 28, 28))
    model = build(
        Architecture(name="conv", norm=norm), input_shape=(1, 28, 28), classes=3, generator=seeded(0)
    ).double()
    form = FORMS[name](model, torch.tensor(data.inputs).double())
    weights, loss = weights_of(form) / 10, bounded_cross_entropy(classes=3)
    found = evaluated(form, data, weights, loss, groups=1)
    for ours, exact in zip(found, plain(model, form, data, weights, loss, 1), strict=True):
        assert float((ours - exact).abs().max()) <= 1e-9 * float(exact.abs().max())


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("name", FORMS)
def test_logits_are_those_of_the_module(name: str, kind: str) -> None:
    data, model = data_of(kind, 5), network(5).double()
    inputs = torch.tensor(data.inputs).double()
    form = FORMS[name](model, inputs)
    whole = model(inputs).detach()
    for start, stop in ((0, 60), (0, 1), (7, 33), (59, 60)):
        found = form.logits(form.layout.of(model), start, stop)
        torch.testing.assert_close(found, whole[start:stop], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("name", ["native", "loop"])
@pytest.mark.parametrize("hidden", [(39, 24), (40, 30)], ids=["aligned", "unaligned"])
def test_chains_together_are_each_alone_bit_for_bit(
    name: str, kind: str, dtype: torch.dtype, hidden: tuple[int, ...]
) -> None:
    data, model = data_of(kind, 5), network(5, hidden=hidden).to(dtype)
    form = FORMS[name](model, torch.tensor(data.inputs).to(dtype))
    weights, loss = weights_of(form, dtype=dtype), bounded_cross_entropy(classes=5)
    assert (form.layout.dim % 16 == 0) == (hidden == (39, 24))
    drawn, group, labels = batches_of(data, groups=2)
    together = evaluated(form, data, weights, loss, groups=2)
    for k in range(K):
        gradient = torch.empty_like(weights[:1])
        found = form.backward(weights[k : k + 1].clone(), [form.gather(drawn[group[k]])], [0], [labels[k]], loss,
                              gradient)  # fmt: skip
        assert torch.equal(gradient[0], together[0][k])
        assert torch.equal(found[:, 0].to(dtype), together[1][:, k])


@pytest.mark.parametrize("kind", DATA)
def test_single_precision_agrees(kind: str) -> None:
    data, loss = data_of(kind, 2), bounded_cross_entropy(classes=2)
    forms = [FORMS[name](network(2), torch.tensor(data.inputs)) for name in FORMS]
    weights = weights_of(forms[0], dtype=torch.float32)
    first, *others = [evaluated(form, data, weights, loss, groups=2) for form in forms]
    for other in others:
        for ours, theirs in zip(first, other, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("loss", [bounded_cross_entropy(classes=2), Loss(
    name="without a compiled slope", low=0.0, high=1.0, function=lambda logits, y: torch.sigmoid(logits[:, 0]) + 0 * y
)], ids=["compiled", "autograd"])  # fmt: skip
@pytest.mark.parametrize("kind", DATA)
def test_a_network_of_one_layer_and_any_loss(kind: str, loss: Loss) -> None:
    data = data_of(kind, 2)
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 1)).double()
    form = FORMS["native"](model, torch.tensor(data.inputs).double())
    weights = weights_of(form)
    found = evaluated(form, data, weights, loss, groups=1)
    for ours, exact in zip(found, plain(model, form, data, weights, loss, 1), strict=True):
        torch.testing.assert_close(ours, exact, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("name", FORMS)
def test_nan_weights_give_nan_and_no_error(name: str) -> None:
    data, loss = data_of("sparse", 5), bounded_cross_entropy(classes=5)
    form = FORMS[name](network(5).double(), torch.tensor(data.inputs).double())
    weights = weights_of(form)
    clean = evaluated(form, data, weights, loss, groups=1)
    weights[1, -1] = torch.nan
    gradient, found = evaluated(form, data, weights, loss, groups=1)
    assert torch.isnan(found[0, 1])
    assert found[1, 1] == 1
    assert torch.isnan(gradient[1]).any()
    assert torch.isfinite(gradient[[0, 2]]).all()
    torch.testing.assert_close(gradient[[0, 2]], clean[0][[0, 2]])


def test_batching_chooses_the_form() -> None:
    inputs = torch.tensor(toy_data(shape=(1, 28, 28), n=4).inputs)
    fc = network(2, shape=(1, 28, 28))
    group = build(Architecture(norm="group"), input_shape=(1, 28, 28), classes=2, generator=seeded(0))
    for model, batching, bfloat16, expected in (
        (fc, "auto", False, NativeNetwork), (fc, "loop", False, LoopedNetwork), (fc, "vmap", False, VmappedNetwork),
        (fc, "auto", True, LoopedNetwork), (group, "auto", False, LoopedNetwork),
        (group, "vmap", False, VmappedNetwork),
    ):  # fmt: skip
        assert type(resident(model, inputs, batch_size=2, batching=batching, bfloat16=bfloat16)) is expected


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x)
        return x if x.sum() > 0 else 2 * x


class Counting(nn.Module):
    """Updates a buffer in place with what it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 1)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x)
        self.seen += x.sum()
        return x


@pytest.mark.parametrize(
    "model", [nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)), Branching(), Counting()],
    ids=["BatchNorm", "control flow", "in place"],
)  # fmt: skip
def test_what_vmap_cannot_batch_is_a_sentence(model: nn.Module) -> None:
    inputs = torch.randn(4, 5, generator=seeded(0))
    with pytest.raises(ValueError, match=r"cannot run as a batch of chains.*torch\.func\.vmap takes Linear.*use batch"):
        resident(model, inputs, batch_size=2, batching="vmap")
