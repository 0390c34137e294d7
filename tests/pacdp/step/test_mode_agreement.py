"""Ghost clipping is used where its sums are the reference's, and nowhere else; what mixes examples is refused."""

import functools

import pytest
import torch
from clipped_networks import (
    CLIP,
    KINDS,
    KNOWN,
    OUTSIDE_THE_LAYERS,
    Bank,
    Beside,
    clamped_maximum,
    class_balanced,
    contrastive,
    drawing,
    hardest_half,
    maps_back,
    mixing,
    rows,
    slowly,
)
from private_toys import (
    bayes_network,
    cross_entropy,
    data,
    dropout_network,
    gradient,
    mechanism,
    mlp,
    noiseless,
    plain,
    private,
)
from private_toys import flat as flat_weights
from torch.nn import Dropout, LayerNorm, Linear, Module, Parameter, Sequential
from torch.nn.functional import linear
from torch.testing import assert_close
from torch.utils.data import TensorDataset

from pacdp.layers.random import random_state, rewind
from pacdp.opacus.modules import ByReference
from pacdp.private import DPSGD, SeededRandomness, train
from pacdp.step.ghost import Ghost, GhostSums
from pacdp.step.gradients import NO_CLIPPING
from pacdp.step.mechanism import MODES
from pacdp.step.set_up import disagreement
from pacdp.step.sums import Reference, Sum
from pacdp.step.units import Network
from tests.marks import every_case, left_out, parametrize, refusal
from tests.pacdp.draws import rand, randn
from tests.pacdp.same import identical
from tests.pacdp.small_networks import Made
from tests.pacdp.toys import seeded

PAIRS = 4
ROWS = 24
MOST = CLIP * (1.0 + 1e-5)


@pytest.fixture(autouse=True)
def _all_pairs(whole, monkeypatch):
    if whole:
        monkeypatch.setitem(globals(), "PAIRS", 30)


class Pairs(SeededRandomness):
    """Batches in pairs: some examples, then the same without one of them; in all sizes and from all seeds."""

    def __init__(self, seed=0):
        super().__init__(seed)
        self.order, self.seen = seeded(seed), []

    def batch(self, n, sample_rate):
        if len(self.seen) % 2:
            chosen = self.fewer
        else:
            size = int(torch.randint(1, n + 1, (), generator=self.order))
            chosen = torch.randperm(n, generator=self.order)[:size]
            self.fewer = chosen[1:].sort().values
        self.seen.append(chosen.sort().values)
        return self.seen[-1]


def sums(module, *, mode=None, loss=cross_entropy, classes=3, clip_norm=CLIP):
    """What training releases of each batch, the batches, and the mode that was used."""
    numbers = mechanism(clip_norm=clip_norm, noise_multiplier=0.0, steps=2 * PAIRS, grad_sample_mode=mode)
    steady = DPSGD(learning_rate=1e-30)
    released, randomness = [], Pairs()

    def watch(made):
        released.append(torch.cat([v.double().reshape(-1) for v in made.values()]))

    x, y = rows(ROWS)
    run = train(steady, module, TensorDataset(x, y % classes), mechanism=numbers, loss=loss, randomness=randomness,
                watch=watch)  # fmt: skip
    return torch.stack(released), randomness.seen, run.grad_sample_mode


def furthest(released):
    """How far two sums of a pair are apart at most."""
    return float((released[::2] - released[1::2]).norm(dim=1).max())


def moved(module, **options):
    """How far one example moves the sum at most, and the mode; None where examples meet and are refused."""
    try:
        released, _, used = sums(module, **options)
    except ValueError as error:
        if "examples of a batch are not independent" not in str(error):
            raise
        return None
    return furthest(released), used


@pytest.fixture
def asked(monkeypatch):
    """Which sums were asked for: those of ghost clipping, or the reference's."""
    calls = []
    for kind, name in ((GhostSums, "ghost"), (Reference, "reference")):

        def spy(self, *args, _own=kind.__call__, _name=name):
            calls.append(_name)
            return _own(self, *args)

        monkeypatch.setattr(kind, "__call__", spy)
    return calls


