"""Loops of one's own: what mixes examples, or steps on something else than the batch, is refused before the step."""

import copy
import warnings
from functools import partial

import pytest
import torch
from clipped_networks import slowly as by_examples
from opacus.layers import DPLSTM
from private_toys import fresh, gradient
from torch.nn import (
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    Embedding,
    Flatten,
    Identity,
    Linear,
    Module,
    ModuleDict,
    MSELoss,
    Parameter,
    Sequential,
    init,
)
from torch.nn import functional as F
from torch.optim import SGD
from torch.testing import assert_close
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate

from pacdp.private import (
    BatchMemoryManager,
    EventAccountant,
    PrivateEngine,
    SeededRandomness,
    joined,
    planned,
    sampled_step,
    steps_of,
)
from pacdp.step.mechanism import MODES
from tests.marks import every_case, parametrize, refusal, slow
from tests.pacdp.draws import randint
from tests.pacdp.small_networks import Made
from tests.pacdp.toys import seeded
from tests.refusals import refuses

CLIP, CE = 1.0, CrossEntropyLoss()
SOURCE = seeded()
X, Y = 0.3 * torch.randn(41, 8, generator=SOURCE), torch.randint(0, 2, (41,), generator=SOURCE)
RARE = torch.cat([Y[:-1], torch.tensor([2])])
ALIKE = torch.full((41, 8), 0.0105), torch.ones(41, dtype=torch.int64)
FEW = (torch.cat([torch.full((10, 8), 0.105), torch.zeros(30, 8), -torch.ones(1, 8)]), ALIKE[1].clone())
FEW[1][10:40] = -100


def linear():
    return fresh(Linear(8, 3))


def zeros(bias=True):
    net = Linear(8, 3, bias=bias)
    for p in net.parameters():
        init.zeros_(p)
    return net


def made(net, data, *, mode=None, optimizer=None, collate=None, workers=0, **changes):
    """(module, optimizer, loader, engine) of a loop without noise whose steps move nothing, on all examples at once."""
    settings = {
        "noise_multiplier": 0.0,
        "max_grad_norm": CLIP,
        "sample_rate": 1.0,
        "expected_batch_size": 1.0,
    } | changes
    engine = PrivateEngine(randomness=SeededRandomness(0))
    module, optimizer, loader = engine.make_private(
        module=net,
        optimizer=optimizer or SGD(net.parameters(), lr=0.0),
        data_loader=DataLoader(data, collate_fn=collate, num_workers=workers),
        grad_sample_mode=mode,
        **settings,
    )
    return module, optimizer, loader, engine


def plain(module, optimizer, x, y, *, loss=CE):
    optimizer.zero_grad()
    loss(module(x), y).backward()
    optimizer.step()


def total(data=(X, Y), *, step=plain, net=zeros, mode=None, **options):
    """The sum of clipped gradients that one step of a loop releases."""
    net = net()
    module, optimizer, loader, _ = made(net, TensorDataset(*data), mode=mode, **options)
    for batch in loader:
        step(module, optimizer, *batch)
    return gradient(net)


def by(loss):
    return partial(plain, loss=loss)


def mixup(module, optimizer, x, y):
    plain(module, optimizer, 0.5 * x + 0.5 * x.flip(0), y)


def in_place(module, optimizer, x, y):
    plain(module, optimizer, x.sub_(x.mean(0)), y)


def filled(outputs, targets):
    outputs.detach().numpy()[:, 0].fill(5.0)
    return CE(outputs, targets)


def foreign(module, optimizer, x, y):
    largest = X.norm(dim=1).topk(len(x)).indices
    plain(module, optimizer, X[largest], Y[largest])


def second_optimizer(module, optimizer, x, y):
    CE(module(x), y).backward()
    SGD(module.parameters(), lr=1.0, weight_decay=1.0).step()
    with torch.no_grad():
        next(module.parameters()).add_(1.0)
    optimizer.step()


