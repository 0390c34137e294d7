"""Who carries out a study's batches: processes of this machine by joblib's loky, or the workers of a Dask cluster.

Each local worker is an executor of one process. So a process that is killed costs its own batch alone, and it is known
which batch that was; a pool of several processes breaks as a whole and cannot tell.
"""

import logging
import os
import threading
import time
import uuid
import warnings
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import psutil

from pacdp.cli.sweep.life import TICK

_THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


@runtime_checkable
class Pool(Protocol):
    """Runs a few functions at a time, in other processes."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """Start it."""
        ...

    def deaths(self, future: "Future[Any]") -> int:
        """How many processes died while they ran what ``future``, which is done, stands for; 0 if it came to an end."""
        ...

    def effort(self, future: "Future[Any]") -> Callable[[], Any] | None:
        """What tells the processor time of the process that runs it, where that is known."""
        ...

    def stop(self, future: "Future[Any]") -> None:
        """End the process that runs what ``future`` stands for, whatever it is doing, and forget the future."""
        ...

    def __enter__(self) -> "Pool": ...
    def __exit__(self, *error: object) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """Who carries out the batches."""

    workers: int = 1
    """Batches of runs at a time, each in a process of its own; 1 stays in this one, unless there is a limit."""
    backend: Literal["processes", "dask"] = "processes"
    """processes of this machine, or the workers of a Dask cluster, which must see the same folders and data."""
    address: str | None = None
    """The address of the Dask scheduler, such as tcp://10.0.0.5:8786; left out, Dask starts local workers."""
    timeout: float = 20.0
    """Seconds to wait for the scheduler."""
    retries: int = 2
    """How often a batch starts again whose worker was killed; a scheduler's own allowed failures come on top."""
    limit: float | None = None
    """Seconds that a batch may take. One that takes longer is stopped and its runs are tried one by one, each for as
    long; a run that takes longer even so has failed. It goes on where it stands when it is started again."""
    heartbeat: float = 300.0
    """Seconds without a sign of life after which a worker counts as dead: its batch starts again."""

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ValueError(f"expected workers >= 1, got {self.workers}")
        if not self.timeout > 0:
            raise ValueError(f"expected timeout > 0, got {self.timeout}")
        if self.retries < 0:
            raise ValueError(f"expected retries >= 0, got {self.retries}")
        if self.limit is not None and not self.limit > 0:
            raise ValueError(
                f"expected limit > 0 seconds, got {self.limit}: leave it out where there is none"
            )
        if not self.heartbeat >= 2 * TICK:
            raise ValueError(f"expected heartbeat >= {2 * TICK:g} seconds, got {self.heartbeat}: a worker shows a sign "
                             f"of life every {TICK:g} s")  # fmt: skip
        if self.address is not None and self.backend != "dask":
            raise ValueError("expected --backend dask with --address: only Dask has a scheduler")

    @property
    def here(self) -> bool:
        """Whether everything stays in this process, which cannot stop a batch that takes too long."""
        return self.workers == 1 and self.backend == "processes" and self.limit is None

    def pool(self) -> Pool:
        """Other processes, as long as it is entered.

        Raises:
            ValueError: Dask is not installed, or no scheduler answers.
        """
        if self.backend == "processes":
            return _Processes(self.workers)
        try:
            from dask import config
            from distributed import Client
        except ImportError as error:
            raise ValueError("Dask is not installed: pip install 'pacdp[cluster]'") from error
        try:
            # a batch has its process to itself: torch's threads are set for the whole process
            local = {
                "n_workers": self.workers,
                "threads_per_worker": 1,
                "dashboard_address": "127.0.0.1:0",
            }
            logging.getLogger("distributed.client").setLevel(
                logging.CRITICAL
            )  # what it loses is told in a sentence
            with config.set(
                {"distributed.scheduler.allowed-failures": 0}
            ):  # of local workers: counted here
                client = (
                    Client(self.address, timeout=self.timeout) if self.address else Client(**local)
                )
        except (OSError, ValueError) as error:
            raise ValueError(
                f"no Dask scheduler answers at {self.address}: start one, or correct --address"
            ) from error
        return _Dask(client)


class _Processes:
    def __init__(self, workers: int) -> None:
        from joblib.externals import loky  # one worker needs none

        self._loky = loky
        threads = str(max(1, loky.cpu_count() // workers))
        self._env = {name: os.environ.get(name, threads) for name in _THREADS}
        self._idle: list[Any] = []
        self._busy: dict[Future[Any], Any] = {}

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        executor = self._idle.pop() if self._idle else self._loky.ProcessPoolExecutor(
            max_workers=1, env=self._env, initializer=_end_with, initargs=(os.getpid(),)
        )  # fmt: skip
        future = executor.submit(function, *arguments)
        self._busy[future] = executor
        return future

    def deaths(self, future: "Future[Any]") -> int:
        executor = self._busy.pop(future)
        error = future.exception()
        if isinstance(error, BrokenProcessPool):
            executor.shutdown(wait=True, kill_workers=True)
        else:
            self._idle.append(executor)
        return int(isinstance(error, self._loky.process_executor.TerminatedWorkerError))

    def effort(self, future: "Future[Any]") -> Callable[[], Any] | None:
        executor = self._busy[future]

        def taken() -> list[float]:
            with suppress(psutil.Error):  # it has just ended
                times = [psutil.Process(pid).cpu_times() for pid in list(executor._processes)]
                return [one.user + one.system for one in times]
            return []

        return taken

    def stop(self, future: "Future[Any]") -> None:
        self._busy.pop(future).shutdown(wait=True, kill_workers=True)

    def __enter__(self) -> Pool:
        # a process that has grown is replaced between two batches; nothing is lost
        warnings.filterwarnings(
            "ignore", message="A worker stopped while some jobs were given to the executor"
        )
        return self

    def __exit__(self, *error: object) -> None:
        for executor in [*self._idle, *self._busy.values()]:
            executor.shutdown(wait=True, kill_workers=True)


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, however that ended: what it has begun is then free to be resumed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _Dask:
    def __init__(self, client: Any) -> None:
        self._client = client
        self._executor = client.get_executor(pure=False)
        self._keys: dict[Future[Any], str] = {}

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        key = f"pacdp-{uuid.uuid4()}"
        future = self._executor.submit(function, *arguments, key=key)
        self._keys[future] = key
        return future

    def deaths(self, future: "Future[Any]") -> int:
        from distributed import KilledWorker

        self._keys.pop(future)
        try:
            error = future.exception()
        except CancelledError as gone:
            raise RuntimeError(
                "the Dask scheduler has gone: start again, what is finished is kept"
            ) from gone
        return error.allowed_failures + 1 if isinstance(error, KilledWorker) else 0

    def effort(self, future: "Future[Any]") -> Callable[[], Any] | None:
        return None

    def stop(self, future: "Future[Any]") -> None:
        key = self._keys.pop(future)
        with suppress(
            OSError, ValueError
        ):  # the scheduler is gone, as its futures say, or the worker has no nanny
            where = [address for address, keys in self._client.processing().items() if key in keys]
            future.cancel()  # before its worker ends, or the scheduler would start it again
            # Dask ends a worker within nine seconds, and then waits for as many workers as it counted, which may have
            # been one too many; the next batch waits for a worker anyway
            self._client.restart_workers(where, timeout=10.0, raise_for_error=False)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *error: object) -> None:
        self._executor.shutdown(wait=False)
        self._client.close()
