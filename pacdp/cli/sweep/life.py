"""Whether a batch lives: its worker touches a file as long as it works on it, and who waits for the batch looks there.

A worker that was stopped, whose machine is gone or whose disk hangs touches nothing. Neither does one whose computation
lets no other thread of Python run; that one is told from a stopped one by the processor time that it takes, where its
process is one of this machine.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

TICK = 1.0
"""Seconds between two signs of life."""
_SIGN = ".alive"  # no lock's file: without flock a file that is there is held


@contextmanager
def living(folder: Path) -> Iterator[None]:
    """Show every second, by a thread, that this process works in ``folder``.

    A thread stops when its process is stopped, and ends with it.
    """
    ended = threading.Event()

    def show() -> None:
        while not ended.wait(TICK):
            _touch(folder)

    with suppress(OSError):  # then the batch's own work fails as well, and says why
        folder.mkdir(parents=True, exist_ok=True)
    _touch(folder)
    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(TICK)  # it may hang with the disk


def _touch(folder: Path) -> None:
    with suppress(OSError):
        (folder / _SIGN).touch()


class Watched:
    """A batch that somebody waits for.

    Time in which nobody looked does not count: who waits may have been stopped together with the worker.

    Args:
        folder: where its worker is :func:`living`.
        effort: another sign of life, if it changes: the processor time of the worker's process; None where it is on
            another machine, so that there is nothing to be seen before the batch has begun.
    """

    def __init__(
        self,
        folder: Path,
        effort: Callable[[], Any] | None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seconds = 0.0
        """For which the batch was seen at work."""
        self.silence = 0.0
        """Since the last sign of life."""
        self._file = folder / _SIGN
        self._effort = effort
        self._clock = clock
        self._began = False
        self._touched, self._worked = self._signs()
        self._looked = clock()

    def look(self) -> None:
        """Look for signs of life."""
        now, (touched, worked) = self._clock(), self._signs()
        step, self._looked = min(now - self._looked, 2 * TICK), now
        self.seconds += step if self._began else 0.0
        self._began = self._began or touched != self._touched
        alive = (touched, worked) != (self._touched, self._worked) or not (
            self._began or self._effort
        )
        self.silence = 0.0 if alive else self.silence + step
        self._touched, self._worked = touched, worked

    def _signs(self) -> tuple[int | None, Any]:
        worked = self._effort() if self._effort else None
        try:
            return self._file.stat().st_mtime_ns, worked
        except OSError:
            return None, worked