def exchanged(module, optimizer, x, y):
    CE(module(x), y).backward()
    next(module.parameters()).data[0, :2] += torch.tensor([0.5, -0.5])
    optimizer.step()


def closure(module, optimizer, x, y):
    optimizer.step(lambda: CE(module(x), y).backward())


def late_hook(module, optimizer, x, y):
    next(iter(module.children())).register_forward_hook(lambda _, __, out: 9.0 * out.mean(0) + out)
    plain(module, optimizer, x, y)


def hook_on_the_outputs(module, optimizer, x, y):
    outputs = module(x)
    outputs.register_hook(lambda slope: slope * len(x))
    CE(outputs, y).backward()
    optimizer.step()


def another_way(module, optimizer, x, y):
    torch.autograd.backward(CE(module(x), y))
    optimizer.step()


def twice(module, optimizer, x, y):
    loss = CE(module(x), y)
    loss.backward(retain_graph=True)
    loss.backward()


def two_passes(module, optimizer, x, y):
    (CE(module(x), y) + CE(module(x), y)).backward()


def two_passes_back(module, optimizer, x, y):
    for _ in range(2):
        CE(module(x), y).backward()


def back_from(weights):
    """A loop whose backward pass begins at the losses of single examples, with a weight for each."""

    def step(module, optimizer, x, y):
        F.cross_entropy(module(x), y, reduction="none").backward(weights(y))
        optimizer.step()

    return step


def tampered(change):
    """A loop that changes gradients between backward and step."""

    def step(module, optimizer, x, y):
        CE(module(x), y).backward()
        for parameter in module.parameters():
            change(parameter)
        optimizer.step()

    return step


def centre_through_numpy(x):
    values = x.numpy()
    values -= values.mean(0)


def through_numpy(module, optimizer, x, y):
    centre_through_numpy(x)
    plain(module, optimizer, x, y)


def late_through_numpy(module, optimizer, x, y):
    loss = CE(module(x), y)
    centre_through_numpy(x)
    loss.backward()
    optimizer.step()


def late_attribute(module, optimizer, x, y):
    loss = CE(module(x), y)
    next(iter(module.children())).late_too = float(x.mean())
    loss.backward()


def changed(change):
    """A loop that changes the network that was tried."""

    def step(module, optimizer, x, y):
        change(next(iter(module.children())))
        plain(module, optimizer, x, y)

    return step


def blocks():
    net = Sequential(Identity(), Linear(8, 3))
    net.register_buffer("late", torch.zeros(()))
    net.late_too = False
    return net


def standardised_target(out, y):
    return F.mse_loss(out[:, 0], (y - y.float().mean()) / y.float().std())


def two_steps(module, optimizer, x, y):
    plain(module, optimizer, x, y)
    optimizer.step()


def unfrozen(module, optimizer, x, y):
    list(module.parameters())[1].requires_grad_(False)
    plain(module, optimizer, x, y)


def over_columns(examples):
    """Pad to the longest: here, zeros behind the last column that any example uses, and their number over all."""
    x, y = default_collate(examples)
    return x / x.abs().sum(), y


def standardised(examples):
    x, y = default_collate(examples)
    return (x - x.mean(0)) / (x.std(0, correction=0) + 1e-9), y


