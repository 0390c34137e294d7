"""Small networks, data and loops that the tests of private training share."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

from pacdp.private import Mechanism, PrivateEngine, SeededRandomness


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def fresh(module, seed=0):
    """``module`` with weights drawn from a seed of its own."""
    draw = generator(seed)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(0.4 * torch.randn(p.shape, generator=draw, dtype=p.dtype))
    return module


def mlp(seed=0, *, inputs=4, classes=3):
    return fresh(nn.Sequential(nn.Linear(inputs, 5), nn.Tanh(), nn.Linear(5, classes)), seed)


def cnn(seed=0):
    layers = [nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 2, 2, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(18, 3)]
    return fresh(nn.Sequential(*layers), seed)


NETWORKS = {"mlp": mlp, "cnn": cnn}


def data(n=40, *, inputs=4, classes=3, seed=1):
    draw = generator(seed)
    return TensorDataset(torch.randn(n, inputs, generator=draw), torch.randint(0, classes, (n,), generator=draw))


def cross_entropy(outputs, targets):
    return functional.cross_entropy(outputs, targets, reduction="none")


def mechanism(**changes):
    numbers = {"clip_norm": 0.5, "sample_rate": 0.25, "expected_batch_size": 10.0, "steps": 6}
    return Mechanism(**{**numbers, **changes})


def private(module, dataset, *, mode="hooks", lr=0.1, seed=0, engine=None, **changes):
    """(module, optimizer, criterion, loader, engine) ready for a loop."""
    engine = engine or PrivateEngine(randomness=SeededRandomness(seed))
    settings = {"noise_schedule": 1.0, "clip_norm": 0.5, "sample_rate": 0.25, "expected_batch_size": 10.0,
                "batches": "own"}  # fmt: skip
    criterion = nn.CrossEntropyLoss()
    made = engine.make_private(
        module=module, optimizer=torch.optim.SGD(module.parameters(), lr=lr), dataset=dataset, criterion=criterion,
        grad_sample_mode=mode, **{**settings, **changes})  # fmt: skip
    if mode == "ghost":
        return *made, engine
    return *made[:2], criterion, made[2], engine


def sweep(module, optimizer, criterion, loader):
    """One pass of Opacus's loop; batch sizes."""
    sizes = []
    for inputs, targets in loader:
        optimizer.zero_grad()
        criterion(module(inputs), targets).backward()
        optimizer.step()
        sizes.append(len(inputs))
    optimizer.zero_grad()
    return sizes


def clipped_sum(module, inputs, targets, *, mode="hooks", clip_norm=0.5):
    """The sum of clipped gradients that a step without noise makes, as one vector."""
    dataset = TensorDataset(torch.randn(4, 4, generator=generator()), torch.zeros(4, dtype=torch.int64))
    numbers = {"noise_schedule": 0.0, "clip_norm": clip_norm, "expected_batch_size": 1.0}
    module, optimizer, criterion, _, _ = private(module, dataset, mode=mode, lr=0.0, **numbers)
    optimizer.zero_grad()
    criterion(module(inputs), targets).backward()
    optimizer.step()
    return torch.cat([p.grad.reshape(-1) for p in module.parameters()]).clone(), optimizer
