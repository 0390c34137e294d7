"""Candidates timed in turn, and a result file with its provenance and the load of the machine.

The least time of all rounds is what is compared: other programs only add to it. Quartiles stand beside it, and the
least processor time, in which waiting for others on the machine does not count.
"""

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pacdp.cli.folder import provenance, write_json

RESULTS = Path(__file__).parent / "results"
_LOAD_AT_START = os.getloadavg()
Run = Callable[[], object]


class Times(NamedTuple):
    """Seconds of every round of a candidate, by the wall clock and of the processor, all threads together."""

    wall: tuple[float, ...]
    processor: tuple[float, ...]

    def table(self, unit: float = 1.0) -> dict[str, float]:
        """The spread of wall times and the least processor time, times ``unit``."""
        least = round(unit * min(self.processor), 4)
        return {**spread(self.wall, unit), "least of the processor": least}


def in_turn(
    candidates: Mapping[str, Run], *, rounds: int, warm: bool = True, calls: int = 1
) -> dict[str, Times]:
    """Each candidate ``calls`` times in each of ``rounds`` rounds of all in turn, that drifting clocks touch all alike.

    Args:
        warm: whether a round goes before, which is not timed.
    """
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in candidates}
    for _ in range(rounds + warm):
        for name, run in candidates.items():
            wall, processor = time.perf_counter(), time.process_time()
            for _ in range(calls):
                run()
            times[name].append((time.perf_counter() - wall, time.process_time() - processor))
    return {name: Times(*zip(*own[warm:], strict=True)) for name, own in times.items()}


def tables(times: Mapping[str, Times], unit: float = 1.0) -> dict[str, dict[str, float]]:
    """The table of every candidate."""
    return {name: own.table(unit) for name, own in times.items()}


def spread(values: Sequence[float], unit: float) -> dict[str, float]:
    """The least of the values and their quartiles, times ``unit``; of a single value, that four times."""
    low, middle, high = statistics.quantiles(values, n=4) if len(values) > 1 else 3 * [values[0]]
    named = {"least": min(values), "quartile": low, "median": middle, "upper quartile": high}
    return {name: round(unit * value, 4) for name, value in named.items()}


def publish(name: str, results: Mapping[str, Any], *, device: str = "cpu") -> None:
    """Print the results and write them to benchmarks/results/NAME.json, with the load over 1, 5 and 15 minutes."""
    path = RESULTS / f"{name}.json"
    load = {"at the start": _LOAD_AT_START, "at the end": os.getloadavg()}
    whole = {"results": results, "load": load, "provenance": provenance(device=device, seed=0)}
    write_json(path, whole)
    for key, value in results.items():
        print(f"{key}: {value}")
    print(f"wrote benchmarks/results/{path.name}")
