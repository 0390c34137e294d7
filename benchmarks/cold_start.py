"""What a first use of the compiled engine costs: two SGLD steps with no compiled loop in the cache, and with all there.

Each start is a process of its own, whose time begins when everything is imported and the data are read.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from numba.core import event

from benchmarks.timing import Times, publish
from benchmarks.workload import ARCHITECTURES, chain_steps, data, objective

STARTS = 2


class Compiled(event.Listener):
    """Counts the versions of functions that are compiled, those that numba adds from its own library included."""

    def __init__(self) -> None:
        self.count = 0

    def on_start(self, event: Any) -> None:
        """Once for each."""
        self.count += 1

    def on_end(self, event: Any) -> None:
        """Nothing is read here."""


def first_steps(name: str, *, synthetic: bool) -> dict[str, float]:
    """Seconds by both clocks, and how many versions of functions were compiled."""
    torch.set_num_threads(1)
    dataset, compiled = data(synthetic=synthetic), Compiled()
    event.register("numba:compile", compiled)
    wall, processor = time.perf_counter(), time.process_time()
    chain_steps(objective(name, dataset), chains=1, steps=2)()
    seconds = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
    return {**seconds, "compiled": compiled.count}


def start(name: str, cache: Path, *, synthetic: bool = False) -> dict[str, float]:
    """``first_steps`` in a process whose compiled loops are cached under ``cache``."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.cold_start",
        name,
        *(["--synthetic"] if synthetic else []),
    ]
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
    tables: dict[str, object] = {
        f"{label}, seconds": Times(
            *(tuple(one[clock] for one in own) for clock in ("wall", "processor"))
        ).table(1.0)
        for label, own in found.items()
    }
    return {**tables, "functions compiled": found["cold"][0]["compiled"]}


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(first_steps(sys.argv[1], synthetic="--synthetic" in sys.argv)))
        return
    publish("cold_start", {name: compare(name) for name in ARCHITECTURES})


if __name__ == "__main__":
    main()
