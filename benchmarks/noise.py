"""What secure noise costs: nanoseconds a number, and a private step with it beside the same step with seeded noise.

Processor time of one thread, so that waiting for others on the machine does not count; what they do to caches does, and
therefore the quartiles stand beside the least of all rounds, which gives the ratios. What was there before (sums of
four numbers by Box-Muller from ``os.urandom``) runs beside it.
"""

import argparse
import math
import os
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from benchmarks.private_steps import BATCH, NOISE, data, ours
from benchmarks.timing import in_turn, publish, spread
from pacdp.random import cipher, grid
from pacdp.step.noise import Randomness, SeededRandomness, SystemRandomness, add_noise

NUMBERS = 1 << 18
EXAMPLES = 60_000
STEPS = (("fc600", "ghost"), ("conv", "ghost"))


class FourFold(SystemRandomness):
    """The secure source up to b1452c7."""

    def noised(self, total: Tensor, *, std: float) -> Tensor:
        """Four normal numbers are added up for each coordinate."""
        drawn = torch.zeros(total.numel(), dtype=torch.float64)
        for part in drawn.split(1 << 15):
            for _ in range(4):
                part.add_(_box_muller(len(part)))
        return total + drawn.mul_(std / 2.0).reshape(total.shape).to(total.dtype)


def _box_muller(count: int) -> Tensor:
    half = (count + 1) // 2
    bits = np.frombuffer(os.urandom(16 * half), dtype=np.uint64) >> np.uint64(11)
    uniform = torch.from_numpy(bits.view(np.int64)).double().add_(0.5).mul_(2.0**-53)
    radius, angle = uniform[:half].log_().mul_(-2.0).sqrt_(), uniform[half:].mul_(2.0 * math.pi)
    return torch.cat([radius * angle.cos(), radius * angle.sin()])[:count]


def numbers(rounds: int) -> dict[str, dict[str, float]]:
    """Nanoseconds a number."""
    total, generator = torch.ones(NUMBERS), torch.Generator().manual_seed(0)
    sources = {"secure": SystemRandomness(), "seeded": SeededRandomness(0), "as it was": FourFold()}
    words = np.empty(NUMBERS, np.int64)
    candidates: dict[str, Callable[[], object]] = {
        "torch's normal_": lambda: total.clone().normal_(generator=generator),
        "the words alone, ChaCha20": lambda: cipher.Fresh().fill(words),
        "the words alone, os.urandom": lambda: os.urandom(8 * NUMBERS),
        "secure, by torch operations": lambda: grid._by_torch(
            total, 1500.0, 2.0**-10, cipher.Fresh(), torch.empty_like(total)
        ),
    }
    for name, source in sources.items():
        candidates[f"{name}: added to a sum"] = lambda source=source: add_noise(
            total, std=1.1, randomness=source
        )
    return _table(candidates, 1e9 / NUMBERS, rounds)


def batches(rounds: int) -> dict[str, dict[str, float]]:
    """Nanoseconds an example that may come."""
    sources = {"secure": SystemRandomness(), "seeded": SeededRandomness(0)}
    candidates = {
        name: lambda source=source: source.batch(EXAMPLES, 0.01) for name, source in sources.items()
    }
    return _table(candidates, 1e9 / EXAMPLES, rounds)


def steps(name: str, mode: str, rounds: int) -> dict[str, object]:
    """Milliseconds a step, and the ratios of the least times."""
    sources: dict[str, Randomness] = {"seeded": SeededRandomness(0), "secure": SystemRandomness()}
    sources["as it was"] = FourFold()
    batch = data(BATCH)
    table = _table(
        {label: ours(name, mode, batch, NOISE, source) for label, source in sources.items()},
        1e3,
        rounds,
    )
    least = {label: values["least"] for label, values in table.items()}
    ratios = {
        f"{label} / seeded": round(least[label] / least["seeded"], 3)
        for label in ("secure", "as it was")
    }
    return {**table, **ratios}


def _table(
    candidates: Mapping[str, Callable[[], object]], unit: float, rounds: int
) -> dict[str, dict[str, float]]:
    times = in_turn(candidates, rounds=rounds)
    return {name: spread(own.processor, unit) for name, own in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    results: dict[str, object] = {
        f"nanoseconds a number, {NUMBERS} at a time, 1 thread": numbers(rounds),
        f"nanoseconds an example, batches of {EXAMPLES}, 1 thread": batches(rounds),
    }
    for name, mode in STEPS:
        results[f"milliseconds a step, {name}, {mode}, 1 thread"] = steps(name, mode, rounds)
    publish("noise", results)


if __name__ == "__main__":
    main()
