"""Private steps side by side with Opacus's, with those of ``train``, and the peak memory of both; with ``--against
COMMIT`` also beside the same steps as that commit took them.

All train the same network on the same batches of MNIST with the same clipping norm, divisor and SGD; a step is a
forward and a backward pass, clipping, noise and the update. Ours draws its noise from a seeded generator as Opacus
does without its secure mode (whose generator no current Python can install), or from the operating system.
"""

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise, product
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizer
from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from safetensors.torch import load_file, save_file
from torch import Tensor, nn, optim
from torch.utils.data import TensorDataset

from benchmarks.against import against
from benchmarks.timing import in_turn, publish
from pacdp.data import load
from pacdp.models import Architecture, build
from pacdp.private import DPSGD, Mechanism, PrivateEngine, SeededRandomness, SystemRandomness, train
from pacdp.step.mechanism import MODES
from pacdp.step.noise import Randomness

BATCH, LARGE, CLIP_NORM, NOISE, RATE = 256, 2048, 1.0, 1.1, 0.1
OF_OPACUS = ("hooks", "ghost")
"""Its default, and its fastest mode."""
CONV, FC600 = Architecture(name="conv"), Architecture(name="fc600")
NETWORKS = {"fc600": FC600, "conv": CONV}
Step = Callable[[], None]


def data(size: int) -> tuple[Tensor, Tensor]:
    """The first images and digits of MNIST's training set."""
    learnt = load("mnist")[0]
    return torch.tensor(learnt.inputs[:size]), torch.tensor(learnt.labels[:size])


def network(name: str) -> nn.Module:
    """Ten classes, the same weights each time."""
    generator = torch.Generator().manual_seed(0)
    return build(NETWORKS[name], input_shape=(1, 28, 28), classes=10, generator=generator)


def ours(
    name: str, mode: Any, batch: tuple[Tensor, Tensor], noise: float, randomness: Randomness
) -> Step:
    """A step of the loop around ``PrivateEngine``."""
    model = network(name)
    engine = PrivateEngine(randomness=randomness)
    model, optimizer, _ = engine.make_private(
        module=model, optimizer=optim.SGD(model.parameters(), lr=RATE), dataset=TensorDataset(*batch),
        noise_multiplier=noise, max_grad_norm=CLIP_NORM, sample_rate=0.01, expected_batch_size=float(len(batch[0])),
        grad_sample_mode=mode, batches="own")  # fmt: skip
    return _step(model, optimizer, nn.CrossEntropyLoss(), batch)


def opacus(name: str, mode: str, batch: tuple[Tensor, Tensor], noise: float) -> Step:
    """A step of the same loop around Opacus's own module and optimizer, by ghost clipping or by hooks."""
    model, generator = network(name), torch.Generator().manual_seed(0)
    inner = optim.SGD(model.parameters(), lr=RATE)
    settings: dict[str, Any] = {
        "noise_multiplier": noise, "max_grad_norm": CLIP_NORM, "expected_batch_size": len(batch[0]),
        "generator": generator, "secure_mode": False,
    }  # fmt: skip
    criterion: Any = nn.CrossEntropyLoss()
    if mode == "hooks":
        return _step(GradSampleModule(model), DPOptimizer(inner, **settings), criterion, batch)
    ghost = GradSampleModuleFastGradientClipping(model, max_grad_norm=CLIP_NORM)  # pyright: ignore
    optimizer: Any = DPOptimizerFastGradientClipping(inner, **settings)
    return _step(ghost, optimizer, DPLossFastGradientClipping(ghost, optimizer, criterion), batch)


def training(name: str, mode: Any, batch: tuple[Tensor, Tensor], *, steps: int) -> float:
    """The least processor seconds of a step of ``train``, on the whole batch each time."""
    mechanism = Mechanism(clip_norm=CLIP_NORM, noise_multiplier=NOISE, sample_rate=1.0,
                          expected_batch_size=float(len(batch[0])), steps=steps + 1, grad_sample_mode=mode)  # fmt: skip
    ends = list[float]()
    train(DPSGD(learning_rate=RATE), network(name), TensorDataset(*batch), mechanism=mechanism,
          loss=nn.CrossEntropyLoss(reduction="none"), randomness=SeededRandomness(0),
          progress=lambda _: ends.append(time.process_time()))  # fmt: skip
    return min(end - start for start, end in pairwise(ends))


def _step(model: nn.Module, optimizer: Any, criterion: Any, batch: tuple[Tensor, Tensor]) -> Step:
    inputs, targets = batch

    def step() -> None:
        optimizer.zero_grad()
        criterion(model(inputs), targets).backward()
        optimizer.step()

    return step


