"""What secure noise costs: nanoseconds a number and an example. ``private_steps`` has the steps that use it.

Least processor times of one thread stand beside the quartiles.
"""

import argparse
import os

import numpy as np
import torch

from benchmarks.timing import in_turn, publish, tables
from pacdp.random import cipher
from pacdp.step.noise import SeededRandomness, SystemRandomness, add_noise

NUMBERS = 1 << 18
EXAMPLES = 60_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    total, generator = torch.ones(NUMBERS), torch.Generator().manual_seed(0)
    words, secure, seeded = np.empty(NUMBERS, np.int64), SystemRandomness(), SeededRandomness(0)
    numbers = {
        "torch's normal_": lambda: total.clone().normal_(generator=generator),
        "the words alone, ChaCha20": lambda: cipher.Fresh().fill(words),
        "the words alone, os.urandom": lambda: os.urandom(8 * NUMBERS),
        "secure: added to a sum": lambda: add_noise(total, std=1.1, randomness=secure),
        "seeded: added to a sum": lambda: add_noise(total, std=1.1, randomness=seeded),
    }
    batches = {
        "secure": lambda: secure.batch(EXAMPLES, 0.01),
        "seeded": lambda: seeded.batch(EXAMPLES, 0.01),
    }
    found = {
        f"nanoseconds {what}, {count} at a time, 1 thread": tables(
            in_turn(candidates, rounds=rounds), 1e9 / count
        )
        for what, count, candidates in (
            ("a number", NUMBERS, numbers),
            ("an example of a batch", EXAMPLES, batches),
        )
    }
    publish("noise", found)


if __name__ == "__main__":
    main()
