"""What the timings of chains run on: two-class MNIST. And what a step is, everywhere.

A chain-step is what SGLD does to one chain at a time: draw a minibatch of ``BATCH`` examples, the gradient of their
mean loss, the update with its noise. Milliseconds are those of a chain-step: of a round, over its steps and its chains.
"""

from collections.abc import Callable

import numpy as np
import torch

from pacdp.algorithms import SGLD
from pacdp.algorithms import build as sampler
from pacdp.chains import Batching, Keys
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


def data(*, synthetic: bool = False) -> Dataset:
    """The training set of two-class MNIST; or, where that is asked for, 4,096 images with 19% of their pixels lit."""
    if not synthetic:
        return load("mnist2")[0]
    rng = np.random.default_rng(0)
    images = rng.random((4096, 1, 28, 28), dtype=np.float32)
    lit = rng.random(images.shape) < 0.19
    return Dataset("synthetic", images * lit, rng.integers(0, 2, 4096), 2)


def network(name: str) -> torch.nn.Module:
    """A freshly drawn network, the same each time."""
    generator = torch.Generator().manual_seed(0)
    return build(ARCHITECTURES[name], input_shape=(1, 28, 28), classes=2, generator=generator)


def objective(
    name: str,
    dataset: Dataset,
    *,
    device: str = "cpu",
    batching: Batching = "auto",
    clip_norm: float | None = None,
    keep_norms: bool = False,
) -> Objective:
    """The empirical risk of that network."""
    return Objective(
        network(name),
        LOSS,
        dataset,
        batch_size=BATCH,
        device=device,
        batching=batching,
        clip_norm=clip_norm,
        keep_norms=keep_norms,
    )


def chain_steps(risk: Objective, *, chains: int, steps: int) -> Callable[[], None]:
    """A round of ``steps`` steps of that many chains, always from the same weights and with the same batches."""
    method, keys = sampler(SGLD(tau=TAU), risk), Keys.derive([0] * chains, range(chains))
    start = method.init(risk.weights().repeat(chains, 1))

    def run() -> None:
        state = start
        for _ in range(steps):
            state, _ = method.step(state, keys)

    return run
