"""A small sample, learners of every kind on it, and learners that look at more than they may."""

import functools

import numpy as np
import torch
from numpy.random import default_rng
from torch import nn
from torch.nn import Linear, Module, ReLU, Sequential
from torch.nn.functional import cross_entropy

from pacdp.algorithms import SGD, SGLD, EntropySGD
from pacdp.compress import Adam, Chained, Estimator, KernelRidge, Torch, View
from pacdp.data import Dataset
from pacdp.models import Architecture
from tests.pacdp.toys import pair, seeded


@functools.cache
def clouds(n=300, seed=0, classes=3, people=None):
    """Points of the plane around the corners of a triangle."""
    rng = default_rng(seed)
    labels = rng.integers(classes, size=n)
    angle = 2 * np.pi * labels / classes
    inputs = 2.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.7 * rng.standard_normal((n, 2))
    owners = None if people is None else rng.integers(people, size=n)
    return Dataset(inputs=inputs.astype(np.float32), labels=labels, classes=classes, name="clouds", people=owners,
                   unit="example" if people is None else "person")  # fmt: skip


def network():
    generator, made = (seeded(0), Sequential(Linear(2, 16), ReLU(), Linear(16, 3)))
    for parameter in made.parameters():
        nn.init.uniform_(parameter, -0.5, 0.5, generator=generator)
    return made


def descend(model, inputs, labels, steps=60):
    """A training function as people write it: shuffled batches by the global random numbers of torch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for _ in range(steps):
        batch = torch.randint(len(labels), (16,))
        optimizer.zero_grad()
        cross_entropy(model(inputs[batch]), labels[batch]).backward()
        optimizer.step()


def written(train=descend, model=None):
    return Torch(network=model or network(), train_network=train)


_SMALL = {"classes": 3, "architecture": Architecture(hidden=(16,)), "view": View()}
_COLD = {"tau": 1e6, "outer_step_size": 2.0, "outer_decay": 0.0, "inner_decay": 0.0, "inner_step_size": 0.4}
CHAINS = {
    "sgd": Chained(sampler=SGD(step_size=0.1, momentum=0.9, batch_size=16), steps=40, **_SMALL),
    "sgld": Chained(sampler=SGLD(tau=1e5, step_size=0.2, batch_size=16), steps=80, **_SMALL),
    "entropy-sgd": Chained(sampler=EntropySGD(beta=None, alpha=0.1, batch_size=16, **_COLD), steps=8, **_SMALL),
    "entropy-sgld": Chained(sampler=EntropySGD(beta=1e6, alpha=0.1, batch_size=16, **_COLD), steps=8, **_SMALL),
}
LEARNERS = {**CHAINS, "adam": Adam(steps=60, batch_size=16, learning_rate=0.02, **_SMALL),
            "kernel": KernelRidge(classes=3, view=View(), width=1.0, ridge=1e-2), "torch": written()}  # fmt: skip


class Nearest:
    """The class of the nearest of the records it was fitted on."""

    def fit(self, inputs, labels):
        self.inputs, self.labels, self.classes_ = inputs.copy(), labels.copy(), np.unique(labels)

    def predict(self, inputs):
        return self.labels[((inputs[:, None] - self.inputs) ** 2).sum(2).argmin(1)]


def estimator(made=None):
    return Estimator(estimator=made or Nearest(), classes=3)


# Learners that look.


def closed_over(data):
    """Training on the whole sample, which a closure holds."""
    inputs, labels = pair(data)

    def train(model, _, __):
        descend(model, inputs, labels)

    return written(train)


WHOLE = clouds().inputs.copy()


def global_variable(model, inputs, labels):
    """Normalisation by the mean of a global variable."""
    descend(model, inputs - torch.tensor(WHOLE).mean(0), labels)


class Remembering(Module):
    """Remembers what it scored, and is trained on that."""

    def __init__(self):
        super().__init__()
        self.inner = network()

    def forward(self, inputs):
        if not self.training:
            SEEN.append(inputs.sum().item())
        return self.inner(inputs)


SEEN = list[float]()


def trained_on_memory(model, inputs, labels):
    descend(model, inputs, labels, steps=20)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 1e-3 * len(SEEN)


def trained_on_the_first(model, inputs, labels):
    """From the second round on, with the very first batch that was ever scored, whichever run that was."""
    descend(model, inputs, labels, steps=20)
    if len(inputs) > 4:
        with torch.no_grad():
            model.inner[0].bias += 1e-3 * SEEN[0]


class Changing(Module):
    """Gives its network inputs that a function made of the batch."""

    def __init__(self, change):
        super().__init__()
        self.inner, self.change = network(), change

    def forward(self, inputs):
        return self.inner(self.change(inputs))


def batched():
    """Normalises the batch it is given, when it is scored too."""
    return Changing(lambda inputs: (inputs - inputs.mean(0)) / (inputs.std(0) + 1e-3))


def noisy():
    """Draws random numbers in every pass."""
    return Changing(lambda inputs: inputs + 0.1 * torch.rand(inputs.shape))


_UNSEEDED = default_rng()


def unseeded(model, inputs, labels):
    """Random numbers that nobody seeded."""
    descend(model, inputs + torch.tensor(_UNSEEDED.normal(size=inputs.shape), dtype=torch.float32), labels)
