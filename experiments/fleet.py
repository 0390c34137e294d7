"""Many runs: those of one kind as batches of chains, the batches over processes of this machine or of a cluster.

A run's numbers are a function of its configuration alone, so that neither the batches nor the number of workers nor the
backend matters. A finished run is not run again, and an interrupted one is taken up.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import joblib

from experiments.batch import Report
from experiments.config import Run, Runtime
from experiments.folder import Folder, read_json
from experiments.run import kind, train_together


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Who carries out the batches."""

    workers: int = 1
    """Batches of runs at a time, each in a process of its own; 1 stays in this one."""
    backend: Literal["processes", "dask"] = "processes"
    """processes of this machine, or the workers of a Dask cluster, which must see the same folders and data."""
    address: str | None = None
    """Of the Dask scheduler, such as tcp://10.0.0.5:8786; left out, Dask starts local workers."""
    timeout: float = 20.0
    """Seconds to wait for the scheduler."""

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ValueError(f"expected workers >= 1, got {self.workers}")
        if not self.timeout > 0:
            raise ValueError(f"expected timeout > 0, got {self.timeout}")
        if self.address is not None and self.backend != "dask":
            raise ValueError("expected --backend dask with --address: only Dask has a scheduler")

    def context(self) -> AbstractContextManager[Any]:
        """In which joblib uses them.

        Raises:
            ValueError: Dask is not installed, or no scheduler answers.
        """
        if self.backend == "processes":
            return nullcontext()
        try:
            from distributed import Client
        except ImportError as error:
            raise ValueError("Dask is not installed: pip install 'pacdp[cluster]'") from error
        try:
            # a batch has its process to itself: torch's threads are set for the whole process
            local = {"n_workers": self.workers, "threads_per_worker": 1, "dashboard_address": None}
            client = Client(self.address, timeout=self.timeout) if self.address else Client(**local)
        except (OSError, ValueError) as error:
            raise ValueError(f"no Dask scheduler answers at {self.address}: start one, or correct --address") from error
        return _Dask(client)


class _Dask:
    def __init__(self, client: Any) -> None:
        self._client = client
        self._config: Any = joblib.parallel_config(backend="dask")

    def __enter__(self) -> None:
        self._config.__enter__()

    def __exit__(self, *error: object) -> None:
        self._config.__exit__(*error)
        self._client.close()


def batches(runs: Sequence[Run], *, workers: int) -> list[list[int]]:
    """Runs of one kind together, by position; a kind that holds more than a worker's share is split. Largest first."""
    kinds: dict[str, list[int]] = {}
    for i, run in enumerate(runs):
        kinds.setdefault(kind(run), []).append(i)
    share = -(-len(runs) // workers)
    parts = [members[i : i + share] for members in kinds.values() for i in range(0, len(members), share)]
    return sorted(parts, key=len, reverse=True)


def carry_out(
    runs: Sequence[Run], outs: Sequence[Path], runtime: Runtime, *, workers: Workers, force: bool = False,
    report: Report | None = None,
) -> Iterator[tuple[int, str | None]]:  # fmt: skip
    """Carry out the runs, yielding the position of each as it ends, and the error's sentence where it failed.

    ``force`` overwrites what the folders hold, as soon as the new runs can start. ``report`` is called with one worker
    only, from this process.
    """
    tasks = []
    for members in batches(runs, workers=workers.workers):
        paths = [outs[i].absolute() for i in members]
        own = report if workers.workers == 1 and workers.backend == "processes" else None
        tasks.append(joblib.delayed(_together)(members, [runs[i] for i in members], paths, runtime, force, own))
    with workers.context():
        ended: Any = joblib.Parallel(n_jobs=workers.workers, return_as="generator_unordered")(tasks)
        for batch in ended:
            yield from batch


def _together(
    members: list[int], runs: list[Run], outs: list[Path], runtime: Runtime, force: bool, report: Report | None
) -> list[tuple[int, str | None]]:
    waiting = [k for k, out in enumerate(outs) if force or not Folder(out).finished]
    ended = [(members[k], _other_run(runs[k], outs[k])) for k in range(len(runs)) if k not in waiting]
    if not waiting:
        return ended
    try:
        outcomes = train_together(
            [runs[k] for k in waiting], [outs[k] for k in waiting], runtime, resume=True, force=force, report=report
        )
    except (ValueError, RuntimeError, OSError) as error:
        return ended + [(members[k], str(error)) for k in waiting]
    return ended + [
        (members[k], str(outcome) if isinstance(outcome, Exception) else None)
        for k, outcome in zip(waiting, outcomes, strict=True)
    ]


def _other_run(run: Run, out: Path) -> str | None:
    """Why a finished folder is not this run's."""
    try:
        same = Run.from_dict(read_json(Folder(out).config)) == run
    except ValueError as error:
        return str(error)
    return None if same else f"{out} holds a finished run of another configuration: choose another --out, or --force"
