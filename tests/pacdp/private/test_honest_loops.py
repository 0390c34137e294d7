"""Loops of one's own that mix no examples release the sum of what each of them gives, and every step is counted."""

import copy
import pickle
import warnings
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from clipped_networks import slowly as by_examples
from opacus.layers import DPLSTM
from opacus.utils import batch_memory_manager
from private_loops import CLIP, RARE, Shaken, X, Y, back_from, by, linear, made, total
from private_toys import CE, fresh, gradient, plain
from torch.nn import (
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    Embedding,
    Flatten,
    Linear,
    Module,
    ModuleDict,
    ModuleList,
    MSELoss,
    Sequential,
)
from torch.nn import functional as F
from torch.optim import SGD
from torch.testing import assert_close
from torch.utils.data import Dataset, Subset, TensorDataset

from pacdp.private import (
    DPSGD,
    BatchMemoryManager,
    EventAccountant,
    Mechanism,
    PrivateEngine,
    SeededRandomness,
    joined,
    planned,
    sampled_step,
    steps_of,
    train,
)
from pacdp.step.mechanism import MODES
from tests.marks import every_case, parametrize, refusal, slow
from tests.pacdp.draws import randint
from tests.pacdp.small_networks import Made


class Shifted(Dataset):
    """Another draw at every look."""

    def __len__(self):
        return 40

    def __getitem__(self, i):
        return X[i] + 0.1 * torch.randn(8), Y[i]


def speaking():
    return fresh(Sequential(Embedding(7, 4), Linear(4, 7)))


def one_logit():
    return fresh(Sequential(Linear(8, 1), Flatten(0)))


def sure():
    """Whose logits are its inputs turned over, so that of small slopes by them most digits are rounding."""
    net = Sequential(Linear(1, 1, bias=False), Flatten(0))
    torch.nn.init.constant_(net[0].weight, -1.0)
    return net


def recurrent():
    """The layer of Opacus's language examples."""
    return Made(lambda own, x: own.out(own.past(own.words(x))[0][:, -1]), words=Embedding(7, 4),
                past=DPLSTM(4, 3, batch_first=True), out=Linear(3, 2))  # fmt: skip


class Two(Module):
    """Two heads, and classes without a gradient."""

    def __init__(self):
        super().__init__()
        self.heads = fresh(ModuleDict({"a": Linear(8, 3), "b": Linear(8, 1)}))

    def forward(self, x):
        a = self.heads["a"](x)
        return {"a": a, "b": self.heads["b"](x), "class": a.argmax(1)}


def stacked(examples):
    return tuple(map(torch.stack, zip(*examples, strict=True)))


def by_confidence(out, y):
    """Sharper where a network is sure, by a weight that has no gradient."""
    losses = F.cross_entropy(out, y, reduction="none")
    with torch.no_grad():
        wrong = 1.0 - torch.exp(-losses)
    return (wrong.square() * losses).mean()


weighted = partial(F.cross_entropy, weight=torch.tensor([1.0, 2.0, 40.0]), reduction="none")
both = TensorDataset(X, Y)
text = randint(0, 7, (40, 6), seed=1)
tokens = TensorDataset(text[:, :5], text[:, 1:])


def of_bytes():
    return Made(lambda own, x: own.last(x.float() / 255), last=linear())


