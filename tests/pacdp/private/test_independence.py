"""Mixing that three examples with equal labels do not show: larger batches, labels, extremes, memory."""

import torch
import torch.nn.functional as F
from clipped_networks import Bank, clamped_maximum, class_balanced, contrastive, hardest_half, mixing
from private_toys import cross_entropy
from torch import equal
from torch.nn import BatchNorm1d, CrossEntropyLoss, Dropout, GroupNorm, HuberLoss, Linear, Module, Sequential

from pacdp.private import bayesian, require_independent_examples
from pacdp.trials import made_up_batch
from tests.marks import every_case, refusal
from tests.pacdp.draws import randn
from tests.pacdp.same import left_alone
from tests.pacdp.small_networks import Made, only_from
from tests.pacdp.toys import seeded

BY_SIZE = Made(lambda own, h: h / len(h))


class RunningMean(Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(6))

    def forward(self, x):
        self.seen.mul_(0.9).add_(0.1 * x.detach().mean(0))
        return x


class HiddenInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx, slope):
        return slope * ctx.saved_tensors[0].mean()


def of_kind(kind, centred=False):
    """A layer of another precision than those around it."""
    return Made(lambda own, h: own.one((h - h.mean(0) * centred).to(kind)).float(), one=Linear(6, 6).to(kind))


MIXING = {
    "beside a layer of another kind": of_kind(torch.bfloat16, centred=True),
    "batch size": lambda h: h / len(h),
    "the first of a batch": lambda h: h * h[0].detach(),
    "the last of a batch": lambda h: h + h[-1:],
    "from eighteen on": only_from(18),
    "batch maximum beyond a value": clamped_maximum,
    "memory": Bank(),
    "a buffer": RunningMean(),
    "in the backward pass": HiddenInBackward.apply,
    "batch normalisation": BatchNorm1d(6),
    "its frozen kind": BatchNorm1d(6).eval().requires_grad_(False),
    "without weights": BatchNorm1d(6, affine=False),
    "in single precision": lambda h: h / (len(h) if h.dtype == torch.float32 else 1),
    "a norm of one number": GroupNorm(6, 6),
    "behind dropout": Sequential(Dropout(0.5), BY_SIZE),
    "behind a function that drops": lambda h: F.dropout(h, 0.5) / len(h),
    "by a coin": lambda h: h + h.flip(0) if torch.rand(1) < 0.01 else h,
    "by the other side of a coin": lambda h: h + (torch.rand(()) > 0.99) * h.flip(0),
    "by a whole number": lambda h: h + h.flip(0) if torch.randint(2, (1,)) == 1 else h,
    "behind drawn weights": Sequential(bayesian(Linear(6, 6), generator=seeded()), BY_SIZE),
}


def of_two_classes(outputs, targets):
    """Takes labels 0 and 1 only, though there are three outputs."""
    losses = cross_entropy(outputs[:, :2], targets)
    return losses if bool((targets == targets[0]).all()) else losses * losses.mean()


def remembering(outputs, targets):
    losses = cross_entropy(outputs, targets)
    SEEN.append(losses.detach().mean())
    return losses + (SEEN[-2] if len(SEEN) > 1 else 0.0)


SEEN = []
LOSSES = [class_balanced, hardest_half, contrastive, of_two_classes, remembering]
CASES = {name: (mix, cross_entropy) for name, mix in MIXING.items()}
CASES |= {loss.__name__: (torch.clone, loss) for loss in LOSSES}
CASES["losses from twenty on"] = torch.clone, lambda f, y: only_from(20)(cross_entropy(f, y))
BY_CLASS = CrossEntropyLoss(torch.tensor([1.0, 5.0, 9.0]), reduction="none")
CASES["weights by class, over the batch"] = torch.clone, lambda f, y: BY_CLASS(f, y) / len(y)


@every_case("name", CASES)
def test_networks_and_losses_that_mix_examples_are_refused(name):
    """As training does: made-up inputs and labels that are all 0."""
    mix, loss = CASES[name]
    words = "leaves the batch" if name.startswith("behind") else "examples of a batch are not independent"
    words = "one example alone" if name == "a norm of one number" else words
    inputs, targets = made_up_batch(torch.zeros(0, 4)), torch.zeros(4, dtype=torch.int64)
    with refusal(words):
        require_independent_examples(mixing(mix), (inputs,), targets=targets, loss=loss)


@every_case("place", [0, -1])
def test_a_mask_that_is_read_off_one_example_is_refused_where_all_masks_of_the_probe_are_alike(place):
    network = Made(lambda own, x, mask: own.one(x) * mask[place], one=Linear(4, 6))
    with refusal("when another example comes first or last"):
        require_independent_examples(network, (randn(3, 4), torch.ones(3, 6)))


LABELS = torch.zeros(4, dtype=torch.int64)
SOUND = {
    "half precision inside": (of_kind(torch.bfloat16), cross_entropy, LABELS),
    "double precision inside": (of_kind(torch.float64), cross_entropy, LABELS),
    "dropout": (Dropout(0.5), cross_entropy, LABELS),
    "a coin for all": (lambda h: h * torch.bernoulli(torch.tensor(0.5)), cross_entropy, LABELS),
    "a number for all": (lambda h: h - torch.rand(1).logit(), cross_entropy, LABELS),
    "group norm": (GroupNorm(2, 6), cross_entropy, LABELS),
    "overflows": (torch.exp, cross_entropy, LABELS),
    "regression": (torch.clone, lambda f, y: (f[:, 0] - y).square(), torch.zeros(4)),
    "given targets": (torch.clone, lambda f, y: (f - y).square().sum(1), randn(4, 3)),
    "Huber's, of targets alike": (torch.clone, lambda f, y: F.huber_loss(f[:, 0], y, reduction="none"), torch.zeros(4)),
    "Huber's, of several numbers": (torch.clone, HuberLoss(reduction="none"), randn(4, 3)),
    "two labels": (torch.clone, lambda f, y: F.softplus(-f[:, 0] * (2 * y - 1)), LABELS.int()),
    "more outputs than classes": (torch.clone, lambda f, y: cross_entropy(f[:, :2], y) + f[:, 2].square(), LABELS),
    "weights by class, fixed": (
        torch.clone, lambda f, y: cross_entropy(f, y) * torch.tensor([1.0, 5.0, 9.0])[y], LABELS
    ),
    "weights by class, in the loss": (torch.clone, BY_CLASS, LABELS),
}  # fmt: skip


@every_case("name", SOUND)
def test_networks_and_losses_of_one_example_pass_and_are_left_alone(name):
    mix, loss, targets = SOUND[name]
    module = mixing(mix)
    state = torch.get_rng_state()
    with left_alone(module):
        require_independent_examples(module, (made_up_batch(torch.zeros(0, 4)),), targets=targets, loss=loss)
    assert equal(torch.get_rng_state(), state)
