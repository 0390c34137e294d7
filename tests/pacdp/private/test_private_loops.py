"""Loops of one's own: what mixes examples, or steps on something else than the batch, is refused before the step."""

from functools import partial
from types import SimpleNamespace

import torch
from private_loops import RARE, Shaken, X, Y, back_from, by, linear, made, total, zeros
from private_toys import CE, plain
from torch.nn import (
    CrossEntropyLoss,
    Dropout,
    Embedding,
    Flatten,
    Identity,
    Linear,
    Module,
    Parameter,
    Sequential,
)
from torch.nn import functional as F
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.utils import parametrizations
from torch.optim import SGD
from torch.utils.data import Subset, TensorDataset, default_collate

from pacdp.step.mechanism import MODES
from tests.marks import parametrize, refusal
from tests.pacdp.small_networks import Made
from tests.refusals import refuses

ALIKE = torch.full((41, 8), 0.0105), torch.ones(41, dtype=torch.int64)
FEW = (torch.cat([torch.full((10, 8), 0.105), torch.zeros(30, 8), -torch.ones(1, 8)]), ALIKE[1].clone())
FEW[1][10:40] = -100


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


def hook_of_all_modules(module, optimizer, x, y):
    hook = register_module_forward_hook(lambda _, __, out: 9.0 * out.mean(0) + out if len(out) > 1 else None)
    try:
        plain(module, optimizer, x, y)
    finally:
        hook.remove()


class Centred(Linear):
    """A class that a layer may be turned into."""

    def forward(self, x):
        outputs = super().forward(x)
        return 9.0 * outputs.mean(0) + outputs


def hook_on_the_outputs(module, optimizer, x, y):
    outputs = module(x)
    outputs.register_hook(lambda slope: slope * len(x))
    CE(outputs, y).backward()
    optimizer.step()


class Told(Module):
    """A network that may be told to centre a batch, how often its classes are, or where its rows end."""

    def __init__(self):
        super().__init__()
        self.last = linear()

    def forward(self, x, labels=None, *, centred=False, by=None, ends=None):
        counts = 0.0 if labels is None else F.one_hot(labels, 3).sum(0)
        counts = torch.as_tensor(getattr(by, "counts", by)[-3:]) if by is not None else counts
        outputs = self.last(x) + counts + (0 if ends is None else ends[-1])
        return outputs - outputs.mean(0) if centred else outputs


def told(**arguments):
    """A loop that calls the network with further arguments, of which ``labels`` are those of the batch."""

    def step(module, optimizer, x, y):
        own = arguments | {name: y for name in ("labels", "ends") if name in arguments}
        plain(lambda rows: module(rows, **own), optimizer, x, y)

    return step


class Support:
    """What a loop tells a network of the batch, in the same object at every step."""

    def tell(self, module, optimizer, x, y):
        self.counts = y.bincount(minlength=3)
        plain(lambda rows: module(rows, by=self), optimizer, x, y)


def told_in_an_array(module, optimizer, x, y):
    """Of so many numbers NumPy prints the first and the last ones alone."""
    plain(lambda rows: module(rows, by=(y + 50).bincount(minlength=2000).numpy()), optimizer, x, y)


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


def weights_of_another_name(module, optimizer, x, y):
    CE(module(x), y).backward()
    parametrizations.weight_norm(next(iter(module.children()))[1])
    optimizer.step()


def changed(change):
    """A loop that changes the network that was tried."""

    def step(module, optimizer, x, y):
        change(next(iter(module.children())))
        plain(module, optimizer, x, y)

    return step


class Scaling:
    """A hook that reads a number."""

    scale = 1.0

    def __call__(self, _, __, outputs):
        return outputs * self.scale


def blocks():
    heat = [1.0]

    class Warmed(Identity):
        scale = 1.0

        def forward(self, x):
            return x * heat[-1] * self.scale

        @staticmethod
        def warm():
            heat.append(2.0)

    net = Sequential(Warmed(), Linear(8, 3))
    net[1].register_forward_hook(Scaling())
    net.register_buffer("late", torch.zeros(()))
    net.late_too, net.in_place, net.further = False, torch.zeros(()), SimpleNamespace(scale=[1.0])
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


def padded_in_place(records):
    """Pad the records themselves, which are as long as the longest from then on, as loops on dictionaries do."""
    longest = max(len(record["x"]) for record in records)
    for record in records:
        record["x"] = F.pad(record["x"], (0, longest - len(record["x"])))
    return default_collate([(record["x"], record["y"]) for record in records])


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


