"""Per-example gradients that are not copied, and a first ghost pass that makes no more gradients than it needs."""

import pytest
import torch
from private_toys import doubles, fresh, generator
from torch import nn

from pacdp.opacus.modules import PrivateModule, wrap
from pacdp.private import PrivateEngine, SeededRandomness


def no_bias():
    return nn.Sequential(nn.Linear(4, 5, bias=False), nn.ReLU(), nn.Linear(5, 3))


def frozen_bias():
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    model[0].bias.requires_grad_(False)
    return model


def convolution():
    return nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 2, 2), nn.Flatten(), nn.Linear(2, 3))


def drawn(network):
    return fresh(network()).double()


def one_by_one(model, inputs, targets):
    """Gradients of each example by autograd, parameter by parameter."""
    trained = [p for p in model.parameters() if p.requires_grad]
    losses = nn.functional.cross_entropy(model(inputs), targets, reduction="none")
    each = [torch.autograd.grad(loss, trained, retain_graph=True) for loss in losses]
    return [torch.stack(rows) for rows in zip(*each, strict=True)]


def batch():
    return torch.randn(7, 4, generator=generator(1), dtype=torch.float64), torch.arange(7) % 3


def ghost(model, *, clip_norm, expected_batch_size, reduction="mean"):
    """(module, optimizer, criterion) of ghost clipping without noise."""
    trained = [p for p in model.parameters() if p.requires_grad]
    return PrivateEngine(randomness=SeededRandomness(0)).make_private(
        module=model, optimizer=torch.optim.SGD(trained, lr=0.0), noise_schedule=0.0, clip_norm=clip_norm,
        sample_rate=0.1, expected_batch_size=expected_batch_size, dataset=doubles(),
        criterion=nn.CrossEntropyLoss(reduction=reduction), loss_reduction=reduction, grad_sample_mode="ghost",
        batches="own",
    )[:3]  # fmt: skip


def test_gradients_own_their_memory():
    inputs, targets = batch()
    wrapped = wrap(drawn(no_bias), "hooks", loss_reduction="sum", clip_norm=1.0)
    assert isinstance(wrapped, PrivateModule)
    outputs = wrapped(inputs)
    caught = []
    outputs.register_hook(caught.append)
    nn.functional.cross_entropy(outputs, targets, reduction="sum").backward()
    bias = list(wrapped.parameters())[-1]
    assert torch.equal(bias.grad_sample, caught[0])
    assert bias.grad_sample.untyped_storage().data_ptr() != caught[0].untyped_storage().data_ptr()


@pytest.mark.parametrize("network", [no_bias, frozen_bias, convolution])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.every_case
def test_ghost_sums_are_those_of_clipped_gradients(network, reduction):
    inputs, targets = batch()
    rows = one_by_one(drawn(network), inputs, targets)
    norms = torch.cat([row.flatten(1) for row in rows], 1).norm(dim=1)
    clip_norm = float(norms.median())
    factors = (clip_norm / norms).clamp(max=1.0)
    model = drawn(network)
    trained = [p for p in model.parameters() if p.requires_grad]
    wrapped, optimizer, criterion = ghost(model, clip_norm=clip_norm, expected_batch_size=2.0, reduction=reduction)
    criterion(wrapped(inputs), targets).backward()
    optimizer.step()
    for parameter, row in zip(trained, rows, strict=True):
        torch.testing.assert_close(parameter.grad, torch.einsum("i,i...->...", factors, row) / 2.0, rtol=1e-5, atol=0)