def hardest(outputs, targets):
    return F.cross_entropy(outputs, targets, reduction="none").topk(max(1, len(targets) // 40)).values.mean()


def written(outputs, targets):
    outputs = outputs.clone()
    outputs[:, 0] = outputs[:, 0].mean()
    return CE(outputs, targets)


def shortened():
    """An embedding whose forward pass shortens its weights."""
    return Made(lambda own, x: own.first((x[:, 0] > 0).long()), first=Embedding(3, 8, max_norm=0.1))


class First(Module):
    """A layer that takes a weight from its first batch."""

    def __init__(self):
        super().__init__()
        self.last, self.shift, self.new = (Linear(8, 3), Parameter(torch.zeros(8), requires_grad=False), True)

    def forward(self, x):
        if self.new and self.training and len(x) == 41:
            self.new = False
            self.shift.data.copy_(x.mean(0))
        return self.last(x - self.shift)


def hooked():
    net = Linear(8, 3)
    net.register_forward_hook(lambda _, __, out: out - out.mean(0))
    return net


def mixing():
    """Batches of more than 300 are centred."""
    return Made(lambda own, x: own.last(9.0 * (x - x.mean(0)) if len(x) > 300 else x), last=Linear(8, 3))


LARGE = X.repeat(9, 1), Y.repeat(9)
NOT_OWN, OTHER_ROWS = "depends on the other examples", "other rows than the batch"
MOVED = "wrote into a parameter|changes first.weight"
WRITTEN, CAME_BEFORE, LATER = ("gradients .* were written", "than when it came before", "after make_private")
ALONE, COLLATE = "cannot be computed for an example alone", "collate function gives"
LOOPS = {
    "class weights": (
        {"data": (X, RARE), "step": by(CrossEntropyLoss(weight=torch.tensor([1.0, 1.0, 40.0])))}, NOT_OWN),
    "a sum": ({"data": ALIKE, "step": by(CrossEntropyLoss(reduction="sum")), "net": partial(zeros, bias=False)},
              "loss is a sum over the examples"),
    "a mean": ({"loss_reduction": "sum"}, "loss is a mean over the examples"),
    "ignored labels": ({"data": FEW, "net": partial(zeros, bias=False)}, NOT_OWN),
    "the harder half": (by(hardest), ALONE + "|" + NOT_OWN),
    "centred outputs": ({"step": by(lambda out, y: CE(9.0 * out - 9.0 * out.mean(0), y))}, NOT_OWN),
    "over the loss": ({"step": by(lambda out, y: CE(out, y) / CE(out, y).detach()),
                               "net": linear}, NOT_OWN),
    "another's label": ({"data": (X, RARE), "step": by(lambda out, y: CE(out, y.roll(1)))}, "in another order"),
    "times the batch": ({"step": by(lambda out, y: CE(out, y) * len(y))}, "multiplied by 41"),
    "in place": (by(written), "in place"),
    "padded": ({"collate": over_columns}, COLLATE),
    "standardised": ({"collate": standardised}, COLLATE),
    "mixup": (mixup, OTHER_ROWS),
    "centred in place": (in_place, OTHER_ROWS),
    "outputs through NumPy": (by(filled), "depends on the other examples"),
    "a foreign batch": ({"step": foreign, "sample_rate": 0.5}, OTHER_ROWS),
    "a larger one": ({"step": lambda net, optimizer, *_: plain(net, optimizer, X, Y), "sample_rate": 0.5}, OTHER_ROWS),
    "two passes": ({"step": two_passes, "mode": "reference"}, "several forward passes"),
    "two passes back": (two_passes_back, "second time before a step"),
    "a second optimizer": (second_optimizer, MOVED),
    "weights of the same sum": (exchanged, MOVED),
    "a closure": (closure, "takes no closure"),
    "a late hook": ({"step": late_hook, "net": lambda: Sequential(zeros())}, "after make_private"),
    "unfreezing": (unfrozen, "after make_private"),
    "a hook on the outputs": ({"data": ALIKE, "step": hook_on_the_outputs}, "loss is a sum"),
    "another way back": (another_way, r"did not begin at loss\.backward"),
    "back twice": (twice, "second time before a step"),
    "written gradients": (tampered(lambda p: setattr(p, "grad", p.detach() * 9)), WRITTEN),
    "other gradients": (tampered(lambda p: setattr(p, "grad_sample", p.detach()[None])), WRITTEN),
    "a sum beforehand": (tampered(lambda p: setattr(p, "summed_grad", p.detach() * 9)), WRITTEN),
    "rows through NumPy": (through_numpy, OTHER_ROWS),
    "standardised targets": ({"data": (X, RARE), "step": by(standardised_target), "sample_rate": 0.5, "steps": 9},
                             CAME_BEFORE),
    "weights of the batch": ({"data": (X, RARE), "step": by(lambda out, y: (F.cross_entropy(out, y, reduction="none")
                             / torch.bincount(y)[y]).mean()), "sample_rate": 0.5, "steps": 9}, CAME_BEFORE),
    "back from weights of the batch": (
        {"data": (X, RARE), "step": back_from(lambda y: 1.0 / torch.bincount(y)[y]), "loss_reduction": "sum",
         "sample_rate": 0.5, "steps": 9}, CAME_BEFORE),
    **{f"a later {name}": ({"step": changed(change), "net": blocks}, LATER) for name, change in {
        "layer": lambda net: net.__setitem__(0, Flatten()), "buffer": lambda net: net.late.fill_(1.0),
        "attribute": lambda net: setattr(net, "late_too", True),
        "forward": lambda net: setattr(net, "forward", net[1].forward)}.items()},
    "an attribute before backward": ({"step": late_attribute, "net": blocks, "mode": "reference"}, LATER),
    **{f"times {name}": ({"step": by(loss), "sample_rate": 0.5, "steps": 9}, "changed from one step to another")
       for name, loss in {
           "a whole number": lambda out, y: CE(out, y) * int(y.sum()),
           "a mean": lambda out, y: CE(out, y) * y.float().mean(),
           "a detached loss": lambda out, y: CE(out, y) / F.cross_entropy(out, y).item()}.items()},
    "an early hook": ({"net": hooked}, "not independent"),
    "two steps": (two_steps, "zero_grad and backward before each step"),
    "weights that a pass writes": ({"net": shortened}, MOVED),
    "weights of the first batch": ({"net": First}, LATER),
    "more than 300": ({"data": LARGE, "net": mixing}, "outputs of 33 examples are others"),
}  # fmt: skip


test_a_loop_moves_the_sum_by_at_most_the_clip_norm_or_is_refused = refuses(
    [
        (partial(total, **{"mode": mode, **(options if type(options) is dict else {"step": options})}), words)
        for options, words in LOOPS.values()
        for mode in (None, "reference")
    ]
)


@parametrize("mode", MODES)
def test_what_is_written_into_a_batch_after_the_forward_pass_is_not_seen(mode):
    found, expected = (total(step=step, net=linear, mode=mode) for step in (late_through_numpy, plain))
    assert torch.equal(found, expected)


def penalised(module, optimizer, x, y):
    (CE(module(x), y) + sum(p.square().sum() for p in module.parameters())).backward()


def test_terms_and_weights_that_are_no_example_s_are_refused():
    with refusal("data_free_gradient"):
        total(step=penalised)
    net = Sequential(Linear(8, 3), Linear(3, 3))
    with refusal("not in optimizer"):
        made(net, TensorDataset(X, Y), optimizer=SGD(net[1].parameters(), lr=0.1))


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


weighted = partial(F.cross_entropy, weight=torch.tensor([1.0, 2.0, 40.0]), reduction="none")
both = TensorDataset(X, Y)
text = randint(0, 7, (40, 6), seed=1)
tokens = TensorDataset(text[:, :5], text[:, 1:])
HONEST = {
    "the plain mean": (both, linear, CE, {}),
    "the sum": (both, linear, CrossEntropyLoss(reduction="sum"), {"loss_reduction": "sum"}),
    "a sum over the batch": (both, linear, lambda out, y: F.cross_entropy(out, y, reduction="sum") / len(y), {}),
    "class weights": (TensorDataset(X, RARE), linear, lambda out, y: weighted(out, y).mean(), {}),
    "smoothed labels": (both, linear, CrossEntropyLoss(label_smoothing=0.1), {}),
    "squares": (TensorDataset(X, X[:, :3]), linear, MSELoss(), {}),
    "two classes": (TensorDataset(X, X[:, :3].sign().clamp(min=0.0)), linear, BCEWithLogitsLoss(), {}),
    "one logit": (TensorDataset(X, 1.0 * (Y == 0)), one_logit, BCEWithLogitsLoss(), {}),
    "tokens": (tokens, speaking, lambda out, y: CE(out.view(-1, 7), y.view(-1)), {}),
    "a recurrent network": (TensorDataset(text, Y[:40]), recurrent, CE, {}),
    "tokens by number": (tokens, speaking, lambda out, y: CE(out.reshape(len(y) * 5, 7), y.reshape(-1)), {}),
    "two outputs": (both, Two, lambda out, y: CE(out["a"], y) + (out["b"][:, 0] - y).square().mean()
                    + (out["class"] == y).float().mean(), {}),
    "the other class": (both, linear, lambda out, y: CE(out, 1 - y), {}),
    "scaled": (both, linear, lambda out, y: 1024.0 * CE(out, y), {}),
    "in parts": (both, linear, CE, {"parts": 3}),
    "two workers": (both, linear, CE, {"workers": 2}),
    "new draws": (Shifted(), linear, CE, {}),
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
            optimizer.zero_grad()
            loss(module(x), y).backward()
            optimizer.step()
            expected = expected + slowly(twin, loss, x, y)
            if not optimizer._is_last_step_skipped:
                # factors are C / (norm + 1e-6), of at most 41 examples
                assert_close(gradient(net), expected, atol=4.2e-5, rtol=1e-5)
                expected = 0.0
    assert steps_of(engine.event) == 4


def test_losses_of_single_examples_go_back_with_a_weight_for_each():
    """As Opacus's own test of its noise does."""
    own = total(step=back_from(lambda y: 1.0 + y), net=linear, loss_reduction="sum")
    loss = lambda out, y: (F.cross_entropy(out, y, reduction="none") * (1.0 + y)).sum()  # noqa: E731
    assert_close(own, slowly(linear(), loss, X, Y), atol=4.2e-5, rtol=1e-5)


@parametrize("mode", MODES)
def test_a_criterion_that_is_handed_over_is_taken_of_single_examples(mode):
    net = linear()
    twin, engine = copy.deepcopy(net), PrivateEngine(randomness=SeededRandomness(0))
    module, optimizer, criterion, loader = engine.make_private(
        module=net, optimizer=SGD(net.parameters(), lr=0.0), dataset=TensorDataset(X, RARE), noise_multiplier=0.0,
        max_grad_norm=CLIP, sample_rate=1.0, expected_batch_size=1.0, grad_sample_mode=mode,
        criterion=CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 40.0])))  # fmt: skip
    for batch in loader:
        plain(module, optimizer, *batch, loss=criterion)
    assert_close(gradient(net), slowly(twin, weighted, X, RARE), atol=4.2e-5, rtol=1e-5)


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
    with refusal("not copied", TypeError):
        copy.deepcopy(optimizer)
    copy.deepcopy(module)
    for x, y in loader:
        plain(module, optimizer, x, y)
    assert steps_of(engine.event) == 2


def test_the_history_can_be_read_and_written_and_a_large_delta_is_remarked_upon():
    triples = [(1.0, 0.1, 2), (2.0, 1.0, 3)]
    one, other = EventAccountant(), EventAccountant()
    one.history = triples
    other.history = one.history
    assert other.history == triples
    assert other.event == one.event
    one.event = joined(one.event, sampled_step([0.0], sample_rate=0.1))
    assert one.history == [*triples, (0.0, 1.0, 1)]
    engine = made(linear(), both, noise_multiplier=2.0)[3]
    for adjacency in ("add-remove", "replace-one"):
        with pytest.warns(UserWarning, match="1/n"):
            assert engine.get_epsilon(0.03, adjacency=adjacency) == 0.0
