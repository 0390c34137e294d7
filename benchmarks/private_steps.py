"""Private steps side by side with Opacus's own optimizer in the same mode, and the peak memory of two modes; with
``--against COMMIT`` also beside the same steps as that commit took them.

Both train the same network on the same batches of MNIST with the same clipping norm, divisor and SGD; a step is a
forward and a backward pass, clipping, noise and the update. Ours draws its noise from a seeded generator as Opacus
does without its secure mode (whose generator no current Python can install), or from the operating system. DP-SGLD is
DP-SGD with ties between the step size and the noise, and so takes the same steps at another noise multiplier.
"""

import argparse
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
from opacus.grad_sample.gsm_exp_weights import GradSampleModuleExpandedWeights
from opacus.optimizers import DPOptimizer
from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from safetensors.torch import load_file, save_file
from torch import Tensor, nn, optim

from benchmarks.against import against
from benchmarks.timing import in_turn, publish
from pacdp.data import load
from pacdp.models import Architecture, build
from pacdp.opacus.modules import MODES
from pacdp.private import DPSGLD, Mechanism, PrivateEngine, SeededRandomness, SystemRandomness, Tempered
from pacdp.step.noise import Randomness

BATCH, LARGE, CLIP_NORM, NOISE, RATE = 256, 2048, 1.0, 1.1, 0.1
CONV, FC600 = Architecture(name="conv"), Architecture(name="fc600")
NETWORKS = {"fc600": FC600, "conv": CONV}
Step = Callable[[], None]


def data(size: int) -> tuple[Tensor, Tensor]:
    """The first images and digits of MNIST's training set."""
    train = load("mnist")[0]
    return torch.tensor(train.inputs[:size]), torch.tensor(train.labels[:size])


def network(name: str) -> nn.Module:
    """Ten classes, the same weights each time."""
    generator = torch.Generator().manual_seed(0)
    return build(NETWORKS[name], input_shape=(1, 28, 28), classes=10, generator=generator)


def ours(name: str, mode: Any, batch: tuple[Tensor, Tensor], noise: float, randomness: Randomness) -> Step:
    """A step of the loop around ``PrivateEngine``."""
    model = network(name)
    engine = PrivateEngine(randomness=randomness)
    dataset = torch.utils.data.TensorDataset(*batch)
    model, optimizer, *rest = engine.make_private(
        module=model, optimizer=optim.SGD(model.parameters(), lr=RATE), dataset=dataset, noise_schedule=noise,
        clip_norm=CLIP_NORM, sample_rate=0.01, expected_batch_size=float(len(batch[0])),
        criterion=nn.CrossEntropyLoss() if mode == "ghost" else None, grad_sample_mode=mode, batches="own")  # fmt: skip
    return _step(model, optimizer, rest[0] if mode == "ghost" else nn.CrossEntropyLoss(), batch)


def opacus(name: str, mode: str, batch: tuple[Tensor, Tensor], noise: float) -> Step:
    """A step of the same loop around Opacus's own module and optimizer."""
    model, generator = network(name), torch.Generator().manual_seed(0)
    inner = optim.SGD(model.parameters(), lr=RATE)
    settings: dict[str, Any] = {
        "noise_multiplier": noise, "max_grad_norm": CLIP_NORM, "expected_batch_size": len(batch[0]),
        "generator": generator, "secure_mode": False,
    }  # fmt: skip
    criterion: Any = nn.CrossEntropyLoss()
    if mode == "ghost":
        ghost = GradSampleModuleFastGradientClipping(model, max_grad_norm=CLIP_NORM)  # pyright: ignore
        optimizer: Any = DPOptimizerFastGradientClipping(inner, **settings)
        return _step(ghost, optimizer, DPLossFastGradientClipping(ghost, optimizer, criterion), batch)
    wrapped = (
        GradSampleModuleExpandedWeights(model)
        if mode == "ew"
        else GradSampleModule(model, force_functorch=mode == "functorch")
    )
    return _step(wrapped, DPOptimizer(inner, **settings), criterion, batch)


def _step(model: nn.Module, optimizer: Any, criterion: Any, batch: tuple[Tensor, Tensor]) -> Step:
    inputs, targets = batch

    def step() -> None:
        optimizer.zero_grad()
        criterion(model(inputs), targets).backward()
        optimizer.step()

    return step


