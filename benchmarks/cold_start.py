"""What a first use of the compiled engine costs: two SGLD steps with no compiled loop in the cache, and with all there.

Each start is a process of its own, whose time begins when everything is imported and the data are read.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from numba.core import event

from benchmarks.timing import Times, in_turn, publish
from benchmarks.workload import ARCHITECTURES, chain_steps, data, objective

STARTS = 2


def first_steps(name: str, synthetic: int) -> dict[str, float]:
    """Seconds by both clocks, and how many functions were compiled, those of numba's own library included."""
    torch.set_num_threads(1)
    dataset = data(synthetic=synthetic)

    def first() -> None:
        chain_steps(objective(name, dataset), steps=2)()

    with event.install_recorder("numba:compile") as compiled:
        times = in_turn({name: first}, rounds=1, warm=False)[name]
    begun = sum(one.is_start for _, one in compiled.buffer)
    return {"wall": times.wall[0], "processor": times.processor[0], "compiled": begun}


def start(name: str, cache: Path, *, synthetic: int = 0) -> dict[str, float]:
    """``first_steps`` in a process whose compiled loops are cached under ``cache``."""
    command = [sys.executable, "-m", "benchmarks.cold_start", name, str(synthetic)]
    there = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(command, env=there, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def compare(name: str) -> dict[str, object]:
    """Seconds of cold and warm starts."""
    found: dict[str, list[dict[str, float]]] = {"cold": [], "warm": []}
    for _ in range(STARTS):
        with TemporaryDirectory() as cache:
            for own in found.values():
                own.append(start(name, Path(cache)))
    times = {
        label: Times(*(tuple(one[clock] for one in own) for clock in Times._fields))
        for label, own in found.items()
    }
    clocks = {f"{label}, seconds": own.table() for label, own in times.items()}
    return {**clocks, "functions compiled": found["cold"][0]["compiled"]}


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(first_steps(sys.argv[1], int(sys.argv[2]))))
        return
    publish("cold_start", {name: compare(name) for name in ARCHITECTURES})


if __name__ == "__main__":
    main()
