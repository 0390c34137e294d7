"""Small networks and data for priors and posteriors."""

import numpy as np
import torch
from numpy.random import default_rng
from torch.nn import Linear, ReLU, Sequential

from pacdp.data import Dataset


def blobs(n, *, classes=3, dim=4, spread=0.7, seed=0):
    """Gaussian clouds around fixed centres."""
    rng = default_rng(seed)
    centres = default_rng(99).normal(size=(classes, dim)) * 1.5
    labels = rng.integers(classes, size=n)
    inputs = (centres[labels] + spread * rng.normal(size=(n, dim))).astype(np.float32)
    return Dataset("blobs", inputs, labels.astype(np.int64), classes)


def network(dim=4, classes=3, *, hidden=8, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Sequential(Linear(dim, hidden), ReLU(), Linear(hidden, classes)).eval()
