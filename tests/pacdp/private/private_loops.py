"""Loops of one's own, on data and networks that their tests share."""

from contextlib import nullcontext
from functools import partial

import torch
from private_toys import fresh, gradient, plain
from torch.nn import (
    Linear,
    init,
)
from torch.nn import functional as F
from torch.optim import SGD
from torch.utils.data import DataLoader, Dataset, TensorDataset

from pacdp.private import (
    BatchMemoryManager,
    PrivateEngine,
    SeededRandomness,
)
from tests.pacdp.toys import seeded

CLIP = 1.0
SOURCE = seeded()
X, Y = 0.3 * torch.randn(41, 8, generator=SOURCE), torch.randint(0, 2, (41,), generator=SOURCE)
RARE = torch.cat([Y[:-1], torch.tensor([2])])


def linear():
    return fresh(Linear(8, 3))


def zeros(bias=True):
    net = Linear(8, 3, bias=bias)
    for p in net.parameters():
        init.zeros_(p)
    return net


def made(net, data, *, mode=None, optimizer=None, collate=None, workers=0, **changes):
    """(module, optimizer, loader, engine) of a loop without noise whose steps move nothing, on all examples at once.

    A criterion stands before the loader.
    """
    settings = {
        "noise_multiplier": 0.0,
        "max_grad_norm": CLIP,
        "sample_rate": 1.0,
        "expected_batch_size": 1.0,
    } | changes
    engine = PrivateEngine(randomness=SeededRandomness(0))
    found = engine.make_private(
        module=net,
        optimizer=optimizer or SGD(net.parameters(), lr=0.0),
        data_loader=DataLoader(data, collate_fn=collate, num_workers=workers),
        grad_sample_mode=mode,
        **settings,
    )
    return *found, engine


class Shaken(Dataset):
    """Inputs that are drawn anew at each look, as augmentations are, with one of two labels."""

    def __len__(self):
        return len(X)

    def __getitem__(self, i):
        return X[i] + torch.rand(X.shape[1:]), Y[i] % 2


def total(data=(X, Y), *, step=plain, net=zeros, mode=None, parts=None, momentum=0.0, **options):
    """The sum of clipped gradients that one step of a loop releases, whose batch may come in parts.

    Args:
        data: tensors, or a data set.
    """
    net = net()
    options["optimizer"] = SGD(net.parameters(), lr=0.0, momentum=momentum)
    module, optimizer, loader, _ = made(
        net, TensorDataset(*data) if isinstance(data, tuple) else data, mode=mode, **options
    )
    cut = partial(BatchMemoryManager, data_loader=loader, optimizer=optimizer)
    with nullcontext(loader) if parts is None else cut(max_physical_batch_size=parts) as batches:
        for batch in batches:
            step(module, optimizer, *batch)
    return gradient(net)


def by(loss):
    return partial(plain, loss=loss)


def back_from(weights):
    """A loop whose backward pass begins at the losses of single examples, with a weight for each."""

    def step(module, optimizer, x, y):
        F.cross_entropy(module(x), y, reduction="none").backward(weights(y))
        optimizer.step()

    return step
