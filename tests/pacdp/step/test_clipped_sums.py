"""The reference's clipped sums, against autograd of one example at a time."""

import copy
import math

import pytest
import torch
from private_toys import cnn, cross_entropy, data, fresh, generator, mlp
from torch import nn
from torch.utils.data import Dataset, TensorDataset

from pacdp.layers.random import random_state, rewind
from pacdp.private import Units, bayesian, with_example_dropout
from pacdp.step.sums import ByContribution, ByExample, runs_at_once
from pacdp.step.units import Network, summed_gradient

CLIP = 0.5
N = 12


def examples(dtype=torch.float64):
    """Of sizes between 0.01 and 100, so that some gradients are clipped and some are not."""
    x, y = data(N).tensors
    return (x * torch.logspace(-2, 2, N)[:, None]).to(dtype), y


def network_of(module, loss=cross_entropy):
    frozen = {name: p.detach() for name, p in module.named_parameters() if not p.requires_grad}
    return Network(module, {**frozen, **dict(module.named_buffers())}, loss)


def weights_of(module):
    return {name: p.detach() for name, p in module.named_parameters() if p.requires_grad}


def flat(weights):
    return torch.cat([w.double().reshape(-1) for w in weights.values()])


def slowly(module, inputs, targets, *, loss=cross_entropy, clip_norm=CLIP, draws=1):
    """Autograd of the module itself, an example at a time; gradients that are not finite count as nothing."""
    trained = [p for p in module.parameters() if p.requires_grad]
    total, dropped, clipped = torch.zeros(sum(p.numel() for p in trained), dtype=torch.float64), 0, 0
    for x, y in zip(inputs, targets, strict=True):
        value = sum(loss(module(x[None]), y[None]).sum() for _ in range(draws)) / draws
        slopes = torch.autograd.grad(value, trained, allow_unused=True)
        g = torch.cat(
            [
                (torch.zeros_like(p) if s is None else s).double().reshape(-1)
                for p, s in zip(trained, slopes, strict=True)
            ]
        )
        norm = float(g.norm())
        if not math.isfinite(norm):
            dropped += 1
            continue
        clipped += norm > clip_norm
        total += g * min(1.0, clip_norm / norm) if norm else 0.0
    return total, dropped, clipped


class Scaled(nn.Module):
    """Uses a buffer, a parameter that is frozen, one that is never used, and one twice."""

    def __init__(self):
        super().__init__()
        self.inner, self.unused = mlp(), fresh(nn.Linear(2, 2))
        self.shift = nn.Parameter(torch.tensor([0.1, -0.2, 0.3, 0.4]), requires_grad=False)
        self.twice = nn.Parameter(torch.tensor([0.5, 1.5, -0.5]))
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 0.5, 3.0]))

    def forward(self, x):
        return self.inner(x * self.scale + self.shift) * self.twice + self.twice.square()


def partly_frozen():
    module = mlp()
    module[0].bias.requires_grad_(False)
    module[2].weight.requires_grad_(False)
    return module


def in_place():
    return nn.Sequential(*mlp()[:1], nn.ReLU(inplace=True), fresh(nn.Linear(5, 3)))


def shared():
    one = fresh(nn.Linear(4, 4))
    return nn.Sequential(one, nn.Tanh(), one, nn.Tanh(), fresh(nn.Linear(4, 3)))


def normalised():
    return nn.Sequential(*mlp()[:2], nn.LayerNorm(5), fresh(nn.Linear(5, 3)))


def over_positions():
    return nn.Sequential(
        nn.Unflatten(1, (2, 2)), fresh(nn.Linear(2, 3)), nn.Tanh(), nn.Flatten(), fresh(nn.Linear(6, 3))
    )


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = mlp()

    def forward(self, x):
        return torch.stack([self.inner(r) if float(r.sum()) > 0.0 else 2.0 * self.inner(r) for r in x])


BUILT = {
    "mlp": mlp,
    "cnn": cnn,
    "buffers and frozen parameters": Scaled,
    "partly frozen": partly_frozen,
    "in place": in_place,
    "a layer twice": shared,
    "normalised": normalised,
    "positions": over_positions,
    "branches": Branching,
}


