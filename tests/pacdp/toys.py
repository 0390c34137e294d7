"""Small things that the tests of pacdp share: toy data, toy networks, keys, and a quadratic potential."""

import numpy as np
import pytest
import torch
from numpy.random import default_rng
from torch import Tensor

from bounds.accounting import Gaussian, SelfComposed
from pacdp.algorithms import PSGLD, SGD, SGHMC, SGLD, EntropySGD
from pacdp.chains import Keys, normal_like
from pacdp.data import Dataset
from pacdp.losses import bounded_cross_entropy
from pacdp.models import Architecture, build
from pacdp.objective import Estimate, Objective
from pacdp.store.reservation import Stretch
from tests.marks import parametrize

ON_A_GPU = [pytest.mark.cuda, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]
"""Marks of files that need one."""
dtypes = parametrize("dtype", [torch.float32, torch.float64])
GRADIENT_NOISE = 77
"""A stream that no sampler uses."""


def seeded(seed=0):
    """A generator of torch that begins at a seed."""
    return torch.Generator().manual_seed(seed)


def frozen(module):
    """The network, the weights of its first layer frozen."""
    module[0].weight.requires_grad_(False)
    return module


def keys_of(*seeds):
    """Keys of one chain a seed."""
    return Keys.derive(seeds)


def stretch(first=1, last=4, *, run="a", unit="example", noise=1.0, **more):
    """Steps of a run that a ledger counts, each with Gaussian noise."""
    event = SelfComposed(event=Gaussian(noise_multiplier=noise), count=last - first + 1)
    given = {"algorithm": "toy", "event": event} | more
    return Stretch(run=run, unit=unit, first=first, last=last, **given)


def toy_data(*, n=60, classes=2, shape=(5,), seed=0):
    """Gaussian inputs whose labels a network can learn in part."""
    rng = default_rng(seed)
    inputs = rng.normal(size=(n, *shape)).astype(np.float32)
    labels = np.argsort(np.argsort(inputs.reshape(n, -1)[:, :2].sum(axis=1))) * classes // n
    return Dataset("toy", inputs, labels.astype(np.int64), classes)


def sparse_data(*, n=60, classes=2, shape=(1, 6, 6), seed=0):
    """As :func:`toy_data`, four fifths of the inputs zero."""
    dense = toy_data(n=n, classes=classes, shape=shape, seed=seed)
    keep = default_rng(seed + 1).random(dense.inputs.shape) < 0.2
    return Dataset("sparse toy", np.where(keep, dense.inputs, 0).astype(np.float32), dense.labels, classes)


def toy_objective(data, *, architecture=None, seed=0, **how):
    architecture = architecture or Architecture(hidden=(7, 6))
    model = build(architecture, input_shape=data.inputs.shape[1:], classes=data.classes, generator=seeded(seed))
    return Objective(model, bounded_cross_entropy(classes=data.classes), data, **{"batch_size": 10} | how)


def pair(data):
    """Inputs and labels of a data set, as tensors."""
    return torch.tensor(data.inputs), torch.tensor(data.labels)


class Sloped:
    """A potential of which only the gradient is known, a function of the weights."""

    def __init__(self, slope):
        self.slope = slope

    def estimate(self, weights, keys, tick):
        zero = weights.new_zeros(len(weights))
        return Estimate(self.slope(weights), zero, zero, zero.double())


def tensors(state):
    """Copies of a state's tensors."""
    return [value.clone() for value in state if isinstance(value, Tensor)]


SAMPLERS = {
    "SGD": SGD(step_size=0.3, momentum=0.9, decay=0.3),
    "SGLD": SGLD(tau=30.0, decay=0.3),
    "SGLD clipped": SGLD(tau=30.0, clip_norm=0.5),
    "pSGLD": PSGLD(tau=30.0, stabiliser=0.1),
    "SGHMC": SGHMC(tau=30.0),
    "Entropy-SGLD": EntropySGD(tau=30.0, inner_steps=3),
    "Entropy-SGD clipped": EntropySGD(tau=30.0, inner_steps=3, beta=None, clip_norm=0.5),
}


class Quadratic:
    """½ (w - target)'A(w - target) on blocks of d coordinates, each a chain of its own; gradients are exact or have
    Gaussian noise of deviation ``noise``, a function of key and tick like a minibatch's.
    """

    def __init__(self, matrix, target, *, noise=0.0):
        self.matrix, self.target, self.noise = (np.asarray(matrix, float), np.asarray(target, float), noise)
        self.dim = len(self.target)

    def estimate(self, weights, keys, tick):
        away = weights.unflatten(1, (-1, self.dim)) - torch.tensor(self.target, dtype=weights.dtype)
        gradient = (away @ torch.tensor(self.matrix, dtype=weights.dtype)).flatten(1)
        if self.noise:
            gradient += self.noise * normal_like(weights, keys=keys, stream=GRADIENT_NOISE, tick=tick)
        zero = weights.new_zeros(len(weights))
        return Estimate(gradient, zero, zero)
