"""Private steps side by side with Opacus's and with those of ``train``, on one thread.

All train the same network on the same batches of MNIST with the same clipping norm, divisor and SGD; a step is a
forward and a backward pass, clipping, noise and the update. Ours draws its noise from a seeded generator as Opacus
does without its secure mode (whose generator no current Python can install), or from the operating system.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizer
from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import Tensor, nn, optim
from torch.utils.data import TensorDataset

from benchmarks import workload
from benchmarks.timing import in_turn, publish, tables
from pacdp.data import load
from pacdp.private import DPSGD, Mechanism, PrivateEngine, SeededRandomness, SystemRandomness, train
from pacdp.step.mechanism import MODES
from pacdp.step.noise import Randomness

BATCH, CLIP_NORM, NOISE, RATE = 256, 1.0, 1.1, 0.1
OF_OPACUS = ("hooks", "ghost")
"""Its default, and its fastest mode."""
NETWORKS = ("fc600", "conv")
Batch = tuple[Tensor, Tensor]
Step = Callable[[], None]


def data(size: int) -> Batch:
    """The first images and digits of MNIST's training set."""
    learnt = load("mnist")[0]
    return torch.tensor(learnt.inputs[:size]), torch.tensor(learnt.labels[:size])


def ours(name: str, mode: Any, batch: Batch, noise: float, randomness: Randomness) -> Step:
    """A step of the loop around ``PrivateEngine``."""
    model = workload.network(name, classes=10)
    engine = PrivateEngine(randomness=randomness)
    model, optimizer, _ = engine.make_private(
        module=model, optimizer=optim.SGD(model.parameters(), lr=RATE), dataset=TensorDataset(*batch),
        noise_multiplier=noise, max_grad_norm=CLIP_NORM, sample_rate=0.01, expected_batch_size=float(len(batch[0])),
        grad_sample_mode=mode, batches="own")  # fmt: skip
    return _step(model, optimizer, nn.CrossEntropyLoss(), batch)


def opacus(name: str, mode: str, batch: Batch) -> Step:
    """A step of the same loop around Opacus's own module and optimizer, by ghost clipping or by hooks."""
    model, generator = workload.network(name, classes=10), torch.Generator().manual_seed(0)
    inner = optim.SGD(model.parameters(), lr=RATE)
    settings: dict[str, Any] = {
        "noise_multiplier": NOISE, "max_grad_norm": CLIP_NORM, "expected_batch_size": len(batch[0]),
        "generator": generator, "secure_mode": False,
    }  # fmt: skip
    criterion: Any = nn.CrossEntropyLoss()
    if mode == "hooks":
        return _step(GradSampleModule(model), DPOptimizer(inner, **settings), criterion, batch)
    ghost = GradSampleModuleFastGradientClipping(model, max_grad_norm=CLIP_NORM)  # pyright: ignore
    optimizer: Any = DPOptimizerFastGradientClipping(inner, **settings)
    return _step(ghost, optimizer, DPLossFastGradientClipping(ghost, optimizer, criterion), batch)


def _step(model: nn.Module, optimizer: Any, criterion: Any, batch: Batch) -> Step:
    inputs, targets = batch

    def step() -> None:
        optimizer.zero_grad()
        criterion(model(inputs), targets).backward()
        optimizer.step()

    return step


def training(name: str, mode: Any, batch: Batch, steps: int) -> float:
    """The least processor seconds of a step of ``train``, on the whole batch each time."""
    mechanism = Mechanism(clip_norm=CLIP_NORM, noise_multiplier=NOISE, sample_rate=1.0,
                          expected_batch_size=float(len(batch[0])), steps=steps + 1, grad_sample_mode=mode)  # fmt: skip
    ends = list[float]()
    train(DPSGD(learning_rate=RATE), workload.network(name, classes=10), TensorDataset(*batch), mechanism=mechanism,
          loss=nn.CrossEntropyLoss(reduction="none"), randomness=SeededRandomness(0),
          progress=lambda _: ends.append(time.process_time()))  # fmt: skip
    return min(end - start for start, end in pairwise(ends))


def compare(name: str, steps: int, rounds: int) -> dict[str, object]:
    """Milliseconds a step, and how many times longer others take than the loop by ghost clipping."""
    batch = data(BATCH)
    seeded, system = SeededRandomness(0), SystemRandomness()
    candidates = {f"ours, {mode}": ours(name, mode, batch, NOISE, seeded) for mode in MODES}
    candidates |= {f"Opacus, {mode}": opacus(name, mode, batch) for mode in OF_OPACUS}
    candidates["ours, ghost, the system's noise"] = ours(name, "ghost", batch, NOISE, system)
    times = in_turn(candidates, rounds=rounds, calls=steps)
    found: dict[str, object] = {
        f"{label}, ms": own for label, own in tables(times, 1e3 / steps).items()
    }
    least = {label: min(own.processor) / steps for label, own in times.items()}
    for mode in MODES:
        least[f"train, {mode}"] = training(name, mode, batch, steps * rounds)
        found[f"train, {mode}, ms"] = round(1e3 * least[f"train, {mode}"], 3)
    loop = least.pop("ours, ghost")
    return found | {f"{label} / ours, ghost": round(own / loop, 3) for label, own in least.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message="Full backward hook is firing")
    torch.set_num_threads(1)
    found = {
        f"{name}, 1 thread": compare(name, arguments.steps, arguments.rounds) for name in NETWORKS
    }
    publish(
        "private_steps",
        {"batch": BATCH, "clip norm": CLIP_NORM, "noise multiplier": NOISE, **found},
    )


if __name__ == "__main__":
    main()