def rate_by_size(module, optimizer, x, y):
    optimizer.param_groups[0]["lr"] = 1e-9 * len(x)
    plain(module, optimizer, x, y)


def rate_by_the_part(module, optimizer, x, y):
    plain(module, optimizer, x, y)
    optimizer.param_groups[0]["lr"] += 1e-9


def hook_after_the_noise(module, optimizer, x, y):
    optimizer.attach_step_hook(lambda _: [p.grad.add_(x.mean()) for p in module.parameters()])
    plain(module, optimizer, x, y)


def other_divisor(module, optimizer, x, y):
    optimizer.expected_batch_size = len(x)
    plain(module, optimizer, x, y)


def momentum_of_the_batch(module, optimizer, x, y):
    for state in optimizer.original_optimizer.state.values():
        state["momentum_buffer"].add_(x.mean())
    plain(module, optimizer, x, y)


def hooked_afterwards(module, optimizer, x, y):
    optimizer.original_optimizer.register_step_post_hook(lambda *_: None)
    plain(module, optimizer, x, y)


def hook_that_moves_weights(module, optimizer, x, y):
    def hook(_):
        with torch.no_grad():
            next(iter(module.parameters())).add_(x.mean())

    optimizer.attach_step_hook(hook)
    plain(module, optimizer, x, y)


def between_steps(module, optimizer, x, y):
    plain(module, optimizer, x, y)
    with torch.no_grad():
        next(iter(module.parameters())).add_(x.mean())


class WithLoss(Linear):
    """A network that gives its loss where it is given the labels, and takes words."""

    def __init__(self):
        super().__init__(8, 3)

    def forward(self, x, labels=None):
        outputs = super().forward(x)
        return CE(outputs, labels) if isinstance(labels, torch.Tensor) else outputs


def loss_of_the_network(module, optimizer, x, y):
    module(x, labels=y).backward()
    optimizer.step()


class RunningSum:
    """A loop whose loss looks at the labels that came before, in other parts of the batch."""

    def __init__(self, loss):
        self.loss, self.so_far = loss, torch.zeros(())

    def __call__(self, module, optimizer, x, y):
        optimizer.zero_grad()
        self.loss(module(x), y, self.so_far).backward()
        optimizer.step()
        self.so_far = self.so_far + y.sum()


def dice(out, y):
    """It was said to be a sum over the examples, since it is one where each of them meets all labels."""
    labels, chances = F.one_hot(y, 3).float(), out.softmax(1)
    return 1.0 - (2.0 * (chances * labels).sum() + 1.0) / ((chances + labels).sum() + 1.0)


def looked_at(module, optimizer, x, y):
    plain(module, optimizer, x, y)
    module(X[:5])


def held_at_times(out, y):
    """A loss that has a gradient by its weights where a class is in the batch."""
    with torch.set_grad_enabled(bool((y == 2).any())):
        sure = out.softmax(1).amax(1)
    return (sure * F.cross_entropy(out, y, reduction="none")).mean()


def over_itself(out, y):
    with torch.no_grad():
        whole = CE(out, y)
    return CE(out, y) / whole


ONES = torch.ones(3)


def grouped():
    """Batches that twelves fill are centred."""
    return Made(lambda own, x: own.last(x - x.mean(0) if len(x) % 12 == 0 else x), last=Linear(8, 3))