def by_example(module, inputs, targets, *, loss=cross_entropy, clip_norm=CLIP, **options):
    network = network_of(module, loss)
    at_once = runs_at_once(network, weights_of(module), inputs, targets)
    units = Units.group(TensorDataset(inputs, targets), None)
    return ByExample(network, units, clip_norm, **{"vectorised": at_once, **options})


@pytest.mark.parametrize("most", [None, 5, 1])
@pytest.mark.parametrize("name", BUILT)
def test_the_reference_is_autograd_of_one_example_at_a_time(name, most):
    module = BUILT[name]().double()
    inputs, targets = examples()
    expected, dropped, clipped = slowly(module, inputs, targets)
    made = by_example(module, inputs, targets, most=most)(torch.arange(N), weights_of(module))
    torch.testing.assert_close(flat(made.total), expected, atol=1e-11, rtol=1e-10)
    assert list(made.total) == list(weights_of(module))
    assert made.nonfinite == dropped == 0
    assert 0 < clipped
    loose, _, none = slowly(module, inputs, targets, clip_norm=1e6)
    assert none == 0
    made = by_example(module, inputs, targets, most=most, clip_norm=1e6)(torch.arange(N), weights_of(module))
    torch.testing.assert_close(flat(made.total), loose, atol=1e-9, rtol=1e-10)


@pytest.mark.parametrize("name", BUILT)
def test_some_examples_of_the_data_in_any_order(name):
    module = BUILT[name]().double()
    inputs, targets = examples()
    chosen = torch.tensor([7, 2, 11])
    made = by_example(module, inputs, targets)(chosen, weights_of(module))
    torch.testing.assert_close(flat(made.total), slowly(module, inputs[chosen], targets[chosen])[0], atol=1e-11, rtol=0)


@pytest.mark.parametrize("name", BUILT)
def test_the_weights_that_are_given_count(name):
    """Not those that the module holds."""
    module = BUILT[name]().double()
    inputs, targets = examples()
    moved = copy.deepcopy(module)
    with torch.no_grad():
        for p in moved.parameters():
            if p.requires_grad:
                p.mul_(1.3).add_(0.05)
    made = by_example(module, inputs, targets)(torch.arange(N), weights_of(moved))
    torch.testing.assert_close(flat(made.total), slowly(moved, inputs, targets)[0], atol=1e-11, rtol=1e-10)


@pytest.mark.parametrize("vectorised", [True, False])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e100])
@pytest.mark.parametrize("build", [mlp, cnn, Scaled])
def test_what_is_no_number_counts_as_nothing(build, value, vectorised):
    module = build().double()
    inputs, targets = examples()
    inputs[3], inputs[8, 1] = value, value
    loss = {True: cross_entropy, False: lambda f, y: f.square().sum(1)}[value != 1e100]
    expected, dropped, _ = slowly(module, inputs, targets, loss=loss)
    made = by_example(module, inputs, targets, loss=loss, vectorised=vectorised)(torch.arange(N), weights_of(module))
    torch.testing.assert_close(flat(made.total), expected, atol=1e-10, rtol=1e-9)
    assert made.nonfinite == dropped
    assert dropped == 2 or math.isfinite(value)
    alone = by_example(module, inputs, targets, loss=loss, vectorised=vectorised)(torch.tensor([3]), weights_of(module))
    assert float(flat(alone.total).norm()) <= CLIP


@pytest.mark.parametrize("options", [{}, {"vectorised": False}, {"draws": 3}, {"most": 2}])
@pytest.mark.parametrize("build", [mlp, cnn, Scaled, Branching])
def test_nobody_adds_up_to_nothing(build, options):
    module = build()
    made = by_example(module, *examples(torch.float32), **options)(
        torch.zeros(0, dtype=torch.int64), weights_of(module)
    )
    assert {name: w.shape for name, w in made.total.items()} == {
        name: w.shape for name, w in weights_of(module).items()
    }
    assert float(flat(made.total).abs().max()) == 0.0
    assert (made.nonfinite, made.loss) == (0, 0.0)


def masked():
    return with_example_dropout(nn.Sequential(*mlp()[:2], nn.Dropout(0.4), mlp()[2]), generator=generator(4))


def torch_s_dropout():
    return nn.Sequential(*mlp()[:2], nn.Dropout(0.4), mlp()[2])


def drawn():
    return bayesian(mlp(), initial_std=0.3, generator=generator(4))


