"""What Knolle et al.'s tables train on what and how: the benches with their jobs, and the baseline without privacy.

The baseline is SGD on shuffled minibatches:

    w ← w - lr v,   v ← momentum v + mean gradient of the minibatch

Networks, first weights, data and the judgement of the predictions are those of a private run of the same seed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import nn, optim
from torch.nn.functional import cross_entropy

from pacdp import Diverged
from pacdp.cli.config import Runtime
from pacdp.cli.private.algorithms import Public, network
from pacdp.cli.private.config import Budget, PrivateConfig, Sampling
from pacdp.cli.private.data import Examples, examples
from pacdp.cli.private.methods import DPSGD, DPSGLD, UserDPSGD
from pacdp.cli.private.run import judged
from pacdp.cli.serial import digest
from pacdp.cli.sweep.jobs import Job, single
from pacdp.cli.sweep.kinds import PRIVATE

DATA = ("MNIST", "X-rays")
SEEDS = (3, 5)
"""On MNIST and on the X-rays."""
FORMAT = "pacdp-plain-result/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainConfig:
    """One run without privacy: everything that determines its numbers."""

    dataset: str = "digits"
    features: Literal["pixels", "spots", "backbone"] = "pixels"
    architecture: str = "cnn5"
    hidden: tuple[int, ...] = (100,)
    optimizer: Literal["sgd"] = "sgd"
    learning_rate: float = 0.05
    momentum: float = 0.9
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
        "format": FORMAT, "algorithm": "SGD", "steps": steps, "n": data.train.n, "n_test": data.test.n,
        "parameters": sum(p.numel() for p in module.parameters()),
        "test": judged(lambda inputs: module(inputs).softmax(-1), data.test, curve=True),
        "train": judged(lambda inputs: module(inputs).softmax(-1), data.train),
    }  # fmt: skip


def _fit(module: nn.Module, data: Examples, config: PlainConfig, device: str) -> int:
    inputs, labels = (tensor.to(device) for tensor in data.tensors().tensors)
    generator = torch.Generator().manual_seed(config.seed)
    optimizer = optim.SGD(module.parameters(), lr=config.learning_rate, momentum=config.momentum)
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


PLAIN = single(train_plain)
"""Jobs of :class:`PlainConfig`."""


class Bench(NamedTuple):
    """One data set with everything that its rows share."""

    name: str
    """In tables and figures."""
    run: PrivateConfig
    """Data, network, sampling and budget; ``method`` is DP-SGD's."""
    decaying: DPSGLD
    """DP-SGLD's steps, and the temperature with which they cost the budget."""
    pre_noise: float
    """ρ for which the noise on an example's gradient is about half as long as the clip norm: ½/√(parameters)."""
    plain_epochs: int
    plain_rate: float

    def sgld(self, *, snapshots: int) -> PrivateConfig:
        """DP-SGLD with both of its additions, keeping ``snapshots`` weights from the second half of the run."""
        method = replace(self.decaying, pre_noise=self.pre_noise, snapshots=snapshots)
        # pre-noise needs every example's own gradient; the mode changes the numbers in the last digits only
        return replace(self.run, method=method, sampling=replace(self.run.sampling, grad_sample_mode="reference"))

    def by_patient(self) -> PrivateConfig:
        """DP-SGD with the patient as the unit of privacy."""
        assert isinstance(self.run.method, DPSGD)
        method = UserDPSGD(learning_rate=self.run.method.learning_rate)
        return replace(self.run, method=method, sampling=replace(self.run.sampling, max_physical=64))


def _run(rate: float, steps: int, epsilon: float, delta: float, *, step: float, **others: Any) -> PrivateConfig:
    sampling, budget = Sampling(sample_rate=rate, steps=steps), Budget(epsilon=epsilon, delta=delta)
    return PrivateConfig(method=DPSGD(learning_rate=step), sampling=sampling, budget=budget, **others)


def _steps(size: float, decay: float, offset: float, temperature: float) -> DPSGLD:
    return DPSGLD(step_size=size, decay=decay, decay_offset=offset, temperature=temperature)


_MLP: dict[str, Any] = {"architecture": "fc", "hidden": (32,)}
_DIGITS = _run(0.1, 40, 8.0, 1e-3, step=2.0, records=2, **_MLP)
_LUNGS = _run(0.1, 200, 6.0, 1e-4, step=0.3, records=5, dataset="xrays224", features="backbone", **_MLP)
_NUMERALS = _run(0.02, 500, 0.5, 1e-5, step=2.0, records=5, dataset="mnist")
MNIST = Bench("MNIST", _NUMERALS, _steps(2.2, 0.33, 500.0, 2.82), 0.0024, 5, 0.05)
XRAYS = Bench("X-rays", _LUNGS, _steps(0.33, 0.33, 200.0, 2.6), 0.0025, 5, 0.01)
DIGITS = Bench("digits", _DIGITS, _steps(2.2, 0.33, 40.0, 0.104), 0.01, 1, 0.05)


def table_jobs(data: Sequence[str], smoke: bool, seed: int, *, patients: bool = False) -> list[Job]:
    """SGD, DP-SGD and DP-SGLD of Tables 1 and 2; DP-SGD that protects patients instead of images where asked for.

    For ``smoke`` scikit-learn's digits stand in for both, one seed each."""
    found, people = list[Job](), list[Job]()
    for bench, count in zip((MNIST, XRAYS), SEEDS, strict=True):
        bench, seeds = (DIGITS._replace(name=bench.name), 1) if smoke else (bench, count)
        for one in range(seed, seed + seeds) if bench.name in data else ():
            same = {name: getattr(bench.run, name) for name in ("dataset", "features", "architecture", "hidden")}
            plain = PlainConfig(**same, learning_rate=bench.plain_rate, epochs=bench.plain_epochs, seed=one)
            found += [
                _job(bench, "SGD", plain),
                _job(bench, "DP-SGD", replace(bench.run, seed=one)),
                _sgld(bench, 2 if smoke else 4, one),
            ]
            people.append(_job(bench, "DP-SGD by patient", replace(bench.by_patient(), seed=one)))
    return found + people if patients else found


def _sgld(bench: Bench, snapshots: int, seed: int) -> Job:
    config = bench.sgld(snapshots=snapshots)
    return _job(bench, "DP-SGLD", replace(config, seed=seed), pre_noise=True, decay=True)


def _job(bench: Bench, procedure: str, config: PlainConfig | PrivateConfig, **tags: bool) -> Job:
    private = isinstance(config, PrivateConfig)
    config = replace(config, reproducible=True) if private else config
    key = f"knolle {bench.name} {procedure} seed {config.seed} {digest(config, digits=8)}".lower().replace(" ", "-")
    own = {"data": bench.name, "procedure": procedure, "seed": config.seed, "stands_for": bench.run.dataset}
    return Job(key=key, kind=PRIVATE if private else PLAIN, config=config, tags=own | tags)
