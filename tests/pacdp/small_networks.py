"""Networks that a test writes in a line."""

import torch
from torch.nn import Linear, Module, Sequential, Tanh


class Made(Module):
    """These parts, and outputs that ``way`` makes of them and of the inputs."""

    def __init__(self, way, **parts):
        super().__init__()
        self.way = way
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs):
        return self.way(self, *inputs)


def slopes(module):
    """The gradient by each parameter, zero where none came."""
    return {name: torch.zeros_like(p) if p.grad is None else p.grad for name, p in module.named_parameters()}


def only_from(size):
    """Centres batches of at least so many."""
    return lambda h: h - h.mean(dim=0) if len(h) >= size else h


def reused():
    """A layer used twice."""
    layer = Linear(6, 6)
    return Sequential(layer, Tanh(), layer, Linear(6, 3))


def tied():
    """Two layers that share their weights."""
    module = Sequential(Linear(6, 6), Tanh(), Linear(6, 6), Linear(6, 3))
    module[2].weight = module[0].weight
    return module
