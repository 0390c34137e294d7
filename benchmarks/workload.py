"""What the timings of chains run on: two-class MNIST. And what a step is, everywhere.

A chain-step is what SGLD does to one chain at a time: draw a minibatch of ``BATCH`` examples, the gradient of their
mean loss, the update with its noise. Milliseconds are those of a chain-step: of a round, over its steps and its chains.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from pacdp.algorithms import SGLD
from pacdp.algorithms import build as sampler
from pacdp.chains import Keys
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


def data(*, synthetic: int = 0) -> Dataset:
    """The training set of two-class MNIST, or so many images with 19% of their pixels lit."""
    if not synthetic:
        return load("mnist2")[0]
    rng = np.random.default_rng(0)
    images = rng.random((synthetic, 1, 28, 28), dtype=np.float32)
    lit = rng.random(images.shape) < 0.19
    return Dataset("synthetic", images * lit, rng.integers(0, 2, synthetic), 2)


def network(architecture: str | Architecture, *, classes: int = 2) -> torch.nn.Module:
    """A freshly drawn network, the same each time."""
    made = ARCHITECTURES[architecture] if isinstance(architecture, str) else architecture
    generator = torch.Generator().manual_seed(0)
    return build(made, input_shape=(1, 28, 28), classes=classes, generator=generator)


def objective(architecture: str | Architecture, dataset: Dataset, **options: Any) -> Objective:
    """The empirical risk of that network."""
    return Objective(network(architecture), LOSS, dataset, batch_size=BATCH, **options)


def chain_steps(
    risk: Objective, *, steps: int, chains: int = 1, keys: Keys | None = None
) -> Callable[[], None]:
    """A round of ``steps`` steps of SGLD, always from the same weights and with the same batches."""
    keys = keys or Keys.derive([0] * chains, range(chains))
    method = sampler(SGLD(tau=TAU), risk)
    start = method.init(risk.weights().repeat(keys.count, 1))

    def run() -> None:
        state = start
        for _ in range(steps):
            state, _ = method.step(state, keys)

    return run