@every_case("name", KINDS)
def test_what_is_released_is_the_sum_of_examples_each_clipped_by_itself(name, asked):
    """And one example moves no sum by more than the clip norm."""
    classes = 4 if KINDS[name] is maps_back else 3
    x, y = rows(ROWS)
    expected, _ = slowly(KINDS[name](), x, y % classes)
    released, batches, used = sums(KINDS[name](), classes=classes, mode="ghost" if name in KNOWN else None)
    exact = torch.stack([expected[batch].sum(0) for batch in batches])
    close = {"atol": 2e-6, "rtol": 2e-5} if name in KNOWN else {"atol": 1e-4, "rtol": 1e-3}
    assert_close(released, exact, **close)
    assert 0.99 * CLIP < furthest(released) <= MOST
    assert asked[-2 * PAIRS :] == [used] * (2 * PAIRS)
    if name in KNOWN or name in OUTSIDE_THE_LAYERS:
        assert used == ("ghost" if name in KNOWN else "reference")


def test_ghost_clipping_that_was_asked_for_is_refused_where_it_cannot_be_used():
    for build in OUTSIDE_THE_LAYERS.values():
        with refusal("'ghost' cannot be used with this network"):
            sums(build(), mode="ghost", classes=3)


class Planted:
    """The reference, but for what ``fault`` makes of every example's gradient before and after it is clipped."""

    def __init__(self, network, units, clip, fault):
        self.exact, self.clip_norm, self.fault = Reference(network, units, NO_CLIPPING), clip.norm, fault

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


@every_case("clip_norm", [1e-3, 1e3], ids=["all clipped", "none clipped"])
@parametrize("name", [*FACTORS, "right"])
def test_a_mode_that_agrees_at_one_clip_norm_alone_is_found(name, clip_norm):
    network, targets = Network.of(mlp(), cross_entropy), torch.zeros(4, dtype=torch.int64)
    made = functools.partial(Planted, fault=FACTORS.get(name, lambda length, norm: min(1.0, norm / length)))
    found = disagreement(made, network, torch.zeros(4, 4), targets, clip_norm=clip_norm)
    assert found is None if name == "right" else "of a single example" in found


class OfTwo(Module):
    """A network of two tensors, given as a dict or as two arguments."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x, y=None):
        first, second = (x["first"], x["second"]) if y is None else (x, y)
        return self.inner(torch.cat([first, second], dim=1))


class Labelled(TensorDataset):
    """Records whose inputs are a dict."""

    def __getitem__(self, i):
        x, y = super().__getitem__(i)
        return {"first": x[:1], "second": x[1:]}, y


def of_one_s_own(inner, *, mode, form="tensor", x=None):
    """A loop of one's own, on a network of one tensor or of several."""
    x = randn(4, 4, seed=3) if x is None else x
    first, second = x[:, :1], x[:, 1:]
    probe = {"tensor": (x,), "dict": ({"first": first, "second": second},), "two arguments": (first, second)}[form]
    module = inner if form == "tensor" else OfTwo(inner)
    dataset = data() if form == "tensor" else Labelled(*data().tensors)
    return private(module, dataset, mode=mode, batches="loader", sample_rate=0.1, expected_batch_size=4.0, probe=probe)


def looped(inner, *, form, mode=None):
    """The module of a loop of one's own, and the weights after it."""
    module, optimizer, criterion, loader, _ = of_one_s_own(inner, form=form, mode=mode)
    for inputs, targets in loader:
        optimizer.zero_grad()
        given = inputs.values() if form == "two arguments" else [inputs]
        criterion(module(*given), targets).backward()
        optimizer.step()
    return module, flat_weights(module)


