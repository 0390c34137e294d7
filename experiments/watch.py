"""What is going on in a sweep: a live table on a terminal, a line for every ended job elsewhere."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pacdp.cli.sweep.jobs import Job
from pacdp.cli.terminal import messages

_LAST = 5


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far a study has come; times are seconds of one clock."""

    jobs: int
    done: int = 0
    failed: int = 0
    running: int = 0
    found: int = 0
    """Of those done, the ones that had ended before."""
    began: float | None = None
    """When its first job started."""
    ended: float | None = None

    @property
    def waiting(self) -> int:
        """Jobs that have not started."""
        return self.jobs - self.done - self.failed - self.running

    def left(self, now: float) -> float | None:
        """Seconds to go, should the rest take as long as the jobs that have ended so far; None before one has."""
        carried_out = self.done + self.failed - self.found
        if self.began is None or carried_out == 0:
            return None
        return (now - self.began) / carried_out * (self.running + self.waiting)


@dataclass(slots=True, kw_only=True)
class Watch:
    """The progress of several studies' jobs, known by their positions among all jobs."""

    jobs: Sequence[tuple[str, Job]]
    """Each with the name of its study."""
    console: Console = messages
    clock: Callable[[], float] = time.monotonic
    studies: dict[str, Progress] = field(init=False)
    _running: set[int] = field(default_factory=set)
    _last: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST))
    _live: Live | None = None

    def __post_init__(self) -> None:
        self.studies = {}
        for name, _ in self.jobs:
            self.studies.setdefault(name, Progress(jobs=0)).jobs += 1

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live = Live(get_renderable=self.table, console=self.console, refresh_per_second=2)
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live:
            self._live.stop()

    def started(self, members: Sequence[int]) -> None:
        """Jobs have started, or start again."""
        for i in set(members) - self._running:
            study = self.studies[self.jobs[i][0]]
            study.running += 1
            study.began = self.clock() if study.began is None else study.began
        self._running |= set(members)

    def ended(self, i: int, error: str | None) -> None:
        """A job has ended, with an error's sentence if it failed."""
        name, job = self.jobs[i]
        study = self.studies[name]
        if i in self._running:
            self._running.remove(i)
            study.running -= 1
        else:
            study.found += 1
        if error:
            study.failed += 1
        else:
            study.done += 1
        count = study.done + study.failed
        study.ended = self.clock() if count == study.jobs else None
        tags = " ".join(f"{tag}={_short(value)}" for tag, value in job.tags.items() if value is not None)
        line = f"[{count}/{study.jobs}] {name} {job.key}{f' ({tags})' if tags else ''}: "
        line += f"FAILED: {error}" if error else "finished"
        self._last.append(line)
        if error or not self._live:
            self.console.print(line, markup=False)

    def table(self) -> RenderableType:
        """The studies, and the jobs that have ended last."""
        columns = ("study", "done", "running", "failed", "waiting", "elapsed", "expected end")
        table = Table()
        for column in columns:
            table.add_column(column, justify="left" if column == "study" else "right")
        for name, study in self.studies.items():
            table.add_row(name, *self._cells(study))
        return Group(table, *map(Text, self._last))

    def _cells(self, study: Progress) -> list[str]:
        now = self.clock() if study.ended is None else study.ended
        elapsed = "" if study.began is None else str(timedelta(seconds=round(now - study.began)))
        left = None if study.ended is not None else study.left(now)
        end = "" if left is None else f"{datetime.now() + timedelta(seconds=left):%H:%M:%S}"
        counts = (f"{study.done}/{study.jobs}", study.running, study.failed, study.waiting)
        return [*map(str, counts), elapsed, end]


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