HONEST = {
    "the plain mean": (both, linear, CE, {}),
    "the sum": (both, linear, CrossEntropyLoss(reduction="sum"), {"loss_reduction": "sum"}),
    "a sum over the batch": (both, linear, lambda out, y: F.cross_entropy(out, y, reduction="sum") / len(y), {}),
    "a sum over the batch as a float": (
        both, linear, lambda out, y: F.cross_entropy(out, y, reduction="sum") / float(len(y)), {}),
    "class weights": (TensorDataset(X, RARE), linear, lambda out, y: weighted(out, y).mean(), {}),
    "weights under no_grad": (both, linear, by_confidence, {}),
    "smoothed labels": (both, linear, CrossEntropyLoss(label_smoothing=0.1), {}),
    "squares": (TensorDataset(X, X[:, :3]), linear, MSELoss(), {}),
    "two classes": (TensorDataset(X, X[:, :3].sign().clamp(min=0.0)), linear, BCEWithLogitsLoss(), {}),
    "one logit": (TensorDataset(X, 1.0 * (Y == 0)), one_logit, BCEWithLogitsLoss(), {}),
    "tokens": (tokens, speaking, lambda out, y: CE(out.view(-1, 7), y.view(-1)), {}),
    "a recurrent network": (TensorDataset(text, Y[:40]), recurrent, CE, {}),
    "tokens turned round": (TensorDataset(text, text.flip(1)), speaking,
                            lambda out, y: CE(out.transpose(1, 2), y), {}),
    "tokens turned round by the loss": (TensorDataset(text, text.sort(1).values), speaking,
                                        lambda out, y: CE(out.view(-1, 7), y.flip(1).flatten()), {}),
    "tokens by number": (tokens, speaking, lambda out, y: CE(out.reshape(len(y) * 5, 7), y.reshape(-1)), {}),
    "two outputs": (both, Two, lambda out, y: CE(out["a"], y) + (out["b"][:, 0] - y).square().mean()
                    + (out["class"] == y).float().mean(), {}),
    "picked by place": (both, linear, lambda out, y: -out.log_softmax(1)[torch.arange(len(y)), y].mean(), {}),
    "tokens picked by range": (tokens, speaking, lambda out, y: -out.log_softmax(2).flatten(0, 1)
                               [range(y.numel()), y.flatten()].mean(), {}),
    "the other class": (both, linear, lambda out, y: CE(out, 1 - y), {}),
    "scaled": (both, linear, lambda out, y: 1024.0 * CE(out, y), {}),
    "in parts": (both, linear, CE, {"parts": 3}),
    "bytes made floats": (TensorDataset((40 * X.abs()).byte(), Y), of_bytes, CE, {}),
    "one by one": (both, linear, lambda out, y: F.mse_loss(out, F.one_hot(y, 3).float()), {"parts": 1}),
    **{f"sure labels, {parts} at a time": (
        TensorDataset(torch.linspace(4, 14, 200)[:, None], torch.zeros(200)), sure, BCEWithLogitsLoss(),
        {"parts": parts}) for parts in (1, 2)},
    "two workers": (both, linear, CE, {"workers": 2}),
    "new draws": (Subset(Shifted(), range(40)), linear, CE, {}),
    "one's own stack": (both, linear, CE, {"collate": stacked}),
}  # fmt: skip


def slowly(net, loss, x, y):
    """The sum of clipped gradients, one example after the other."""
    return by_examples(net, x, y, loss=loss, clip_norm=CLIP)[0].sum(0).float()


@every_case("mode", ["reference", slow("ghost")])
@parametrize("name", HONEST)
def test_an_honest_loop_releases_the_sum_of_its_examples(name, mode):
    data, build, loss, options = HONEST[name]
    options = dict(options)
    net, parts = build(), options.pop("parts", 99)
    twin = copy.deepcopy(net)
    first = data[0][0]
    probe = None if first.is_floating_point() else (torch.stack([data[i][0] for i in range(4)]),)
    module, optimizer, loader, engine = made(
        net, data, mode=mode, sample_rate=0.2, steps=4, probe=probe, **options)  # fmt: skip
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=parts, optimizer=optimizer) as cut:
        expected = 0.0
        for x, y in cut if parts < 99 else loader:
            plain(module, optimizer, x, y, loss=loss)
            expected = expected + slowly(twin, loss, x, y)
            if not optimizer._is_last_step_skipped:
                # factors are C / (norm + 1e-6), of at most 41 examples
                assert_close(gradient(net), expected, atol=4.2e-5, rtol=1e-5)
                expected = 0.0
    assert steps_of(engine.event) == 4


@parametrize("used", [0, 1, 2])
def test_a_pass_that_was_left_within_a_batch_leaves_nothing_to_the_next(used):
    """The first part of a batch was added to that of the next, in which the same rows stood: they counted twice."""
    net = linear()
    module, optimizer, loader, engine = made(net, TensorDataset(X[:40], Y[:40]), steps=2)
    for last in (False, True):
        with BatchMemoryManager(data_loader=loader, max_physical_batch_size=20, optimizer=optimizer) as cut:
            for k, (x, y) in enumerate(cut):
                if k == used and not last:
                    break
                plain(module, optimizer, x, y)
                if not optimizer._is_last_step_skipped:
                    assert_close(gradient(net), slowly(net, CE, X[:40], Y[:40]), atol=4.2e-5, rtol=1e-5)
        optimizer.param_groups[0]["dampening"] = 0.1  # as a scheduler does between two passes
    assert steps_of(engine.event) == 2 + used // 2