RANDOM = {
    "masks": masked,
    "torch's dropout": torch_s_dropout,
    "drawn weights": drawn,
    "drawn kernels": lambda: bayesian(cnn(), initial_std=0.3, generator=generator(4)),
}


@pytest.mark.parametrize("draws", [1, 3])
@pytest.mark.parametrize("name", RANDOM)
def test_random_layers_draw_for_each_example_in_turn(name, draws):
    """From the same generators the slow twin draws the same numbers, and the mean over draws is clipped, not each."""
    module = RANDOM[name]().double().train()
    inputs, targets = examples()
    summer, before = by_example(module, inputs, targets, draws=draws), random_state(module)
    made = summer(torch.arange(N), weights_of(module))
    rewind(module, before)
    expected, _, clipped = slowly(module, inputs, targets, draws=draws)
    rewind(module, before)
    torch.testing.assert_close(flat(made.total), expected, atol=1e-11, rtol=1e-10)
    assert clipped > 0
    again = summer(torch.arange(N), weights_of(module))
    assert torch.equal(flat(again.total), flat(made.total))
    other = summer(torch.arange(N), weights_of(module))
    assert not torch.equal(flat(other.total), flat(made.total))
    nobody = summer(torch.zeros(0, dtype=torch.int64), weights_of(module))
    assert float(flat(nobody.total).abs().max()) == 0.0


@pytest.mark.parametrize("draws", [2, 5])
def test_draws_of_a_network_that_draws_nothing_change_nothing(draws):
    module = mlp().double()
    inputs, targets = examples()
    one, more = (by_example(module, inputs, targets, draws=d)(torch.arange(N), weights_of(module)) for d in (1, draws))
    torch.testing.assert_close(flat(one.total), flat(more.total), atol=1e-12, rtol=0.0)


@pytest.mark.parametrize("name", [*BUILT, *RANDOM])
def test_the_generators_and_the_module_are_left_alone_by_the_trial(name):
    module = {**BUILT, **RANDOM}[name]()
    before, state = copy.deepcopy(module.state_dict()), random_state(module)
    found = runs_at_once(network_of(module), weights_of(module), *examples(torch.float32))
    assert found == (name != "branches" and name not in RANDOM) or name in ("masks", "drawn weights", "drawn kernels")
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())
    after = random_state(module)
    assert torch.equal(state.cpu, after.cpu)
    assert all(torch.equal(state.layers[key], after.layers[key]) for key in state.layers)


@pytest.mark.parametrize("name", BUILT)
def test_a_person_with_one_record_is_an_example(name):
    """The sums of people and those of examples are one sum where they mean the same."""
    module = BUILT[name]().double()
    inputs, targets = examples()
    units = Units.group(TensorDataset(inputs, targets), torch.arange(N))
    made = ByContribution(network_of(module), units, CLIP, summed_gradient)(torch.arange(N), weights_of(module))
    exact = by_example(module, inputs, targets)(torch.arange(N), weights_of(module))
    torch.testing.assert_close(flat(made.total), flat(exact.total), atol=1e-11, rtol=1e-10)


@pytest.mark.parametrize("name", ["mlp", "cnn", "buffers and frozen parameters"])
def test_one_more_example_moves_the_single_precision_sum_by_at_most_the_clip_norm(name):
    module = BUILT[name]()
    inputs, targets = examples(torch.float32)
    summer, largest = by_example(module, inputs, targets), 0.0
    for seed in range(40):
        some = torch.randperm(N, generator=generator(seed))[: 1 + seed % N]
        more, fewer = (flat(summer(part, weights_of(module)).total) for part in (some, some[1:]))
        largest = max(largest, float((more - fewer).norm()))
    assert 0.99 * CLIP < largest <= CLIP * (1.0 + 1e-5)


class Records(Dataset):
    """No tensors that can be indexed at once."""

    def __init__(self, inputs, targets):
        self.inputs, self.targets = inputs, targets

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        return self.inputs[index], self.targets[index]


def test_data_sets_of_any_kind_give_the_same_sum():
    module, (inputs, targets) = mlp().double(), examples()
    exact = by_example(module, inputs, targets)
    other = exact._replace(units=Units.group(Records(inputs, targets), None))
    chosen = torch.tensor([0, 4, 9])
    assert torch.equal(flat(exact(chosen, weights_of(module)).total), flat(other(chosen, weights_of(module)).total))
