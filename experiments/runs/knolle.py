"""What Knolle et al.'s tables train on what and how: the benches with their jobs, and the baseline without privacy.

The baseline is SGD on shuffled minibatches:

    w ← w - lr v,   v ← momentum v + mean gradient of the minibatch

Networks, first weights, data and the judgement of the predictions are those of a private run of the same seed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn, optim
from torch.nn.functional import cross_entropy

from pacdp.cli.private.algorithms import Public, network
from pacdp.cli.private.config import DPSGD, DPSGLD, Budget, PrivateConfig, Sampling, UserDPSGD
from pacdp.cli.private.data import Examples, examples
from pacdp.cli.private.run import judged
from pacdp.cli.runtime import Runtime
from pacdp.cli.serial import digest
from pacdp.cli.sweep.jobs import Job, single
from pacdp.cli.sweep.kinds import PRIVATE
from pacdp.errors import Diverged

DATA = ("MNIST", "X-rays")
SEEDS = (3, 5)
"""On MNIST and on the X-rays."""
BY_PATIENT = "DP-SGD by patient"
"""DP-SGD with the patient as the unit of privacy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainConfig:
    """One run without privacy: everything that determines its numbers."""

    run: PrivateConfig
    """Of which data, network and seed are taken: those of first weights and minibatches."""
    learning_rate: float = 0.05
    momentum: float = 0.9
    batch_size: int = 128
    epochs: int = 5

    @property
    def seed(self) -> int:
        """The run's."""
        return self.run.seed


def train_plain(config: PlainConfig, runtime: Runtime, folder: Path) -> dict[str, Any]:
    """Train, and judge on test and training data; nothing is kept in ``folder``, for it is done in a minute."""
    data = examples(config.run.dataset, features=config.run.features, by_person=False, root=runtime.data_root)
    public = Public(input_shape=data.train.inputs.shape[1:], classes=data.train.classes, size=float(data.units))
    module = network(config.run, public, device=runtime.device)
    steps = _fit(module, data, config, runtime.device)
    module.cpu().eval()
    return {
        "algorithm": "SGD", "steps": steps, "n": data.train.n, "n_test": data.test.n,
        "parameters": sum(p.numel() for p in module.parameters()),
        "test": judged(lambda inputs: module(inputs).softmax(-1), data.test),
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

    def procedures(self, seed: int, *, snapshots: int) -> dict[str, PlainConfig | PrivateConfig]:
        """By name; DP-SGLD has both of its additions and keeps ``snapshots`` weights from its second half."""
        run = replace(self.run, seed=seed)
        assert isinstance(run.method, DPSGD)
        langevin = replace(self.decaying, pre_noise=self.pre_noise, snapshots=snapshots)
        people = UserDPSGD(learning_rate=run.method.learning_rate)
        return {
            "SGD": PlainConfig(run=run, learning_rate=self.plain_rate, epochs=self.plain_epochs),
            "DP-SGD": run,
            # pre-noise needs every example's own gradient; the mode changes the numbers in the last digits only
            "DP-SGLD": replace(run, method=langevin, sampling=replace(run.sampling, grad_sample_mode="reference")),
            BY_PATIENT: replace(run, method=people, sampling=replace(run.sampling, max_physical=64)),
        }


def _run(rate: float, steps: int, epsilon: float, delta: float, *, step: float, **others: Any) -> PrivateConfig:
    sampling, budget = Sampling(sample_rate=rate, steps=steps), Budget(epsilon=epsilon, delta=delta)
    return PrivateConfig(method=DPSGD(learning_rate=step), sampling=sampling, budget=budget, **others)


def _steps(size: float, decay: float, offset: float, temperature: float) -> DPSGLD:
    return DPSGLD(convention="gradient-slot", step_size=size, decay=decay, decay_offset=offset, temperature=temperature)


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
    found = list[Job]()
    for bench, count in zip((MNIST, XRAYS), SEEDS, strict=True):
        bench, seeds = (DIGITS._replace(name=bench.name), 1) if smoke else (bench, count)
        for one in range(seed, seed + seeds) if bench.name in data else ():
            configs = bench.procedures(one, snapshots=2 if smoke else 4)
            found += [_job(bench, name, own) for name, own in configs.items() if patients or name != BY_PATIENT]
    return sorted(found, key=lambda job: job.tags["procedure"] == BY_PATIENT)


def _job(bench: Bench, procedure: str, config: PlainConfig | PrivateConfig) -> Job:
    private = isinstance(config, PrivateConfig)
    config = replace(config, reproducible=True) if private else config
    key = f"knolle {bench.name} {procedure} seed {config.seed} {digest(config, digits=8)}".lower().replace(" ", "-")
    own = {"data": bench.name, "procedure": procedure, "seed": config.seed, "stands_for": bench.run.dataset}
    tags = {"pre_noise": True, "decay": True} if procedure == "DP-SGLD" else {}
    return Job(key=key, kind=PRIVATE if private else PLAIN, config=config, tags=own | tags)