def sgld_noise() -> float:
    """DP-SGLD's noise multiplier at the posterior's temperature and this learning rate."""
    mechanism = Mechanism(clip_norm=CLIP_NORM, sample_rate=BATCH / 60_000, expected_batch_size=float(BATCH), steps=1)
    sgld = DPSGLD(mechanism=mechanism, convention=Tempered(step_size=RATE, temperature=1.0 / 60_000))
    return sgld.noise_at(0)


def compare(name: str, mode: str, batch: tuple[Tensor, Tensor], *, steps: int, rounds: int) -> dict[str, object]:
    """Milliseconds a step, and how many times longer Opacus takes, with the threads that torch has now."""
    candidates = {
        "ours": ours(name, mode, batch, NOISE, SeededRandomness(0)),
        "Opacus": opacus(name, mode, batch, NOISE),
        "ours, DP-SGLD": ours(name, mode, batch, sgld_noise(), SeededRandomness(0)),
        "Opacus, DP-SGLD": opacus(name, mode, batch, sgld_noise()),
        "ours, the system's noise": ours(name, mode, batch, NOISE, SystemRandomness()),
    }
    times = in_turn({label: _repeat(step, steps) for label, step in candidates.items()}, rounds=rounds)
    each = {label: own.table(1e3 / steps) for label, own in times.items()}
    seconds = {label: own.least for label, own in times.items()}
    ratios = {
        "Opacus / ours": seconds["Opacus"] / seconds["ours"],
        "Opacus / ours, DP-SGLD": seconds["Opacus, DP-SGLD"] / seconds["ours, DP-SGLD"],
        "Opacus / ours, the system's noise": seconds["Opacus"] / seconds["ours, the system's noise"],
    }
    return {f"{label}, ms": value for label, value in each.items()} | {k: round(v, 3) for k, v in ratios.items()}


def _compare(threads: int, name: str, mode: str, steps: int, rounds: int) -> dict[str, object]:
    warnings.filterwarnings("ignore", message="Full backward hook is firing")
    torch.set_num_threads(threads)
    return compare(name, mode, data(BATCH), steps=steps, rounds=rounds)


def _repeat(step: Step, steps: int) -> Step:
    def run() -> None:
        for _ in range(steps):
            step()

    return run


def peak(whose: str, mode: str, batch: tuple[Tensor, Tensor]) -> int:
    """Bytes that three steps of CONV take above what imports, network and data hold already."""
    step = (
        ours("conv", mode, batch, NOISE, SeededRandomness(0)) if whose == "ours" else opacus("conv", mode, batch, NOISE)
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
        for whose in ("ours", "Opacus"):
            for mode in ("hooks", "ghost"):
                command = [sys.executable, "-m", "benchmarks.private_steps", "--peak", whose, mode, str(path)]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                found[f"{whose}, {mode}, MiB"] = round(json.loads(done.stdout) / 2**20, 1)
            found[f"{whose}, ghost / hooks"] = round(found[f"{whose}, ghost, MiB"] / found[f"{whose}, hooks, MiB"], 3)
    return found


def _largest() -> int:
    """Peak resident memory of this program; getrusage would begin with that of the process which started it."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return 1024 * int(line.split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--against", metavar="COMMIT", help="also compare with the steps of an older commit")
    parser.add_argument("--peak", nargs=3, metavar=("WHOSE", "MODE", "BATCH"), help="only this, in bytes")
    arguments = parser.parse_args()
    if arguments.peak:
        torch.set_num_threads(1)
        warnings.filterwarnings("ignore", message="Full backward hook is firing")
        whose, mode, path = arguments.peak
        batch = load_file(path)
        print(peak(whose, mode, (batch["inputs"], batch["labels"])))
        return
    results: dict[str, object] = {"batch": BATCH, "clip norm": CLIP_NORM, "noise multipliers": (NOISE, sgld_noise())}
    if arguments.against:
        then = against(arguments.against, product(NETWORKS, MODES))
        publish("private_steps_against", {"batch": BATCH, "1 thread": then})  # what follows takes much memory
    for threads, name, mode in product((1, 2), NETWORKS, MODES):
        key = f"{name}, {mode}, {threads} thread" + ("s" if threads > 1 else "")
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as own:  # whose memory goes when it ends
            results[key] = own.submit(_compare, threads, name, mode, arguments.steps, arguments.rounds).result()
        print(key, results[key], flush=True)
    results[f"peak memory, conv, batch {LARGE}"] = peaks()
    publish("private_steps", results)


if __name__ == "__main__":
    main()