def test_a_compiled_loss_or_network_is_followed_as_it_is_written():
    """With a loss that ran first, since the compiler does not read the gates of tests/typed.py."""
    compiled, steps = partial(torch.compile, backend="eager"), {"sample_rate": 0.5, "steps": 9}
    own = total(step=by(CE), net=linear, **steps)
    for loss in (compiled(CE), compiled(F.cross_entropy), compiled(lambda out, y: CE(out.float(), y))):
        assert torch.equal(total(step=by(loss), net=linear, **steps), own)
    assert_close(total(step=by(CE), net=lambda: compiled(linear()), **steps), own)


def test_a_step_that_is_compiled_as_a_whole_runs_as_it_is_written():
    """The compiler could not read how gradients of single examples are taken, nor how weights are compared.

    It runs first as it is written, since the compiler does not read the gates of tests/typed.py.
    """

    def step(module, optimizer, x, y):
        optimizer.zero_grad()
        CE(module(x, torch.tensor(2.0)), y).backward()
        optimizer.step()

    build = lambda: fresh(Made(lambda own, x, by=1.0: own.out(x) * by, out=Linear(8, 3, bias=False)))  # noqa: E731
    own = total(step=step, net=build, sample_rate=0.5, steps=9)
    assert_close(total(step=torch.compile(step, backend="eager"), net=build, sample_rate=0.5, steps=9), own)


def test_losses_of_single_examples_go_back_with_a_weight_for_each():
    """As Opacus's own test of its noise does."""
    own = total(step=back_from(lambda y: 1.0 + y), net=linear, loss_reduction="sum")
    loss = lambda out, y: (F.cross_entropy(out, y, reduction="none") * (1.0 + y)).sum()  # noqa: E731
    assert_close(own, slowly(linear(), loss, X, Y), atol=4.2e-5, rtol=1e-5)


def test_a_network_may_send_each_example_to_a_layer_of_its_own():
    """Nobody goes to some of them in a small batch, where the trial found no gradient to compare."""

    def sent(own, x):
        weight, chosen = own.choice(x).softmax(1).max(1)
        found = x.new_zeros(len(x), 3)
        for k, expert in enumerate(own.experts):
            rows = (chosen == k).nonzero()[:, 0]
            if len(rows):
                found = found.index_add(0, rows, weight[rows, None] * expert(x[rows]))
        return found

    build = lambda: fresh(Made(sent, choice=Linear(8, 9), experts=ModuleList(Linear(8, 3) for _ in range(9))))  # noqa: E731
    assert_close(total(net=build), slowly(build(), CE, X, Y), atol=4.2e-5, rtol=1e-5)


@parametrize("rate", [1.0, 1e-9])
def test_outputs_that_are_no_tensors_are_left_alone_in_empty_batches_too(rate):
    pair = partial(Made, lambda own, x: (own.out(x), None, "classes"))
    own = total(step=by(lambda out, y: CE(out[0], y)), net=lambda: pair(out=linear()), sample_rate=rate, steps=1)
    expected = slowly(linear(), CE, X, Y) if rate == 1.0 else torch.zeros(27)
    assert_close(own, expected, atol=4.2e-5, rtol=1e-5)


class Scaled(Linear):
    """Whose answers are multiplied by numbers that it is given by name."""

    def __init__(self):
        super().__init__(8, 3)
        torch.nn.init.zeros_(self.bias)
        torch.nn.init.constant_(self.weight, 0.1)

    def forward(self, input, *, by=1.0):
        return super().forward(input) * by


class Margins(Module):
    """Lowers the answer of each example's own class, where labels are given, by a table that all examples share."""

    def __init__(self):
        super().__init__()
        self.last = linear()

    def forward(self, x, labels=None, by=None):
        outputs = self.last(x)
        return outputs if labels is None else outputs - F.one_hot(labels, 3).float() @ by


@parametrize("mode", [None, "reference", "ghost"])
@parametrize("rate", [1.0, 1e-9])
def test_a_network_may_have_further_arguments_by_name(mode, rate):
    """A table of three rows became one of one row in an empty batch, and vmap's words were the answer to the rest."""

    def step(module, optimizer, x, y):
        plain(lambda rows: module(rows, labels=y, by=torch.eye(3)), optimizer, x, y)

    own = total(step=step, net=Margins, mode=mode, sample_rate=rate, steps=1)
    expected = slowly(linear(), lambda out, y: CE(out - F.one_hot(y, 3), y), X, Y)
    assert_close(own, expected if rate == 1.0 else torch.zeros(27), atol=4.2e-5, rtol=1e-5)


