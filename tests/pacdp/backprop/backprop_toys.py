"""Small networks and data for priors and posteriors."""

import numpy as np
import torch
from torch import nn

from pacdp.data import Dataset


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def blobs(n: int, *, classes: int = 3, dim: int = 4, spread: float = 0.7, seed: int = 0) -> Dataset:
    """Gaussian clouds around fixed centres."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(classes, dim)) * 1.5
    labels = rng.integers(classes, size=n)
    inputs = (centres[labels] + spread * rng.normal(size=(n, dim))).astype(np.float32)
    return Dataset("blobs", inputs, labels.astype(np.int64), classes)


def network(dim: int = 4, classes: int = 3, *, hidden: int = 8, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, classes)).eval()
