"""Medians of alternating runs, and a result file with its provenance."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pacdp.cli.folder import provenance, write_json

RESULTS = Path(__file__).parent / "results"


def side_by_side(candidates: Mapping[str, Callable[[], object]], *, rounds: int) -> dict[str, float]:
    """Median seconds of each candidate, run in turn so that a drifting clock rate touches all alike."""
    return {name: statistics.median(values) for name, values in in_turn(candidates, rounds=rounds).items()}


def in_turn(
    candidates: Mapping[str, Callable[[], object]], *, rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """The seconds of every round of each candidate."""
    for run in candidates.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, run in candidates.items():
            start = clock()
            run()
            times[name].append(clock() - start)
    return times


def spread(values: Sequence[float], unit: float) -> dict[str, float]:
    """The least of the values and their quartiles, times ``unit``."""
    low, middle, high = statistics.quantiles(values, n=4)
    named = {"least": min(values), "quartile": low, "median": middle, "upper quartile": high}
    return {name: round(unit * value, 3) for name, value in named.items()}


def publish(name: str, results: Mapping[str, Any], *, device: str = "cpu") -> None:
    """Print the results and write them to benchmarks/results/NAME.json."""
    path = RESULTS / f"{name}.json"
    write_json(path, {"results": results, "provenance": provenance(device=device, seed=0)})
    for key, value in results.items():
        print(f"{key}: {value}")
    print(f"wrote benchmarks/results/{path.name}")