def test_ghost_clipping_follows_what_a_layer_is_given_by_name():
    """Its gradient was that of the layer without these, or ended in torch's words."""
    build = lambda: Made(lambda own, x: own.last(x, by=x[:, :3]), last=Scaled())  # noqa: E731
    assert_close(total(net=build, mode="ghost"), total(net=build, mode="reference"), atol=4.2e-5, rtol=1e-5)


def test_inputs_that_are_drawn_anew_may_have_weights_by_label_and_targets_of_their_own():
    """Of inputs that never come again the labels tell what is the same at every step, and what is each one's own."""

    def step(module, optimizer, x, y):
        def loss(out, y):
            sharp = (x[:, 0] > X[:, 0].mean()).float()
            return (torch.tensor([1.0, 5.0])[y] * sharp * F.cross_entropy(out, y, reduction="none")).mean()

        plain(module, optimizer, x, y, loss=loss)

    total(Shaken(), step=step, sample_rate=0.7, steps=9)


def test_train_takes_outputs_of_which_the_first_is_none():
    """It looked for classes in None."""
    pair = Made(lambda own, x: (None, own.out(x)), out=linear())
    loss = lambda out, y: F.cross_entropy(out[1], y, reduction="none")  # noqa: E731
    numbers = Mechanism(clip_norm=1.0, noise_multiplier=1.0, sample_rate=0.5, expected_batch_size=20.0, steps=2)
    assert steps_of(train(DPSGD(), pair, both, mechanism=numbers, loss=loss).event) == 2


def test_examples_may_be_records_of_which_the_collate_function_makes_tensors():
    """Opacus's loader wants a list of fields of each."""
    records = Subset([SimpleNamespace(x=x, y=y) for x, y in both], range(41))
    *loop, _ = made(linear(), records, collate=lambda some: stacked([(one.x, one.y) for one in some]), steps=1)
    for x, y in loop[2]:
        plain(*loop[:2], x, y)
    assert_close(gradient(loop[0]), slowly(linear(), CE, X, Y), atol=4.2e-5, rtol=1e-5)


class Noting(CrossEntropyLoss):
    """Keeps its last losses, for a log."""

    last = None

    def forward(self, outputs, targets):  # pyright: ignore[reportIncompatibleMethodOverride]
        found = super().forward(outputs, targets)
        self.last = found.detach()
        return found


@parametrize("kind", [CrossEntropyLoss, Noting])
@parametrize("mode", MODES)
def test_a_criterion_that_is_handed_over_is_taken_of_single_examples(mode, kind):
    net = linear()
    twin, engine = copy.deepcopy(net), PrivateEngine(randomness=SeededRandomness(0))
    module, optimizer, criterion, loader = engine.make_private(
        module=net, optimizer=SGD(net.parameters(), lr=0.0), dataset=TensorDataset(X, RARE), noise_multiplier=0.0,
        max_grad_norm=CLIP, sample_rate=1.0, expected_batch_size=1.0, grad_sample_mode=mode, steps=2,
        criterion=kind(weight=torch.tensor([1.0, 2.0, 40.0])))  # fmt: skip
    for batch in loader:
        plain(module, optimizer, *batch, loss=criterion)
    assert_close(gradient(net), slowly(twin, weighted, X, RARE), atol=4.2e-5, rtol=1e-5)


def test_a_constant_may_be_the_number_of_examples_by_chance():
    """As 2 in a Dice score, or the square of a temperature."""

    def scaled(out, y):
        return torch.tensor(41.0) * CE(out, y)

    assert_close(total(net=linear, step=by(scaled)), slowly(linear(), scaled, X, Y), atol=4.2e-5, rtol=1e-5)


def test_a_network_may_be_held_to_one_that_it_still_is():
    """The gradient of the first step is rounding alone."""
    teacher = copy.deepcopy(linear())

    def held(out, y):
        return F.cross_entropy(out, teacher(X).softmax(1).detach())

    assert total(net=linear, step=by(held)).norm() < 1e-5


