"""Who carries out batches: processes of this machine by joblib's loky, or the workers of a Dask cluster.

Each local worker is an executor of one process. So a process that is killed costs its own batch alone, and it is known
which batch that was; a pool of several processes breaks as a whole and cannot tell. They are forked by a server that
has imported what a run needs and did nothing else, so that a worker, the first or one in place of a killed one, is
there at once.
"""

import importlib
import logging
import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from multiprocessing import connection, forkserver
from typing import Any

from pacdp.cli.serial import record
from pacdp.errors import require_positive

_THREADS = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "NUMBA")
"""Libraries whose threads a variable of the environment limits."""

_NEEDED = "pacdp.cli.run"
"""What takes long to import, and runs need."""

_SERVER = multiprocessing.get_context("forkserver")


class Died(Exception):
    """The process that carried out a batch is no more."""


class Late(Exception):
    """A batch took longer than it may, and its process was ended."""


@record
class Workers:
    """Who carries out the batches."""

    workers: int = 1
    """Batches of runs at a time, each in a process of its own; 1 stays in this one, unless there is a limit."""
    dask: str | None = None
    """The address of a Dask scheduler, such as tcp://10.0.0.5:8786, whose workers carry out the batches and must see
    the same folders and data; left out, processes of this machine do."""
    retries: int = 2
    """How often a batch starts again whose worker was killed; a scheduler's own allowed failures come on top."""
    limit: float | None = None
    """Seconds that a batch may take. One that takes longer is stopped and its runs are tried one by one, each for as
    long; a run that takes longer even so has failed. It goes on where it stands when it is started again."""

    def __post_init__(self) -> None:
        if self.workers < 1 or self.retries < 0:
            raise ValueError(
                f"expected workers >= 1 and retries >= 0, got {self.workers} and {self.retries}"
            )
        if self.limit is not None:
            require_positive(limit=self.limit)

    @property
    def here(self) -> bool:
        """Whether everything stays in this process, which cannot stop a batch that takes too long."""
        return self.workers == 1 and self.dask is None and self.limit is None

    def pool(self) -> Any:
        """Other processes, until it is closed.

        Raises:
            ValueError: Dask is not installed, or no scheduler answers.
        """
        return Dask(self.dask, self.limit) if self.dask else Processes(self.workers, self.limit)


class Processes:
    """Processes of this machine."""

    def __init__(self, workers: int, limit: float | None) -> None:
        from joblib.externals import loky  # one worker needs none

        serve(workers)
        self._loky, self._limit, self._closed = loky, limit, False
        self._idle: list[Any] = []
        self._all: list[Any] = []

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What the function returns in another process, one for each thread that asks.

        Raises:
            Died, Late: it came to no end.
        """
        fresh = not self._idle
        executor = self._started() if fresh else self._idle.pop()
        try:
            if fresh:  # its imports take long, and the limit is for what comes after them
                executor.submit(_import, function, *arguments).result()
            found = executor.submit(function, *arguments).result(self._limit)
        except BaseException as error:
            executor.shutdown(wait=True, kill_workers=True)
            if isinstance(error, TimeoutError):
                raise Late from error
            if self._closed or isinstance(error, self._loky.process_executor.TerminatedWorkerError):
                raise Died from error
            raise
        self._idle.append(executor)
        return found

    def close(self) -> None:
        """End everything that is running; whoever waits for it is told that it died."""
        self._closed = True
        for executor in list(self._all):
            executor.shutdown(wait=True, kill_workers=True)

    def _started(self) -> Any:
        executor = self._loky.ProcessPoolExecutor(
            max_workers=1, context=_SERVER, initializer=_end_with_parent
        )
        self._all.append(executor)
        if self._closed:
            raise Died
        return executor


def serve(workers: int) -> None:
    """Start the server, whose environment says how many threads each of the workers may have."""
    threads = str(max(1, (os.cpu_count() or 1) // workers))
    names = [f"{name}_NUM_THREADS" for name in _THREADS]
    unset = [name for name in names if name not in os.environ]
    _SERVER.set_forkserver_preload([_NEEDED])
    os.environ.update(dict.fromkeys(unset, threads))
    try:
        forkserver.ensure_running()
    finally:
        for name in unset:
            del os.environ[name]


def _import(*_: Any) -> None:
    """Do nothing with what has come to this process, whose modules are imported thereby."""


def _begin(begun: Any, function: Callable[..., Any], *arguments: Any) -> Any:
    """What the function returns, which begins when what runs need is imported, and says so."""
    importlib.import_module(_NEEDED)
    begun.set()
    return function(*arguments)


def _end_with_parent() -> None:
    """End this process when its parent has ended, however that ended: what it has begun is then free to be resumed."""
    parent: Any = multiprocessing.parent_process()

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Dask:
    """Workers of a cluster."""

    def __init__(self, address: str, limit: float | None) -> None:
        try:
            from distributed import Client, Event, KilledWorker
        except ImportError as error:
            raise ValueError("Dask is not installed: pip install 'pacdp[cluster]'") from error
        # what the client loses is told in a sentence
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        try:
            self._client = Client(address)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"no Dask scheduler answers at {address}: start one, or correct --dask"
            ) from error
        self._limit, self._killed, self._event = limit, KilledWorker, Event

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """As of :class:`Processes`."""
        begun = self._event(client=self._client)
        future = self._client.submit(_begin, begun, function, *arguments, pure=False)
        try:
            while not (future.done() or begun.wait(1.0)):
                pass  # waiting for a worker and its imports, for which the limit is not
            return future.result(self._limit)
        except self._killed as error:
            raise Died from error
        except TimeoutError as error:
            self._stop(future)
            raise Late from error
        except (CancelledError, OSError) as error:
            raise RuntimeError(
                "the Dask scheduler has gone: start again, what is finished is kept"
            ) from error

    def close(self) -> None:
        """As of :class:`Processes`."""
        self._client.close()

    def _stop(self, future: Any) -> None:
        # the scheduler may be gone, or the worker have no nanny
        with suppress(OSError, ValueError):
            at_work: Any = self._client.processing()
            where = [address for address, keys in at_work.items() if future.key in keys]
            future.cancel()  # before its worker ends, or the scheduler would start it again
            # Dask ends a worker within nine seconds, and then waits for as many workers as it counted, which may have
            # been one too many; the next batch waits for a worker anyway
            self._client.restart_workers(where, timeout=10.0, raise_for_error=False)