@parametrize("form", ["tensor", "dict", "two arguments"])
def test_a_loop_of_one_s_own_takes_ghost_clipping_where_it_agrees_and_elsewhere_the_reference(form):
    for build in (mlp, *list(OUTSIDE_THE_LAYERS.values())[: None if form == "tensor" else 1], drawing):
        fits = build not in OUTSIDE_THE_LAYERS.values()
        module, chosen = looped(build(), form=form)
        assert isinstance(module.way, Ghost if fits and form == "tensor" else ByReference)
        if fits and build is not drawing:  # a forward pass of somebody else's is taken at their word alone
            module, chosen = looped(build(), form=form, mode="ghost")
            assert isinstance(module.way, Ghost)
        module, exact = looped(build(), form=form, mode="reference")
        assert isinstance(module.way, ByReference)
        assert not torch.equal(exact, flat_weights(build()))
        if build is not drawing:  # whose masks are others
            assert_close(chosen, exact, atol=1e-6, rtol=1e-5)
        if not fits:
            with refusal("'ghost' cannot be used with this network"):
                of_one_s_own(build(), form=form, mode="ghost")
    for mode in (None, *MODES):
        with refusal("not independent"):
            of_one_s_own(mixing(opening()), form=form, mode=mode)


def gated():
    """A weight is used outside of its layer, for examples alone that no made-up batch has."""
    return Made(
        lambda own, x: own.layer(own.norm(x)) + (x.abs().amax(1, keepdim=True) > 50) * linear(x, own.layer.weight),
        norm=LayerNorm(4), layer=Linear(4, 3)
    )  # fmt: skip


def moved_in_a_loop(network, loss, added, *, mode):
    """By how much one example more moves the noiseless sum of a loop of one's own, over the clip norm."""
    x, found = randn(6, 4), []
    x[5] = added(x[5])
    module, optimizer, *_ = noiseless(network, TensorDataset(x, torch.zeros(6)), mode=mode, max_grad_norm=CLIP)
    for kept in (6, 5):
        plain(module, optimizer, x[:kept], None, loss=lambda out, _: loss(out))
        found.append(gradient(module))
    return float((found[0] - found[1]).norm()) / CLIP


def test_a_weight_that_few_examples_use_outside_of_its_layer_moves_no_sum_by_default():
    torch.manual_seed(0)
    assert 0.5 < moved_in_a_loop(gated(), lambda out: out.sin().mean(1).mean(), lambda x: 1e3 * x, mode=None) < 1.001


def test_a_hook_is_other_code_too():
    hooked = mlp()
    hooked[0].register_forward_hook(lambda *_: None)
    assert isinstance(looped(mlp(), form="tensor")[0].way, Ghost)
    assert isinstance(looped(hooked, form="tensor")[0].way, ByReference)


def twice():
    """Two outputs, which a loss may meet in another order."""
    return Made(lambda own, x: (own.first(x), own.second(100.0 * x)), first=Linear(4, 3), second=Linear(4, 3))


def in_another_order(out):
    return (out[1].sin().sum(1) + 1e-3 * out[0].cos().sum(1)).mean()


@parametrize("mode", [None, "ghost"])
def test_an_example_without_a_gradient_moves_no_sum_of_several_outputs(mode):
    torch.manual_seed(0)
    assert moved_in_a_loop(twice(), in_another_order, lambda x: torch.nan * x, mode=mode) < 1e-4


@parametrize("build", [drawing, dropout_network, bayes_network])
def test_the_reference_in_a_loop_has_the_draws_of_its_forward_pass(build):
    """The slopes are those at the outputs which the same masks and weights gave; the generators go on from there."""
    x, y = rows(6)
    module, optimizer, criterion, _, _ = noiseless(build(), mode="reference", max_grad_norm=CLIP)
    twin = build()
    for _ in range(2):
        before = random_state(module)
        optimizer.zero_grad()
        criterion(module(x), y).backward()
        after = random_state(module)
        optimizer.step()
        rewind(twin, before)
        expected, _ = slowly(twin, x, y)
        assert identical(random_state(twin).layers, after.layers)
        assert torch.equal(random_state(twin).cpu, after.cpu)
        assert_close(gradient(module).double(), expected.sum(0), atol=1e-4, rtol=1e-4)


