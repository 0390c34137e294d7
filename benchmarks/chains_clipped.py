"""Steps of sixteen clipped chains on one thread: compiled sums beside the reference, and beside chains of secret keys.

All draw Poisson batches of two-class MNIST and add noise. The reference takes the gradients of one chain after the
other under ``vmap``; it is what runs where a network has no compiled form or a trial finds a difference.
"""

import argparse

import torch

from benchmarks.timing import in_turn, publish
from benchmarks.workload import ARCHITECTURES, BATCH, chain_steps, data, objective
from pacdp.chains import SecretKeys
from pacdp.data import Dataset

CHAINS, CLIP_NORM = 16, 1.0


def compare(name: str, dataset: Dataset, rounds: int) -> dict[str, float]:
    """Milliseconds a chain-step, and ratios of the least processor times."""
    compiled, reference = (objective(name, dataset, clip_norm=CLIP_NORM) for _ in range(2))
    reference._sums = None
    times = in_turn(
        {
            "loop": chain_steps(reference, steps=1, chains=CHAINS),
            "compiled": chain_steps(compiled, steps=1, chains=CHAINS),
            "secret": chain_steps(compiled, steps=1, keys=SecretKeys.drawn(range(CHAINS))),
        },
        rounds=rounds,
    )
    least = {label: 1e3 * min(own.processor) / CHAINS for label, own in times.items()}
    ratio = least["loop"] / least["compiled"]
    found = {f"{label}, least processor ms": own for label, own in least.items()}
    return found | {"loop / compiled, processor time": ratio}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    dataset = data()
    found = {
        f"{name}, {CHAINS} chains, 1 thread": compare(name, dataset, rounds)
        for name in ARCHITECTURES
    }
    publish("chains_clipped", {"batch": BATCH, "clip norm": CLIP_NORM, **found})


if __name__ == "__main__":
    main()
