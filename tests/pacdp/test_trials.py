"""Trials before a number is made refuse what mixes examples, and nothing else."""

from dataclasses import replace
from math import nan

import torch
from torch import nn
from torch.nn import Flatten, Linear, ReLU, Sequential
from toys import seeded, toy_data

from pacdp.losses import Loss, bounded_cross_entropy, brier, ramp, zero_one
from pacdp.objective import Objective
from pacdp.posterior import GaussianPosterior
from pacdp.stochastic import fresh_pass
from pacdp.trials import MOST, pool, require_own_losses, require_own_outputs, require_true_slope
from tests.marks import every_case, parametrize, refusal
from tests.pacdp.small_networks import only_from

CROSS_ENTROPY, DATA = bounded_cross_entropy(classes=3), toy_data(n=60, classes=3)
OUTPUTS, LABELS = torch.randn(40, 3, generator=seeded(0)), torch.arange(500) % 3


class Mixing(nn.Module):
    """A network that passes its outputs through ``mix``."""

    def __init__(self, mix):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.mix = Linear(5, 3), mix

    def forward(self, x):
        return self.mix(self.layer(x))


def remembering():
    kept = []

    def mix(h):
        kept.append(h.mean())
        return h + kept[-2] if len(kept) > 1 else h

    return mix


MIXING = {
    "batch mean": lambda: lambda h: h - h.mean(dim=0),
    "from thirty on": lambda: only_from(30),
    "batches of four to eight": lambda: lambda h: h - h.mean(dim=0) if 4 <= len(h) <= 8 else h,
    "order": lambda: lambda h: h + torch.arange(len(h))[:, None],
    "batch maximum beyond a value": lambda: lambda h: h / h.abs().amax().clamp(min=20.0),
    "odd places": lambda: lambda h: torch.cat([h[:1], h[1:] + h[:1]]),
    "memory": remembering,
    "random": lambda: lambda h: h + torch.randn(h.shape),
    "one row for all": lambda: lambda h: h[:1],
    "a number": lambda: lambda h: h.mean(),
    "beside masked classes": lambda: lambda h: torch.cat([0.1 * (h - h.mean(dim=0)), 0.0 * h - 1e9], dim=1),
}


def objective_of(module, loss=CROSS_ENTROPY, data=DATA, **settings):
    return Objective(module, loss, data, **{"batch_size": 5} | settings)


def counted(module):
    """A pass of a count over three examples."""
    posterior = GaussianPosterior.around(module, std=0.1)
    fresh_pass(module, posterior, torch.randn(3, 5, generator=seeded(0)))
    return posterior


@every_case("name", MIXING)
def test_networks_that_mix_examples_are_refused_by_chains_and_counts(name):
    words = "no example has a loss of its own|changes mix<kept>"
    with refusal(words):
        objective_of(Mixing(MIXING[name]()))
    with refusal(words):
        counted(Mixing(MIXING[name]()).eval())


def test_mixing_far_from_zero_is_found_in_half_precision():
    def centred(places):
        h = OUTPUTS[places % len(OUTPUTS)]
        return (8.0 * (h - h.mean(dim=0)) + 90.0).bfloat16()

    with refusal("depends on the other examples"):
        require_own_outputs(centred)


def test_the_batches_that_the_network_will_meet_are_tried():
    """Mixing that begins above 33 examples is found where there are so many, in steps or when all are judged."""
    objective_of(Mixing(only_from(61)))
    for batch_size in (5, 50):
        with refusal("no example has a loss of its own"):
            objective_of(Mixing(only_from(45)), batch_size=batch_size)


@parametrize("far", [1e25, 3e38])
@parametrize("clip_norm", [None, 1.0])
@parametrize("records", [[0], [0, 1, 2], range(60)], ids=["one", "three", "all"])
def test_no_record_decides_that_nothing_is_tried(far, clip_norm, records):
    """A record whose outputs are not finite, or so large that nothing beside them is, hides no mixing."""
    inputs = DATA.inputs.copy()
    inputs[list(records)] = far
    data = replace(DATA, inputs=inputs)
    loss = Loss(name="mine", low=0.0, high=1.0, function=weighted)
    with refusal("loss mine of an example depends on the other examples"):
        objective_of(Mixing(lambda h: h), loss, data, clip_norm=clip_norm)
    with refusal("no example has a loss of its own"):
        objective_of(Mixing(lambda h: h - h.tanh().nan_to_num().mean(dim=0)), data=data, clip_norm=clip_norm)
    objective_of(Mixing(lambda h: h), data=data, clip_norm=clip_norm)


