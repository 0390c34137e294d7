"""A fast mode is used where its clipped sums are the reference's, and nowhere else; what mixes examples is refused."""

import copy
import functools
import warnings

import pytest
import torch
from private_toys import NETWORKS, cross_entropy, data, fresh, generator, mechanism, mlp
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import pacdp.loop
from pacdp.opacus.modes import OpacusSums
from pacdp.opacus.modules import MODES
from pacdp.private import (
    DPBBP,
    DPSGD,
    DPMCDropout,
    Normal,
    PrivateEngine,
    SeededRandomness,
    bayesian,
    train,
    with_example_dropout,
)
from pacdp.step.agreement import disagreement
from pacdp.step.sums import ByExample, Sum
from pacdp.step.units import Network

CLIP = 0.5
PAIRS = 30
ROWS = 24
ALL_MODES = ("reference", *MODES)


class Pairs(SeededRandomness):
    """Batches in pairs: some examples, then the same without one of them; in all sizes and from all seeds."""

    def __init__(self, seed=0):
        super().__init__(seed)
        self.order, self.next = generator(seed), None

    def batch(self, n, sample_rate):
        if self.next is not None:
            fewer, self.next = self.next, None
            return fewer
        some = torch.randperm(n, generator=self.order)[: int(torch.randint(1, n + 1, (), generator=self.order))]
        self.next = some[1:].sort().values
        return some.sort().values


def rows(*, inputs=4, classes=3, seed=5):
    """Examples of all sizes: between 0.1 and 100 times a normal."""
    scale = 10.0 ** (3.0 * torch.rand(ROWS, 1, generator=generator(seed)) - 1.0)
    x, y = data(ROWS, inputs=inputs, classes=classes, seed=seed).tensors
    return TensorDataset(scale * x, y)


def moves(module, *, mode, loss=cross_entropy, classes=3, algorithm=DPSGD, clip_norm=CLIP, **settings):
    """How far one example moved the released sum, in each pair of batches; and what training warned of."""
    numbers = mechanism(clip_norm=clip_norm, steps=2 * PAIRS, grad_sample_mode=mode)
    steady = algorithm(mechanism=numbers, noise_multiplier=0.0, learning_rate=1e-30, **settings)
    released = []

    def watch(made):
        released.append(torch.cat([v.double().reshape(-1) for v in made.values()]))

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        train(steady, module, rows(classes=classes), loss=loss, randomness=Pairs(), watch=watch)
    sums = torch.stack(released)
    unused = [str(one.message) for one in said if "is not used for this network" in str(one.message)]
    return (sums[::2] - sums[1::2]).norm(dim=1), unused


def unless_refused(module, **options):
    """The same, or None where training says that examples meet."""
    try:
        return moves(module, **options)
    except ValueError as error:
        if "examples of a batch are not independent" not in str(error):
            raise
        return None


@pytest.fixture
def unchecked(monkeypatch):
    """Training that believes what it is given."""
    monkeypatch.setattr(pacdp.loop, "_check_examples", lambda *_: None)
    monkeypatch.setattr(pacdp.loop, "disagreement", lambda *_, **__: None)
    monkeypatch.setattr(pacdp.loop, "runs_at_once", lambda *_: False)


class Functional(nn.Module):
    """The first layer's weight is used twice: by the layer, and as the matrix that maps back."""

    def __init__(self):
        super().__init__()
        self.inner = fresh(nn.Linear(4, 5))

    def forward(self, x):
        return 20.0 * functional.linear(self.inner(x).tanh(), self.inner.weight.t())


class Beside(nn.Module):
    """A weight used functionally beside its layer's own output."""

    def __init__(self):
        super().__init__()
        self.first, self.last = fresh(nn.Linear(4, 5)), fresh(nn.Linear(5, 3))

    def forward(self, x):
        h = self.first(x).tanh()
        return self.last(h) + 20.0 * functional.linear(h.square(), self.last.weight)


