"""What the timings of chains run on: two-class MNIST where it is found, else numbers as sparse as its images."""

import numpy as np
import torch

from pacdp.chains import Batching
from pacdp.data import Dataset, load
from pacdp.losses import Loss, bounded_cross_entropy
from pacdp.models import Architecture, build
from pacdp.objective import Objective

BATCH = 128
TAU = 245.0
LOSS: Loss = bounded_cross_entropy(classes=2)
ARCHITECTURES = {
    "fc(100)": Architecture(hidden=(100,)),
    "fc600": Architecture(name="fc600"),
    "conv": Architecture(name="conv"),
}


def data() -> Dataset:
    """The training set of two-class MNIST, or 4,096 synthetic images with 19% of their pixels lit."""
    try:
        return load("mnist2")[0]
    except (ValueError, OSError):
        rng = np.random.default_rng(0)
        images = rng.random((4096, 1, 28, 28), dtype=np.float32)
        lit = rng.random(images.shape) < 0.19
        return Dataset("synthetic", images * lit, rng.integers(0, 2, 4096), 2)


def network(name: str) -> torch.nn.Module:
    """A freshly drawn network, the same each time."""
    generator = torch.Generator().manual_seed(0)
    return build(ARCHITECTURES[name], input_shape=(1, 28, 28), classes=2, generator=generator)


def objective(name: str, dataset: Dataset, *, device: str = "cpu", batching: Batching = "auto") -> Objective:
    """The empirical risk of that network."""
    return Objective(network(name), LOSS, dataset, batch_size=BATCH, device=device, batching=batching)