def test_a_mode_is_compared_at_the_probe_where_made_up_numbers_have_no_gradient():
    def logarithm(inner):
        return Made(lambda own, x: own.inner(x.log()), inner=inner)

    inputs = rand(4, 4) + 0.1
    of_one_s_own(logarithm(mlp()), mode="ghost", x=inputs)
    with refusal("cannot be used with this network"):
        of_one_s_own(logarithm(Beside()), mode="ghost", x=inputs)


def beyond_eight(h):
    return h - h.mean(0) if len(h) > 8 else h


def opening():
    """A batch mean behind a gate that is closed when training begins."""
    return Made(lambda own, h: h - own.gate * h.mean(0), gate=Parameter(torch.zeros(())))


MEETINGS = {
    "weights by the batch's classes": (mlp, class_balanced),
    "the batch's harder half": (mlp, hardest_half),
    "pairs": (mlp, contrastive),
    "a clamped maximum": (lambda: mixing(clamped_maximum), cross_entropy),
    "a mean beyond eight": (lambda: mixing(beyond_eight), cross_entropy),
    "a memory": (lambda: mixing(Bank()), cross_entropy),
    "a neighbour": (lambda: mixing(lambda h: h + h.roll(1, 0)), cross_entropy),
}


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@every_case("name", MEETINGS)
def test_what_mixes_examples_is_private_or_refused(name, monkeypatch):
    """Every mode computes an example's loss of that example alone, and the reference all of it: without a trial."""
    build, loss = MEETINGS[name]
    for mode in ("reference", None):
        found = moved(build(), mode=mode, loss=loss)
        assert found is None or found[0] <= MOST
    if name != "a memory":
        left_out(monkeypatch, "loop.require_apart")
        found_by_comparison = build is mlp or name == "a neighbour"  # of batches that are small
        for mode in ("reference", None) if found_by_comparison else ("reference",):
            most, used = moved(build(), mode=mode, loss=loss)
            assert most <= MOST
            assert used == ("ghost" if mode is None and build is mlp else "reference")


HIDDEN = {
    "a path that opens later": (lambda: Beside(gate=0.0), CLIP),
    "a wrong norm where nothing made up is clipped": (Beside, 1e4),
    "a meeting that opens later": (lambda: mixing(opening()), CLIP),
    "the same under dropout, whose batches cannot be compared": (
        lambda: mixing(Sequential(Dropout(0.5), opening())),
        CLIP,
    ),
}


@every_case("name", HIDDEN)
def test_what_does_not_show_at_the_first_weights_or_the_own_clip_norm_is_found(name):
    build, clip_norm = HIDDEN[name]
    found = moved(build(), clip_norm=clip_norm)
    assert found[1] == "reference" if found else "meeting" in name or "same" in name


@every_case("name", [*list(MEETINGS)[3:], *OUTSIDE_THE_LAYERS])
def test_unchecked_one_example_would_move_the_sum_by_more(name, monkeypatch):
    left_out(monkeypatch, "loop.require_apart", "loop.Unwritten.require", "step.set_up.disagreement")
    monkeypatch.setitem(globals(), "PAIRS", 30)
    left_out(monkeypatch, "step.set_up.runs_at_once", "step.ghost._require_in_order")
    build, loss = MEETINGS.get(name) or (OUTSIDE_THE_LAYERS[name], cross_entropy)
    mode, classes = "ghost", 4 if build is maps_back else 3
    most, _ = moved(build(), mode=mode, loss=loss, classes=classes)
    if name in OUTSIDE_THE_LAYERS:  # what layers add up is as long as they found it, though not the gradient
        assert most <= MOST
    else:
        assert most > 1.2 * CLIP
