"""Numbers drawn by torch from a seed."""

import torch

from tests.pacdp.toys import seeded


def randn(*shape, seed=0, **how):
    return torch.randn(*shape, generator=seeded(seed), **how)


def rand(*shape, seed=0, **how):
    return torch.rand(*shape, generator=seeded(seed), **how)


def randint(*ends, seed=0, **how):
    return torch.randint(*ends, generator=seeded(seed), **how)


def randperm(n, seed=0):
    return torch.randperm(n, generator=seeded(seed))