class Gated(Beside):
    """The same behind a gate that is closed when training begins."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(1, 3, bias=False)
        nn.init.zeros_(self.gate.weight)

    def forward(self, x):
        h = self.first(x).tanh()
        open_by = self.gate(torch.ones_like(x[:, :1]))
        return self.last(h) + open_by * functional.linear(h.square(), self.last.weight)


class Tied(nn.Module):
    """Two layers with one weight, and one of them used twice."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.last = fresh(nn.Linear(4, 4)), nn.Linear(4, 4, bias=False), fresh(nn.Linear(4, 3))
        self.two.weight = self.one.weight

    def forward(self, x):
        return self.last(self.two(self.one(self.one(x).tanh()).tanh()))


OUTSIDE_THE_LAYERS = {"maps back": (Functional, 4), "beside": (Beside, 3)}
SEEN = ("beside", "ew")
"""Expanded weights see functions of a weight, though not of its transpose."""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", OUTSIDE_THE_LAYERS)
def test_weights_used_outside_their_layers_send_a_mode_to_the_reference(name, mode):
    build, classes = OUTSIDE_THE_LAYERS[name]
    moved, said = moves(build(), mode=mode, classes=classes)
    if (name, mode) == SEEN:
        assert said == []
    else:
        assert len(said) == 1
        assert "example by example instead" in said[0]
    assert 0.99 * CLIP < float(moved.max()) <= CLIP * (1.0 + 1e-5)
    exact, nothing = moves(build(), mode="reference", classes=classes)
    assert nothing == []
    torch.testing.assert_close(moved, exact, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", OUTSIDE_THE_LAYERS)
def test_unchecked_one_example_would_move_the_sum_by_more(name, unchecked):
    build, classes = OUTSIDE_THE_LAYERS[name]
    moved, _ = moves(build(), mode="ghost", classes=classes)
    assert float(moved.max()) > 1.5 * CLIP


@pytest.mark.parametrize("name", OUTSIDE_THE_LAYERS)
def test_a_wrong_norm_is_found_where_nothing_made_up_is_clipped(name):
    """Gradients of the made-up examples are far below this clip norm, those of large ones are not."""
    build, classes = OUTSIDE_THE_LAYERS[name]
    _, said = moves(build(), mode="ghost", classes=classes, clip_norm=1e4)
    assert len(said) == 1
    assert "example by example instead" in said[0]


class Planted:
    """The reference, but for what ``fault`` makes of every example's gradient before and after it is clipped."""

    def __init__(self, network, units, clip_norm, fault):
        self.exact, self.clip_norm, self.fault = ByExample(network, units, 1e30), clip_norm, fault

    def __call__(self, chosen, weights):
        total = {name: torch.zeros_like(w) for name, w in weights.items()}
        for one in chosen:
            own = self.exact(one[None], weights).total
            length = torch.cat([g.reshape(-1) for g in own.values()]).norm()
            total = {name: total[name] + self.fault(float(length), self.clip_norm) * own[name] for name in own}
        return Sum(total, 0, 0.0)


FACTORS = {
    "three times too long": lambda length, norm: 3.0 * min(1.0, norm / (3.0 * length)),
    "brought to the clip norm, short or long": lambda length, norm: norm / length,
    "half the norm is seen": lambda length, norm: min(1.0, norm / (0.5 * length)),
    "never clipped": lambda length, norm: 1.0,
}


@pytest.mark.parametrize("clip_norm", [1e-3, 1e3], ids=["all clipped", "none clipped"])
@pytest.mark.parametrize("name", FACTORS)
def test_a_mode_that_agrees_at_one_clip_norm_alone_is_found(name, clip_norm):
    network, targets = Network.of(mlp(), cross_entropy), torch.zeros(4, dtype=torch.int64)

    def verdict(fault):
        made = functools.partial(Planted, fault=fault)
        return disagreement(made, network, torch.zeros(4, 4), targets, clip_norm=clip_norm)

    assert "of a single example" in verdict(FACTORS[name])
    assert verdict(lambda length, norm: min(1.0, norm / length)) is None


@pytest.mark.parametrize("mode", MODES)
def test_tied_weights_are_clipped_whole(mode):
    """Used, or sent to the reference: in both cases the sum is that of the whole gradients."""
    moved, _ = moves(Tied(), mode=mode)
    exact, _ = moves(Tied(), mode="reference")
    assert 0.99 * CLIP < float(moved.max()) <= CLIP * (1.0 + 1e-5)
    torch.testing.assert_close(moved, exact, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("mode", ["hooks", "functorch", "ghost"])
def test_a_path_that_opens_after_the_first_step_is_found_before_it(mode):
    _, said = moves(Gated(), mode=mode)
    assert len(said) == 1


@pytest.mark.parametrize(
    ("name", "mode"), [(name, mode) for name in OUTSIDE_THE_LAYERS for mode in MODES if (name, mode) != SEEN]
)
def test_a_loop_of_one_s_own_refuses_such_a_mode(name, mode):
    build, _ = OUTSIDE_THE_LAYERS[name]
    module = build()
    with pytest.raises(ValueError, match="cannot be used with this network"):
        PrivateEngine().make_private(
            module=module,
            optimizer=torch.optim.SGD(module.parameters(), lr=0.1),
            dataset=data(),
            noise_schedule=1.0,
            clip_norm=CLIP,
            sample_rate=0.1,
            expected_batch_size=4.0,
            grad_sample_mode=mode,
            criterion=nn.CrossEntropyLoss(),
        )


class OfTwo(nn.Module):
    """A network of two tensors, given as a dict or as two arguments."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x, y=None):
        first, second = (x["first"], x["second"]) if y is None else (x, y)
        return self.inner(torch.cat([first, second], dim=1))


class Labelled(torch.utils.data.Dataset):
    """Records whose inputs are a dict."""

    def __init__(self):
        self.rows = data()

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        x, y = self.rows[i]
        return {"first": x[:1], "second": x[1:]}, y


def probe_of(form):
    x = torch.randn(4, 4, generator=generator(3))
    return ({"first": x[:, :1], "second": x[:, 1:]},) if form == "dict" else (x[:, :1], x[:, 1:])


def of_two(inner, *, form, mode, clip_norm=CLIP):
    """A loop of one's own on such a network."""
    module = OfTwo(inner)
    return PrivateEngine(randomness=SeededRandomness(0)).make_private(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=0.1),
        dataset=Labelled(),
        noise_schedule=1.0,
        clip_norm=clip_norm,
        sample_rate=0.1,
        expected_batch_size=4.0,
        grad_sample_mode=mode,
        criterion=nn.CrossEntropyLoss(),
        probe=probe_of(form),
    )


@pytest.mark.parametrize("form", ["dict", "two arguments"])
@pytest.mark.parametrize("mode", ["hooks", "functorch", "ghost"])
def test_networks_of_several_tensors_are_compared_too(mode, form):
    for build, _ in OUTSIDE_THE_LAYERS.values():
        with pytest.raises(ValueError, match="cannot be used with this network"):
            of_two(build(), form=form, mode=mode)
    mixing = nn.Sequential(fresh(nn.Linear(4, 5)), Opening(), fresh(nn.Linear(5, 3)))
    with pytest.raises(ValueError, match="not independent"):
        of_two(mixing, form=form, mode=mode)
    of_two(mlp(), form=form, mode=mode)


@pytest.mark.parametrize("mode", ["hooks", "functorch", "ghost"])
def test_a_network_of_a_dict_is_trained(mode):
    module, optimizer, *criterion, loader = of_two(mlp(), form="dict", mode=mode)
    before = [p.detach().clone() for p in module.parameters()]
    for inputs, targets in loader:
        optimizer.zero_grad()
        (criterion or [nn.CrossEntropyLoss()])[0](module(inputs), targets).backward()
        optimizer.step()
    assert all(bool((p != q).any()) for p, q in zip(module.parameters(), before, strict=True))


def test_a_mode_is_compared_at_the_probe_where_made_up_numbers_have_no_gradient():
    class Logarithm(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return self.inner(x.log())

    inputs = torch.rand(4, 4, generator=generator()) + 0.1
    options = {"noise_schedule": 1.0, "clip_norm": CLIP, "sample_rate": 0.1, "expected_batch_size": 4.0}

    def made(module):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        PrivateEngine().make_private(module=module, optimizer=optimizer, dataset=data(), probe=(inputs,), **options)

    made(Logarithm(mlp()))
    with pytest.raises(ValueError, match="cannot be used with this network"):
        made(Logarithm(Beside()))


def class_balanced(outputs, targets):
    counts = torch.bincount(targets, minlength=outputs.shape[1])
    return cross_entropy(outputs, targets) * counts[counts > 0].min() / counts[targets]


def hardest_half(outputs, targets):
    losses = cross_entropy(outputs, targets)
    return 3.0 * torch.where(losses >= losses.median(), losses, 0.0)


def contrastive(outputs, targets):
    unlike = targets[:, None] != targets[None]
    return cross_entropy(outputs, targets) + (unlike * (outputs[:, None] - outputs[None]).square().sum(2)).sum(1)


class Mixing(nn.Module):
    """A layer in which the examples of a batch meet."""

    def __init__(self, mix):
        super().__init__()
        self.first, self.last, self.mix = fresh(nn.Linear(4, 5)), fresh(nn.Linear(5, 3)), mix

    def forward(self, x):
        return self.last(self.mix(self.first(x)))


def beyond_eight(h):
    return h - h.mean(0) if len(h) > 8 else h


def clamped_maximum(h):
    return 30.0 * h / h.abs().amax().clamp(min=4.0)


class Bank(nn.Module):
    """Remembers the last batch, in no buffer."""

    def __init__(self):
        super().__init__()
        self.last = None

    def forward(self, h):
        memory = torch.zeros_like(h[0]) if self.last is None else self.last
        self.last = h.detach().mean(0)
        return h + memory


class Opening(nn.Module):
    """A batch mean behind a gate that is closed when training begins."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, h):
        return h - self.gate * h.mean(0)


MEETINGS = {
    "weights by the batch's classes": (mlp, class_balanced),
    "the batch's harder half": (mlp, hardest_half),
    "pairs": (mlp, contrastive),
    "a clamped maximum": (lambda: Mixing(clamped_maximum), cross_entropy),
    "a mean beyond eight": (lambda: Mixing(beyond_eight), cross_entropy),
    "a memory": (lambda: Mixing(Bank()), cross_entropy),
    "a neighbour": (lambda: Mixing(lambda h: h + h.roll(1, 0)), cross_entropy),
}


@pytest.mark.parametrize("mode", ALL_MODES)
@pytest.mark.parametrize("name", MEETINGS)
def test_what_mixes_examples_is_private_or_refused(name, mode):
    build, loss = MEETINGS[name]
    made = unless_refused(build(), mode=mode, loss=loss)
    assert made is None or float(made[0].max()) <= CLIP * (1.0 + 1e-5)


@pytest.mark.parametrize("name", [name for name in MEETINGS if name != "a memory"])
def test_the_reference_is_private_by_itself(name, monkeypatch):
    """No trial is needed where an example's loss is computed of that example alone."""
    monkeypatch.setattr(pacdp.loop, "_check_examples", lambda *_: None)
    build, loss = MEETINGS[name]
    moved, _ = moves(build(), mode="reference", loss=loss)
    assert float(moved.max()) <= CLIP * (1.0 + 1e-5)


@pytest.mark.parametrize("name", MEETINGS)
def test_unchecked_what_mixes_examples_would_move_the_sum_by_more(name, unchecked):
    build, loss = MEETINGS[name]
    moved, _ = moves(build(), mode="hooks", loss=loss)
    assert float(moved.max()) > 1.2 * CLIP


@pytest.mark.parametrize("mode", ALL_MODES)
def test_a_meeting_that_opens_after_the_first_step_is_private_or_refused(mode):
    """Under dropout too, where the sums of whole batches cannot be compared."""
    for build in (Opening, lambda: nn.Sequential(nn.Dropout(0.5), Opening())):
        made = unless_refused(Mixing(build()), mode=mode)
        assert made is None or mode == "reference" or len(made[1]) == 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["pairs", "a neighbour"])
def test_the_comparison_alone_finds_meetings_of_small_batches(name, mode, monkeypatch):
    """Should the trials of independence let one through, the mode is not used, and the sum stays private."""
    monkeypatch.setattr(pacdp.loop, "_check_examples", lambda *_: None)
    build, loss = MEETINGS[name]
    moved, said = moves(build(), mode=mode, loss=loss)
    assert len(said) == 1
    assert float(moved.max()) <= CLIP * (1.0 + 1e-5)


class Attending(nn.Module):
    """Embeddings, attention over positions and a normalisation, all of one example."""

    def __init__(self):
        super().__init__()
        self.table, self.norm, self.last = nn.Embedding(40, 6), nn.LayerNorm(6), nn.Linear(6, 3)
        fresh(self)

    def forward(self, x):
        return self.last(self.norm(self.table(x.abs().long().clamp(max=39))).mean(1))


USED = {
    **NETWORKS,
    "one norm a sample": lambda: nn.Sequential(fresh(nn.Linear(4, 6)), nn.GroupNorm(2, 6), fresh(nn.Linear(6, 3))),
    "embeddings": Attending,
    "rectified in place": lambda: nn.Sequential(fresh(nn.Linear(4, 6)), nn.ReLU(), fresh(nn.Linear(6, 3))),
    "torch's dropout": lambda: nn.Sequential(fresh(nn.Linear(4, 6)), nn.Dropout(0.5), fresh(nn.Linear(6, 3))),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", USED)
def test_modes_that_agree_are_used(name, mode, monkeypatch):
    """Nothing is warned of, and after the comparison no sum comes from the reference."""
    calls = count_calls(monkeypatch)
    moved, said = moves(USED[name](), mode=mode)
    assert said == []
    assert calls[-2 * PAIRS :] == ["fast"] * (2 * PAIRS)
    if "dropout" not in name:
        assert 0.99 * CLIP < float(moved.max()) <= CLIP * (1.0 + 1e-5)


def test_modes_that_agree_are_used_under_masks_and_drawn_weights(monkeypatch):
    calls = count_calls(monkeypatch)
    masked = with_example_dropout(nn.Sequential(mlp(), nn.Dropout(0.3), fresh(nn.Linear(3, 3))), generator=generator())
    drawn = bayesian(mlp(), initial_std=0.05, generator=generator())
    for mode, draws in (("hooks", 1), ("hooks", 3), ("ghost", 1)):
        for module, kind, extra in ((masked, DPMCDropout, {}), (drawn, DPBBP, {"prior": Normal(std=1.0)})):
            _, said = moves(copy.deepcopy(module), mode=mode, algorithm=kind, draws=draws, **extra)
            assert said == [], (mode, draws, kind)
            assert calls[-2 * PAIRS :] == ["fast"] * (2 * PAIRS)


def test_the_reference_is_used_where_a_mode_disagrees(monkeypatch):
    calls = count_calls(monkeypatch)
    moves(Beside(), mode="hooks")
    assert calls[-2 * PAIRS :] == ["exact"] * (2 * PAIRS)


class Branching(nn.Module):
    """A branch on the data, which no vmap runs."""

    def __init__(self):
        super().__init__()
        self.inner = mlp()

    def forward(self, x):
        return torch.stack([self.inner(r) if float(r.sum()) > 0.0 else 2.0 * self.inner(r) for r in x])


@pytest.mark.parametrize("mode", ALL_MODES)
def test_networks_with_branches_are_trained_in_every_mode(mode):
    moved, _ = moves(Branching(), mode=mode)
    assert 0.99 * CLIP < float(moved.max()) <= CLIP * (1.0 + 1e-5)


def count_calls(monkeypatch):
    calls = []
    for kind, name in ((OpacusSums, "fast"), (ByExample, "exact")):
        own = kind.__call__

        def spy(self, *args, _own=own, _name=name):
            calls.append(_name)
            return _own(self, *args)

        monkeypatch.setattr(kind, "__call__", spy)
    return calls