def compare(
    name: str, batch: tuple[Tensor, Tensor], *, steps: int, rounds: int
) -> dict[str, object]:
    """Milliseconds a step, and how many times longer others take, with the threads that torch has now."""
    candidates = {
        f"ours, {mode}": ours(name, mode, batch, NOISE, SeededRandomness(0)) for mode in MODES
    }
    candidates |= {f"Opacus, {mode}": opacus(name, mode, batch, NOISE) for mode in OF_OPACUS}
    candidates["ours, ghost, the system's noise"] = ours(
        name, "ghost", batch, NOISE, SystemRandomness()
    )
    times = in_turn(
        {label: _repeat(step, steps) for label, step in candidates.items()}, rounds=rounds
    )
    least = {label: min(own.processor) / steps for label, own in times.items()}
    least |= {f"train, {mode}": training(name, mode, batch, steps=steps * rounds) for mode in MODES}
    loop = least["ours, ghost"]
    ratios = {
        f"{label} / ours, ghost": round(one / loop, 3)
        for label, one in least.items()
        if one != loop
    }
    trained = {f"train, {mode}, ms": round(1e3 * least[f"train, {mode}"], 3) for mode in MODES}
    return (
        {f"{label}, ms": own.table(1e3 / steps) for label, own in times.items()} | trained | ratios
    )


def _compare(threads: int, name: str, steps: int, rounds: int) -> dict[str, object]:
    warnings.filterwarnings("ignore", message="Full backward hook is firing")
    torch.set_num_threads(threads)
    return compare(name, data(BATCH), steps=steps, rounds=rounds)


def _repeat(step: Step, steps: int) -> Step:
    def run() -> None:
        for _ in range(steps):
            step()

    return run


def peak(whose: str, mode: str, batch: tuple[Tensor, Tensor]) -> int:
    """Bytes that three steps of CONV take above what imports, network and data hold already."""
    step = (
        ours("conv", mode, batch, NOISE, SeededRandomness(0))
        if whose == "ours"
        else opacus("conv", mode, batch, NOISE)
    )
    before = _largest()
    _repeat(step, 3)()
    return _largest() - before


def peaks() -> dict[str, float]:
    """Peak memory in MiB, each in a process of its own, which reads no more than its batch."""
    found: dict[str, float] = {}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "batch.safetensors"
        save_file(dict(zip(("inputs", "labels"), data(LARGE), strict=True)), path)
        for whose, mode in (*product(["ours"], MODES), *product(["Opacus"], OF_OPACUS)):
            command = [
                sys.executable,
                "-m",
                "benchmarks.private_steps",
                "--peak",
                whose,
                mode,
                str(path),
            ]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found[f"{whose}, {mode}, MiB"] = round(json.loads(done.stdout) / 2**20, 1)
    return found


def _largest() -> int:
    """Peak resident memory of this program; getrusage would begin with that of the process which started it."""
    (line,) = [
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM")
    ]
    return 1024 * int(line.split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--against", metavar="COMMIT", help="also compare with the steps of an older commit"
    )
    parser.add_argument(
        "--peak", nargs=3, metavar=("WHOSE", "MODE", "BATCH"), help="only this, in bytes"
    )
    arguments = parser.parse_args()
    if arguments.peak:
        torch.set_num_threads(1)
        warnings.filterwarnings("ignore", message="Full backward hook is firing")
        whose, mode, path = arguments.peak
        batch = load_file(path)
        print(peak(whose, mode, (batch["inputs"], batch["labels"])))
        return
    results: dict[str, object] = {"batch": BATCH, "clip norm": CLIP_NORM, "noise multiplier": NOISE}
    if arguments.against:
        then = against(arguments.against, product(NETWORKS, ["ghost"]))
        publish(
            "private_steps_against", {"batch": BATCH, "1 thread": then}
        )  # what follows takes much memory
    for threads, name in product((1, 2), NETWORKS):
        key = f"{name}, {threads} thread" + ("s" if threads > 1 else "")
        with ProcessPoolExecutor(
            1, mp_context=get_context("spawn")
        ) as own:  # whose memory goes when it ends
            results[key] = own.submit(
                _compare, threads, name, arguments.steps, arguments.rounds
            ).result()
        print(key, results[key], flush=True)
    results[f"peak memory, conv, batch {LARGE}"] = peaks()
    publish("private_steps", results)


if __name__ == "__main__":
    main()