def test_networks_of_which_nothing_can_be_tried_are_refused_in_a_sentence():
    sentence = "finite neither on the data nor on made-up inputs"
    with refusal(sentence):
        objective_of(Mixing(lambda h: h * nan))
    objective_of(Mixing(lambda h: h.sqrt().nan_to_num()))
    with refusal(sentence):
        objective_of(Mixing(lambda h: (0.0 * h).abs().sqrt()), clip_norm=1.0)


class Counting(nn.Module):
    """Moves a buffer with every batch, by very little."""

    def __init__(self):
        super().__init__()
        self.layer = Linear(5, 3)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen.add_(1e-9)
        return self.layer(x) + self.seen


def test_a_network_that_changes_its_buffers_is_refused_by_name():
    with refusal(r"changes seen .* call eval\(\)"):
        objective_of(Counting())
    with refusal("changes seen"):
        counted(Counting().eval())


@parametrize("first", [[ReLU(inplace=True)], [Flatten(), nn.SiLU(inplace=True)]], ids=["first", "view"])
def test_a_network_that_overwrites_its_inputs_is_refused(first):
    """Chains and counts hand out views of the data: the second pass would see other data."""
    module = Sequential(*first, Linear(5, 3)).eval()
    for use in (objective_of, counted):
        with refusal("changes its inputs in a forward pass"):
            use(module)


def weighted(logits, labels):
    share = torch.bincount(labels, minlength=3)[labels] / len(labels)
    return (zero_one().function(logits, labels) * share).clamp(0, 1)


def hardest(logits, labels):
    losses = CROSS_ENTROPY.function(logits, labels) / 4
    return torch.where(losses >= losses.quantile(0.9), losses, 0.0)


def spread_out(logits, labels):
    return zero_one().function(logits, labels).mean().expand(len(labels))


def many(logits, labels):
    losses = torch.softmax(logits, 1)[:, 0]
    return losses * losses.mean() if len(losses) > 20 else losses


@parametrize("function", [weighted, hardest, spread_out, many], ids=lambda f: f.__name__)
def test_losses_that_mix_examples_are_refused(function):
    loss = Loss(name="mine", low=0.0, high=1.0, function=function)
    with refusal("loss mine of an example depends on the other examples"):
        require_own_losses(loss, OUTPUTS[:5], LABELS)
    with refusal("loss mine of an example depends on the other examples"):
        objective_of(Mixing(lambda h: h), loss)


def test_made_up_numbers_are_none_below_zero_where_the_examples_have_none():
    examples = torch.stack([torch.rand(7), torch.rand(7) - 0.5], dim=1)
    least = pool(examples)[7:].amin(dim=0)
    assert least[0] >= 0.0 > least[1]
    assert (pool(examples)[:7] == examples).all()


@parametrize("seed", range(5))
def test_networks_and_losses_that_treat_examples_alone_pass(seed):
    torch.manual_seed(seed)
    module = Sequential(Linear(5, 64), nn.GroupNorm(4, 64), nn.GELU(), Linear(64, 3))
    examples = pool(10.0 ** (seed - 2) * torch.randn(7, 5))
    with torch.no_grad():
        assert torch.equal(require_own_outputs(lambda places: module(examples[places])), module(examples[:MOST]))
        require_own_outputs(lambda places: torch.cat([module(examples[places]), torch.full((len(places), 1), -1e9)], 1))
    objective_of(module)
    with torch.no_grad():
        deep = Sequential(*(Sequential(Linear(64, 64), nn.GELU()) for _ in range(6)), Linear(64, 10)).bfloat16()
        inputs = pool(10.0 ** (seed - 2) * torch.randn(200, 64), size=200).bfloat16()
        require_own_outputs(lambda places: deep(inputs[places]), size=200)
    for loss in (zero_one(), brier(), ramp(slope=2.0), CROSS_ENTROPY):
        for outputs in (OUTPUTS, OUTPUTS[:1], 1e6 * OUTPUTS, OUTPUTS.double(), 0 * OUTPUTS, OUTPUTS * nan):
            require_own_losses(loss, outputs, LABELS)
        require_true_slope(loss, OUTPUTS, LABELS)


def test_a_compiled_form_that_is_another_loss_is_refused():
    def steeper(logits, labels, out):
        mean, error = CROSS_ENTROPY.compiled(logits, labels, out)  # type: ignore[misc]
        out.mul_(1.01)
        return mean, error

    words = "compiled form of loss false differs from its function"
    for other in (bounded_cross_entropy(classes=3, max_loss=5.0).compiled, steeper):
        false = replace(CROSS_ENTROPY, name="false", compiled=other)
        with refusal(words):
            require_true_slope(false, OUTPUTS, LABELS)
        with refusal(words):
            objective_of(Mixing(lambda h: h), false)