@parametrize(
    "change",
    [
        lambda loss, y: setattr(loss, "weight", torch.bincount(y, minlength=3) + 1.0),
        lambda loss, y: loss.weight.copy_(torch.bincount(y, minlength=3) + 1.0),
        lambda loss, y: loss.further.__setitem__(0, float(len(y))),
    ],
)
def test_a_criterion_whose_weights_follow_the_batch_is_refused(change):
    """It shares its buffers with the one that was handed over, and is one call of the record."""
    loss = CrossEntropyLoss(weight=torch.ones(3))
    loss.further = [1.0]
    module, optimizer, criterion, loader, _ = made(
        linear(), TensorDataset(X, RARE), sample_rate=0.5, steps=9, criterion=loss
    )
    with refusal("weights and numbers of the criterion changed"):
        for x, y in loader:
            change(loss, y)
            plain(module, optimizer, x, y, loss=criterion)


def test_a_step_is_counted_whatever_hooks_are_attached():
    """T7: Opacus's public method put the account away."""
    seen = []
    module, optimizer, loader, engine = made(linear(), both, noise_multiplier=2.0, steps=3)
    for k in range(2):
        optimizer.attach_step_hook(lambda _, k=k: seen.append(k))
    with warnings.catch_warnings(action="error"):  # nothing is remarked upon at each step
        for x, y in loader:
            plain(module, optimizer, x, y)
            if len(seen) == 4:
                optimizer.step_hook = None
    assert engine.event == planned(2.0, sample_rate=1.0, steps=3)
    assert seen == [0, 1, 0, 1]


def test_a_copy_of_the_optimizer_is_refused_and_harms_nothing():
    module, optimizer, loader, engine = made(linear(), both, steps=2)
    for copied in (copy.deepcopy, pickle.dumps):
        with refusal("neither copied nor pickled", TypeError):
            copied(optimizer)
    with refusal("a copy of the private module does not train"):
        copy.deepcopy(module)(X)
    for private in (module, copy.deepcopy(module)):
        with refusal("not pickled as it stands", TypeError):  # it holds rows of the last batch
            pickle.dumps(private)
    for x, y in loader:
        plain(module, optimizer, x, y)
    assert steps_of(engine.event) == 2


def test_a_loss_is_printed_copied_and_written_as_any_tensor(tmp_path):
    """Its record would carry the guard, and the rows of a batch, into the file."""
    module, _, loader, _ = made(linear(), both, steps=1)
    for x, y in loader:
        loss = CE(module(x), y)
        assert f"{loss:.3f}" == f"{loss.item():.3f}"
        torch.save({"loss": loss}, tmp_path / "last.pt")
        for kept in (copy.deepcopy(loss.detach()), torch.load(tmp_path / "last.pt")["loss"]):
            assert type(kept) is torch.Tensor
            assert kept.item() == loss.item()


def test_the_history_can_be_read_and_written_and_a_large_delta_is_remarked_upon():
    triples = [(1.0, 0.1, 2), (2.0, 1.0, 3)]
    one, other = EventAccountant(), EventAccountant()
    one.history = triples
    other.history = one.history
    assert other.history == triples
    assert other.event == one.event
    one.event = joined(one.event, sampled_step([0.0], sample_rate=0.1))
    assert one.history == [*triples, (0.0, 1.0, 1)]
    one.step(noise_multiplier=1.0, sample_rate=0.1)
    with refusal("steps that ran, which another history would forget"):
        one.history = []
    for forget in (lambda: setattr(one, "event", None), lambda: one.begin(None)):
        with refusal("would forget"):
            forget()
    assert len(one) == 7
    engine = made(linear(), both, noise_multiplier=2.0)[3]
    with refusal("accountant cannot be exchanged, since another would forget the steps that ran"):
        engine.accountant = EventAccountant()
    for adjacency in ("add-remove", "replace-one"):
        with pytest.warns(UserWarning, match="1/n"):
            assert engine.get_epsilon(0.03, adjacency=adjacency) == 0.0


@parametrize("cut", [BatchMemoryManager, batch_memory_manager.BatchMemoryManager])
def test_a_part_that_is_left_out_moves_none_of_another_batch_into_a_step(cut):
    """Parts are of one size, and of those that other processes loaded sizes alone were compared: rows counted twice."""
    data = TensorDataset(torch.eye(24), torch.zeros(24, dtype=torch.int64))
    module, optimizer, loader, engine = made(
        Linear(24, 3), data, mode="reference", workers=1, sample_rate=0.5, steps=6)  # fmt: skip
    with refusal("none left out|take BatchMemoryManager from pacdp.private"):
        with cut(data_loader=loader, max_physical_batch_size=3, optimizer=optimizer) as parts:
            for k, (x, y) in enumerate(parts):
                if k != 1:  # as where memory ran out, or a loss was not finite
                    plain(module, optimizer, x, y)
    assert steps_of(engine.event) == 0
