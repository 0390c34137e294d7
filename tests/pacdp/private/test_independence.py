"""Mixing that three examples with equal labels do not show: larger batches, labels, extremes, memory."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pacdp.private import require_independent_examples
from pacdp.step.independence import made_up_batch


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none")


class Mixing(nn.Module):
    """A network that passes its activations through ``mix``."""

    def __init__(self, mix) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.mix = nn.Linear(5, 6), nn.Linear(6, 3), mix

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.mix(torch.tanh(self.first(x))))


class Bank(nn.Module):
    """Remembers the last batch outside of its buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        out = x + self.kept[0] if self.kept else x
        self.kept = [x.detach().mean()]
        return out


def only_from(size: int):
    return lambda h: h - h.mean(dim=0) if len(h) >= size else h


class HiddenInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx, slope):
        return slope * ctx.saved_tensors[0].mean()


NETWORKS = {
    "batch mean": lambda: Mixing(lambda h: h - h.mean(dim=0)),
    "from nine on": lambda: Mixing(only_from(9)),
    "from eighteen on": lambda: Mixing(only_from(18)),
    "batch maximum beyond a value": lambda: nn.Sequential(
        nn.Linear(5, 3),
        type("Clamped", (nn.Module,), {"forward": lambda self, x: x / x.abs().amax().clamp(min=40.0)})(),
    ),
    "neighbour": lambda: Mixing(lambda h: h + 0.1 * h.roll(1, dims=0)),
    "memory": lambda: Mixing(Bank()),
    "in the backward pass": lambda: Mixing(HiddenInBackward.apply),
}


def class_balanced(outputs: Tensor, targets: Tensor) -> Tensor:
    counts = torch.bincount(targets, minlength=outputs.shape[1]).clamp(min=1)
    return cross_entropy(outputs, targets) * len(targets) / counts[targets]


def hardest_half(outputs: Tensor, targets: Tensor) -> Tensor:
    losses = cross_entropy(outputs, targets)
    return losses if len(losses) < 8 else torch.where(losses >= losses.median(), losses, 0.0)


def contrastive(outputs: Tensor, targets: Tensor) -> Tensor:
    unlike = targets[:, None] != targets[None]
    return cross_entropy(outputs, targets) + (unlike * torch.cdist(outputs, outputs)).sum(dim=1)


def from_twenty_on(outputs: Tensor, targets: Tensor) -> Tensor:
    losses = cross_entropy(outputs, targets)
    return losses - losses.mean() if len(losses) >= 20 else losses


def of_unequal_labels(outputs: Tensor, targets: Tensor) -> Tensor:
    losses = cross_entropy(outputs, targets)
    return losses if bool((targets == targets[0]).all()) else losses * losses.mean()


def of_two_classes(outputs: Tensor, targets: Tensor) -> Tensor:
    """Takes labels 0 and 1 only, though there are three outputs."""
    losses = cross_entropy(outputs[:, :2], targets)
    return losses if bool((targets == targets[0]).all()) else losses * losses.mean()


LOSSES = [of_two_classes, class_balanced, hardest_half, contrastive, from_twenty_on, of_unequal_labels]


def refuse(module: nn.Module, loss=cross_entropy) -> None:
    """As training does: made-up inputs and labels that are all 0."""
    inputs, targets = made_up_batch(torch.zeros(0, 5)), torch.zeros(4, dtype=torch.int64)
    require_independent_examples(module, (inputs,), targets=targets, loss=loss)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_that_mix_examples_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="examples of a batch are not independent"):
        refuse(NETWORKS[name]())


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)
def test_losses_that_mix_examples_are_refused(loss) -> None:
    with pytest.raises(ValueError, match="examples of a batch are not independent"):
        refuse(Mixing(lambda h: h), loss)


def test_a_loss_that_remembers_is_refused() -> None:
    seen: list[Tensor] = []

    def remembering(outputs: Tensor, targets: Tensor) -> Tensor:
        losses = cross_entropy(outputs, targets)
        seen.append(losses.detach().mean())
        return losses + (seen[-2] if len(seen) > 1 else 0.0)

    with pytest.raises(ValueError, match="not independent"):
        refuse(Mixing(lambda h: h), remembering)


SOUND = {
    "plain": (lambda: Mixing(lambda h: h), cross_entropy, torch.zeros(4, dtype=torch.int64)),
    "dropout": (lambda: Mixing(nn.Dropout(0.5)), cross_entropy, torch.zeros(4, dtype=torch.int64)),
    "group norm": (lambda: Mixing(nn.GroupNorm(2, 6)), cross_entropy, torch.zeros(4, dtype=torch.int64)),
    "overflows": (
        lambda: Mixing(lambda h: torch.exp(h.atanh().clamp(max=1e4))),
        cross_entropy,
        torch.zeros(4, dtype=torch.int64),
    ),
    "regression": (lambda: Mixing(lambda h: h), lambda f, y: (f[:, 0] - y).square(), torch.zeros(4)),
    "given targets": (lambda: Mixing(lambda h: h), lambda f, y: (f - y).square().sum(1), torch.randn(4, 3)),
    "two labels": (
        lambda: Mixing(lambda h: h),
        lambda f, y: F.softplus(-f[:, 0] * (2 * y - 1)),
        torch.zeros(4, dtype=torch.bool).int(),
    ),
    "more outputs than classes": (
        lambda: Mixing(lambda h: h),
        lambda f, y: cross_entropy(f[:, :2], y) + f[:, 2].square(),
        torch.zeros(4, dtype=torch.int64),
    ),
    "weights by class, fixed": (
        lambda: Mixing(lambda h: h),
        lambda f, y: cross_entropy(f, y) * torch.tensor([1.0, 5.0, 9.0])[y],
        torch.zeros(4, dtype=torch.int64),
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_networks_and_losses_of_one_example_pass_and_are_left_alone(name: str) -> None:
    build, loss, targets = SOUND[name]
    module = build()
    before, state = copy.deepcopy(module.state_dict()), torch.get_rng_state()
    require_independent_examples(module, (made_up_batch(torch.zeros(0, 5)),), targets=targets, loss=loss)
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
