"""Private steps of whichever tree PYTHONPATH names, timed on request: a script, which shares no code with its caller.

    python -P serve_steps.py NETWORK MODE STEPS

The tree's ``benchmarks.private_steps`` makes the steps, with seeded noise. Every line of input is answered: the first
by where the tree lies, each later one by the processor seconds of each of the next STEPS steps.
"""

import json
import sys
import time
from itertools import pairwise
from pathlib import Path

import torch

import pacdp
from benchmarks.private_steps import BATCH, NOISE, data, ours
from pacdp.private import SeededRandomness


def main(name: str, mode: str, steps: int) -> None:
    torch.set_num_threads(1)
    step = ours(name, mode, data(BATCH), NOISE, SeededRandomness(0))
    for _ in range(2):
        step()
    next(sys.stdin)
    print(json.dumps(str(Path(pacdp.__file__).resolve().parents[1])), flush=True)
    for _ in sys.stdin:
        times = [time.process_time()]
        for _ in range(steps):
            step()
            times.append(time.process_time())
        print(json.dumps([end - start for start, end in pairwise(times)]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
