"""Training without privacy, the baseline of private tables: SGD or Adam on shuffled minibatches.

    w ← w - lr v,   v ← momentum v + mean gradient of the minibatch

Networks, first weights, data and the judgement of the predictions are those of a private run of the same seed.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn, optim
from torch.nn.functional import cross_entropy

from pacdp.cli.config import Runtime
from pacdp.cli.private.algorithms import Public, network
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.private.data import Examples, examples
from pacdp.cli.private.run import judged
from pacdp.cli.sweep.jobs import single
from pacdp import Diverged

FORMAT = "pacdp-plain-result/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainConfig:
    """One run without privacy: everything that determines its numbers."""

    dataset: str = "digits"
    features: Literal["pixels", "spots", "backbone"] = "pixels"
    architecture: str = "cnn5"
    hidden: tuple[int, ...] = (100,)
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: float = 0.05
    momentum: float = 0.9
    """Of SGD; Adam has its own."""
    batch_size: int = 128
    epochs: int = 5
    seed: int = 0
    """Of first weights and minibatches."""

    def __post_init__(self) -> None:
        if not (self.learning_rate > 0.0 and 0.0 <= self.momentum < 1.0):
            raise ValueError(
                f"expected learning_rate > 0 and 0 <= momentum < 1, got {self.learning_rate} and {self.momentum}"
            )
        if self.batch_size < 1 or self.epochs < 1:
            raise ValueError(f"expected batch_size and epochs >= 1, got {self.batch_size} and {self.epochs}")


def train_plain(config: PlainConfig, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """Train, and judge on test and training data; nothing is kept in ``folder``, for it is done in a minute.

    Raises:
        ValueError: data and network do not fit together.
        Diverged: a weight is not finite.
    """
    del folder
    data = examples(config.dataset, features=config.features, by_person=False, root=runtime.data_root)
    public = Public(input_shape=data.train.inputs.shape[1:], classes=data.train.classes, size=float(data.units))
    same = PrivateConfig(dataset=config.dataset, features=config.features, architecture=config.architecture,
                         hidden=config.hidden, seed=config.seed)  # fmt: skip
    module = network(same, public, device=runtime.device)
    steps = _fit(module, data, config, runtime.device)
    module.cpu().eval()
    return {
        "format": FORMAT, "algorithm": config.optimizer.upper() if config.optimizer == "sgd" else "Adam",
        "steps": steps, "n": data.train.n, "n_test": data.test.n,
        "parameters": sum(p.numel() for p in module.parameters()),
        "test": judged(lambda inputs: module(inputs).softmax(-1), data.test, curve=True),
        "train": judged(lambda inputs: module(inputs).softmax(-1), data.train),
    }  # fmt: skip


def _fit(module: nn.Module, data: Examples, config: PlainConfig, device: str) -> int:
    inputs, labels = (tensor.to(device) for tensor in data.tensors().tensors)
    generator = torch.Generator().manual_seed(config.seed)
    optimizer = _optimizer(module, config)
    steps = 0
    for _ in range(config.epochs):
        for rows in torch.randperm(data.train.n, generator=generator).to(device).split(config.batch_size):
            optimizer.zero_grad()
            cross_entropy(module(inputs[rows]), labels[rows]).backward()
            optimizer.step()
            steps += 1
        if not all(bool(torch.isfinite(weights).all()) for weights in module.parameters()):
            raise Diverged(steps, "a weight")
    return steps


def _optimizer(module: nn.Module, config: PlainConfig) -> optim.Optimizer:
    if config.optimizer == "adam":
        return optim.Adam(module.parameters(), lr=config.learning_rate)
    return optim.SGD(module.parameters(), lr=config.learning_rate, momentum=config.momentum)


PLAIN = single(train_plain)
"""Jobs of :class:`PlainConfig`."""
