"""Everything that is worth timing on a GPU, in one command of less than eight minutes; a dry run of it without one.

    make bench-gpu

Chain-steps a second at 1, 8 and 64 chains beside the eager loop and the library ``posteriors``; the share of the
memory's bandwidth that the update reaches; Monte Carlo certificates; private steps with seeded and with the system's
noise; how far all of it is from the CPU. Without a GPU every part runs at a small part of its size on the
CPU, so that the command is known to work, and benchmarks/results/gpu.json says that nothing was measured.
"""

import argparse
import importlib.util
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.data import TensorDataset

from benchmarks.plain import Plain, posteriors_sgld
from benchmarks.timing import RESULTS, in_turn, publish
from benchmarks.workload import ARCHITECTURES, BATCH, TAU, data, network, objective
from pacdp.algorithms import SGLD, EntropySGD, Settings, build
from pacdp.chains import Keys, Replayed, langevin
from pacdp.cli.runtime import Runtime
from pacdp.data import Dataset
from pacdp.losses import zero_one
from pacdp.posterior import GaussianPosterior
from pacdp.private import DPSGD, Mechanism, SeededRandomness, SystemRandomness, train
from pacdp.step.mechanism import MODES
from pacdp.stochastic import mean_risks

COMMAND = "make bench-gpu"
BANDWIDTH = {"H200": 4.8e12, "H100": 3.35e12, "A100": 2.0e12}
"""Bytes a second of the vendor's data sheet, by a part of the device's name."""
UPDATE_BYTES = 12
"""A weight's: read it and its gradient, write it."""
STD = 0.03
METHODS: dict[str, Settings] = {
    "SGLD": SGLD(tau=TAU),
    "Entropy-SGLD": EntropySGD(tau=TAU),
    "clipped SGLD": SGLD(tau=TAU, batch_size=BATCH, clip_norm=1.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much of everything is done."""

    device: str
    chains: tuple[int, ...] = (1, 8, 64)
    networks: tuple[str, ...] = tuple(ARCHITECTURES)
    steps: int = 200
    rounds: int = 3
    examples: int = 30_000
    passes: int = 4
    batches: tuple[int, ...] = (250, 1000, 4000)
    private_steps: int = 100
    sample_rate: float = 0.02

    def least(self, run: Callable[[], object], calls: int = 1) -> float:
        """Seconds of so many calls, the device's work included."""

        def whole() -> None:
            for _ in range(calls):
                run()
            if self.device == "cuda":
                torch.cuda.synchronize()

        return min(in_turn({"run": whole}, rounds=self.rounds)["run"].wall)


DRY = Sizes(device="cpu", chains=(1, 2), networks=("fc(100)", "conv"), steps=2, rounds=1, examples=60, passes=1,
            batches=(20,), private_steps=2, sample_rate=0.1)  # fmt: skip


def chains(sizes: Sizes, dataset: Dataset, name: str) -> Iterator[tuple[str, dict[str, float]]]:
    """Chain-steps a second (inner ones for Entropy-SGLD) of replayed steps, and over one chain's loops."""
    plain = Plain(network(name), dataset, device=sizes.device)
    steps: dict[str, Callable[[], None]] = {"eager loop": plain.sgld}
    if importlib.util.find_spec("posteriors") is not None:
        steps["posteriors"] = posteriors_sgld(Plain(network(name), dataset, device=sizes.device))
    loops = {label: sizes.steps / sizes.least(step, sizes.steps) for label, step in steps.items()}
    for chains in sizes.chains:
        for label, settings in METHODS.items():
            made = rate(sizes, dataset, name, settings, chains)
            over = {f"over {other}": made / own for other, own in loops.items()}
            yield f"{name}, {label}, {chains} chains", {"chain-steps a second": made, **over}


def rate(sizes: Sizes, dataset: Dataset, name: str, settings: Settings, chains: int) -> float:
    """Chain-steps a second of the step that a CUDA graph replays."""
    risk = objective(name, dataset, device=sizes.device, clip_norm=settings.clip_norm)
    keys = Keys.derive([0] * chains, range(chains))
    sampler = build(settings, risk)
    replayed = Replayed(sampler, keys) if sizes.device == "cuda" else sampler
    start = sampler.init(risk.weights().repeat(chains, 1))
    count = max(1, sizes.steps // settings.gradients_per_step)

    def run() -> None:
        state = start
        for _ in range(count):
            state, _ = replayed.step(state, keys)

    return chains * count * settings.gradients_per_step / sizes.least(run)


def update(sizes: Sizes, dataset: Dataset, name: str) -> Iterator[tuple[str, dict[str, float]]]:
    """Drift and noise of the most chains alone: bytes a second, and their share of the data sheet's."""
    del dataset
    count, dim = max(sizes.chains), sum(p.numel() for p in network(name).parameters())
    x, gradient = torch.zeros(2, count, dim, device=sizes.device)
    keys = Keys.derive([0] * count, range(count))
    tick = torch.zeros((), dtype=torch.int64, device=sizes.device)

    def run() -> None:
        langevin(x, gradient=gradient, rate=0.1, scale=0.01, keys=keys, stream=0, tick=tick, out=x)

    moved = UPDATE_BYTES * count * dim * 20 / sizes.least(run, calls=20)
    device = torch.cuda.get_device_name() if sizes.device == "cuda" else ""
    sheet = next((value for part, value in BANDWIDTH.items() if part in device), float("nan"))
    yield name, {"gigabytes a second": moved / 1e9, "share of the bandwidth": moved / sheet}


def monte_carlo(
    sizes: Sizes, dataset: Dataset, name: str
) -> Iterator[tuple[str, dict[str, float]]]:
    """Examples a second, each with weights of its own, of a Gaussian posterior's risk."""
    module = network(name).to(sizes.device).eval()
    posterior = GaussianPosterior.around(module, std=STD)
    inputs = torch.tensor(dataset.inputs[: sizes.examples], device=sizes.device)
    labels = torch.tensor(dataset.labels[: sizes.examples], device=sizes.device)

    def seconds(size: int) -> float:
        return sizes.least(
            lambda: mean_risks(module, posterior, inputs=inputs, labels=labels, losses=[zero_one()], seed=0,
                               passes=sizes.passes, batch_size=size, device=sizes.device)
        )  # fmt: skip

    whole = sizes.passes * len(labels)
    yield (
        name,
        {f"examples a second, {size} at a time": whole / seconds(size) for size in sizes.batches},
    )


def private(sizes: Sizes, dataset: Dataset, name: str) -> Iterator[tuple[str, dict[str, float]]]:
    """Private steps a second, with noise from a seed and from the operating system."""
    inputs, labels = (
        torch.tensor(part[: sizes.examples]) for part in (dataset.inputs, dataset.labels)
    )
    loss = nn.BCEWithLogitsLoss(reduction="none")
    sources: dict[str, Callable[[], Any]] = {
        "seeded": lambda: SeededRandomness(0, device=sizes.device),
        "system": SystemRandomness,
    }
    for mode in MODES:
        mechanism = Mechanism(
            clip_norm=1.0, noise_multiplier=1.0, sample_rate=sizes.sample_rate, steps=sizes.private_steps,
            expected_batch_size=sizes.sample_rate * len(labels), grad_sample_mode=mode,
        )  # fmt: skip
        for label, source in sources.items():
            seconds = sizes.least(
                lambda mechanism=mechanism, source=source: train(
                    DPSGD(learning_rate=0.1), network(name).to(sizes.device), TensorDataset(inputs, labels.float()),
                    mechanism=mechanism, loss=lambda z, y: loss(z.squeeze(1), y), randomness=source(),
                ),
            )  # fmt: skip
            made = sizes.private_steps / seconds
            yield f"{name}, {mode}, {label} noise", {"steps a second": made}


def equality(sizes: Sizes, dataset: Dataset, name: str) -> Iterator[tuple[str, dict[str, float]]]:
    """Largest differences from the CPU, as shares of the largest number there."""
    found: list[tuple[torch.Tensor, ...]] = []
    for device in ("cpu", sizes.device):
        risk, keys = objective(name, dataset, device=device), Keys.derive([0, 1], [0, 1])
        weights = risk.weights().repeat(2, 1)
        gradient = risk.estimate(weights, keys, 3).gradient
        moved = langevin(
            weights, gradient=gradient, rate=0.1, scale=0.01, keys=keys, stream=0, tick=3
        )
        loss = torch.tensor([risk.risks(risk.weights())[0].loss])
        found.append((gradient.cpu(), moved.cpu(), loss))
    names = ("gradient of two chains", "step of two chains", "loss over all examples")
    pairs = zip(names, *found, strict=True)
    yield name, {what: float((a - b).abs().max() / a.abs().max()) for what, a, b in pairs}


def parts(sizes: Sizes) -> Iterator[tuple[str, Any]]:
    """All of it, part by part, each with its seconds; the longest comes last."""
    dataset = data(synthetic=300 if sizes.device == "cpu" else 0)
    largest = sizes.networks[-1:]
    for name, run, networks in (
        ("update", update, sizes.networks),
        ("Monte Carlo", monte_carlo, largest),
        ("private steps", private, largest),
        ("differences from the CPU", equality, sizes.networks),
        ("chains", chains, sizes.networks),
    ):
        start = time.perf_counter()
        yield name, {key: row for own in networks for key, row in run(sizes, dataset, own)}
        yield f"{name}, seconds in all", round(time.perf_counter() - start, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    said = "every part on the CPU, at a size that shows it works"
    parser.add_argument("--dry-run", action="store_true", help=said)
    dry = parser.parse_args().dry_run
    there = torch.cuda.is_available() and not dry
    Runtime(device="cuda" if there else "cpu").apply()  # 23 bits, as the command has them
    if there:
        found: dict[str, Any] = {"command": COMMAND}
        try:
            for name, value in parts(Sizes(device="cuda")):
                found[name] = value
        finally:  # minutes of a GPU are not lost to a later part
            publish("gpu", found, device="cuda")
        return
    for name, value in parts(DRY):
        print(f"dry run: {name}: {value}")
    if not (RESULTS / "gpu.json").is_file():
        publish("gpu", {"chains": "not measured", "command": COMMAND})


if __name__ == "__main__":
    main()