LARGE = X.repeat(9, 1), Y.repeat(9)
NOT_OWN, OTHER_ROWS = "depends on the other examples", "other rows than the batch"
MOVED = "wrote into a parameter|changes first.weight"
WRITTEN, CAME_BEFORE, LATER = ("gradients .* were written", "than when it came before", "after make_private")
OF_INPUTS = "inputs of the network changed from one step"
UNTRIED = "which make_private did not try"
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
    "a mean by weights": ({"step": by(lambda out, y: (F.cross_entropy(out, y, reduction="none") * (1.0 + y)).sum()
                           / (1.0 + y).sum()), "sample_rate": 0.5}, NOT_OWN),
    "over the loss": ({"step": by(lambda out, y: CE(out, y) / CE(out, y).detach()),
                               "net": linear}, NOT_OWN),
    "over the loss under no_grad": ({"step": by(over_itself), "net": linear}, NOT_OWN),
    "without a gradient at times": ({"data": (X, RARE), "step": by(held_at_times), "net": linear, "sample_rate": 0.5,
                                     "steps": 19}, "under no_grad"),
    "another's label": ({"data": (X, RARE), "step": by(lambda out, y: CE(out, y.roll(1)))}, "in another order"),
    "another's label as a number": (
        {"data": (X, RARE), "step": by(lambda out, y: F.mse_loss(out[:, 0], 1.0 * y.roll(1)))}, "in another order"),
    "another's numbers one after the other": (
        {"data": (X, X[:, :3]), "step": by(lambda out, y: F.mse_loss(out.flatten(), y.roll(1, 0).flatten()))},
        "in another order"),
    **{f"its mean loss as an output, rate {rate}": (
        {"net": WithLoss, "step": loss_of_the_network, "sample_rate": rate, "steps": 99}, "compute the loss outside")
       for rate in (1.0, 1e-3)},
    "more words or fewer": (
        {"step": lambda net, optimizer, x, y: plain(lambda rows: net(rows, ["a"] * len(rows)), optimizer, x, y),
         "net": WithLoss, "sample_rate": 0.5, "steps": 9}, "in place of nothing|nothing in place"),
    "all labels": ({"data": (X, X[:, 0]), "step": by(lambda out, y: (out[:, :1] - y).square().mean())},
                   r"tensor of shape \[41\] whole .* of shape \[41, 3\]"),
    "all labels of all places": (
        {"data": (X, X[:, :3]), "step": by(lambda out, y: (out.reshape(-1, 1) - y.flatten()).square().mean())},
        r"tensor of shape \[123\] whole .* of shape \[41, 3\]"),
    "times the batch": ({"step": by(lambda out, y: CE(out, y) * len(y))}, r"by 41, .* as torch.tensor\(41.0\)"),
    "the Dice score of a batch": (by(dice), NOT_OWN),
    "a flag that was not tried": ({"step": told(centred=True), "net": Told}, UNTRIED),
    "labels that were not tried": ({"step": told(labels=None), "net": Told, "sample_rate": 0.1, "steps": 9}, UNTRIED),
    "the last one's, not tried": ({"data": (X, RARE), "step": told(ends=None), "net": Told}, UNTRIED),
    "the last one's, not tried, all alike": (
        {"data": (X, torch.ones_like(Y)), "step": told(ends=None), "net": Told}, UNTRIED),
    "counts in an object": ({"step": Support().tell, "net": Told, "sample_rate": 0.5, "steps": 9}, OF_INPUTS),
    "counts in an array": ({"step": told_in_an_array, "net": Told, "sample_rate": 0.5, "steps": 9}, OF_INPUTS),
    "no tensor": (lambda module, optimizer, x, y: module(["a text"] * len(y)), "needs a tensor with a batch"),
    "a look in training": (looked_at, r"under eval\(\) or torch.no_grad\(\)"),
    "in place": (by(written), "in place"),
    "padded": ({"collate": over_columns}, COLLATE),
    "standardised": ({"collate": standardised}, COLLATE),
    "mixup": (mixup, OTHER_ROWS),
    "centred in place": (in_place, OTHER_ROWS),
    "outputs through NumPy": (by(filled), "depends on the other examples"),
    "a foreign batch": ({"step": foreign, "sample_rate": 0.5}, OTHER_ROWS),
    "a larger one": ({"step": lambda net, optimizer, *_: plain(net, optimizer, X, Y), "sample_rate": 0.5}, OTHER_ROWS),
    "two passes": (two_passes, "several forward passes"),
    "two passes back": (two_passes_back, "second time before a step"),
    "a second optimizer": (second_optimizer, MOVED),
    "weights of the same sum": (exchanged, MOVED),
    "a closure": (closure, "takes no closure"),
    "a late hook": ({"step": late_hook, "net": lambda: Sequential(zeros())}, "after make_private"),
    "a hook of all modules": (hook_of_all_modules, "after make_private"),
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
    "weights of the batch by the label": (
        {"data": Shaken(), "step": by(lambda out, y: (F.cross_entropy(out, y, reduction="none")
         / torch.bincount(y)[y]).mean()), "sample_rate": 0.7, "steps": 9}, CAME_BEFORE),
    "back from weights of the batch": (
        {"data": (X, RARE), "step": back_from(lambda y: 1.0 / torch.bincount(y)[y]), "loss_reduction": "sum",
         "sample_rate": 0.5, "steps": 9}, CAME_BEFORE),
    **{f"a later {name}": ({"step": changed(change), "net": blocks}, LATER) for name, change in {
        "layer": lambda net: net.__setitem__(0, Flatten()),
        "class": lambda net: setattr(net[1], "__class__", Centred),
        "attribute of a class": lambda net: setattr(type(net[0]), "scale", 2.0),
        "number in a closure": lambda net: net[0].warm(),
        "number that a hook reads": lambda net: setattr(*net[1]._forward_hooks.values(), "scale", 2.0),
        "parameter": lambda net: setattr(net[1], "weight", Parameter(torch.ones(3, 8))),
        "buffer": lambda net: net.late.fill_(1.0),
        "attribute": lambda net: setattr(net, "late_too", True),
        "value of an attribute": lambda net: net.in_place.fill_(1.0),
        "part of an attribute": lambda net: net.further.scale.append(1.0),
        "forward": lambda net: setattr(net, "forward", net[1].forward)}.items()},
    "a parametrization before the step": ({"step": weights_of_another_name, "net": blocks}, MOVED),
    "an attribute before backward": ({"step": late_attribute, "net": blocks, "mode": "reference"}, LATER),
    **{f"times {name}": ({"step": by(loss), "sample_rate": 0.5, "steps": 9}, "changed from one step to another")
       for name, loss in {
           "a whole number": lambda out, y: CE(out, y) * int(y.sum()),
           "a mean": lambda out, y: CE(out, y) * y.float().mean(),
           "a detached loss": lambda out, y: CE(out, y) / F.cross_entropy(out, y).item()}.items()},
    **{f"one by one, {name}": ({"step": RunningSum(loss), "parts": 1, "sample_rate": 0.5, "steps": 9}, words)
       for name, loss, words in [
           ("times a number", lambda out, y, so_far: CE(out, y) * (2.0 + so_far), "changed from one step to another"),
           ("times a row", lambda out, y, so_far: CE(out, y) * (2.0 + so_far)[None], CAME_BEFORE),
           ("other weights of classes", lambda out, y, so_far: F.cross_entropy(out, y, weight=2.0 + so_far * ONES),
            CAME_BEFORE)]},
    "a rate by the batch": ({"step": rate_by_size, "sample_rate": 0.5}, "numbers .* were changed"),
    "a rate by the part": ({"step": rate_by_the_part, "parts": 8}, "optimizer._is_last_step_skipped"),
    "a hook after the noise": (hook_after_the_noise, WRITTEN),
    "another divisor": ({"step": other_divisor, "sample_rate": 0.5}, "expected_batch_size .* was changed"),
    "a hook that moves weights": (hook_that_moves_weights, MOVED),
    "a late hook of the wrapped optimizer": ({"step": hooked_afterwards, "sample_rate": 0.5, "steps": 9}, "hooks of"),
    "momentum made of the batch": ({"step": momentum_of_the_batch, "sample_rate": 0.5, "steps": 9, "momentum": 0.9},
                                   "what it keeps"),
    "weights moved between steps": ({"step": between_steps, "sample_rate": 0.5, "steps": 9}, MOVED),
    "an early hook": ({"net": hooked}, "not independent"),
    "two steps": (two_steps, "zero_grad and backward before each step"),
    "weights that a pass writes": ({"net": shortened}, MOVED),
    "weights of the first batch": ({"net": First}, LATER),
    "more than 300 behind dropout": ({"data": LARGE, "net": lambda: Sequential(mixing(), Dropout(0.1))},
                                     "outputs of 33 examples are others"),
    "more than 300": ({"data": LARGE, "net": mixing}, "outputs of 33 examples are others"),
    "some sizes below 33": ({"data": (X[:24], Y[:24]), "net": grouped},
                            "outputs of 17 examples are others in a batch of 24; .* out of the network$"),
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


def test_a_collate_function_that_pads_the_records_themselves_is_refused():
    """Alone they had the row that they had beside others, and one example moved the sum by four clipping norms."""
    records = [{"x": x[: 8 - k % 2], "y": y} for k, (x, y) in enumerate(zip(X, Y, strict=True))]
    with refusal(COLLATE):
        made(linear(), Subset(records, range(41)), collate=padded_in_place)


class Together(TensorDataset):
    """Examples that are read many at a time, and centred by the mean of those."""

    def __getitems__(self, places):
        x, y = self[places]
        return [*zip(x - x.mean(0), y, strict=True)]


def test_a_data_set_that_gives_several_examples_others_than_one_alone_is_refused():
    with refusal("__getitems__ of the dataset gives"):
        made(linear(), Together(X, Y))


def penalised(module, optimizer, x, y):
    (CE(module(x), y) + sum(p.square().sum() for p in module.parameters())).backward()


def test_terms_and_weights_that_are_no_example_s_are_refused():
    with refusal("data_free_gradient"):
        total(step=penalised)
    net = Sequential(Linear(8, 3), Linear(3, 3))
    with refusal("not in optimizer"):
        made(net, TensorDataset(X, Y), optimizer=SGD(net[1].parameters(), lr=0.1))
