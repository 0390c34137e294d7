"""A small network, its data and a count of its losses."""

import torch
from fresh_laws import random_posterior
from torch.nn import Conv2d, Flatten, Linear, ReLU, Sequential

from pacdp.losses import bounded_cross_entropy, zero_one
from pacdp.stochastic import mean_risks
from tests.pacdp.toys import seeded

LOSSES = (zero_one(), bounded_cross_entropy(classes=3))


def network():
    torch.manual_seed(0)
    return Sequential(Conv2d(1, 3, 2), ReLU(), Flatten(), Linear(27, 3)).eval()


def data(n=37):
    generator = seeded(1)
    return torch.randn(n, 1, 4, 4, generator=generator), torch.randint(0, 3, (n,), generator=generator)


def count(module=None, *, n=37, **changes):
    module, (inputs, labels) = module or network(), data(n)
    given = {"inputs": inputs, "labels": labels, "losses": LOSSES, "passes": 3, "seed": 7, "batch_size": 8} | changes
    return mean_risks(module, random_posterior(module, "isotropic"), **given)
