"""Many jobs: those of one kind as batches, the batches over processes of this machine or of a cluster.

A run's numbers are a function of its configuration alone, so that neither the batches nor the number of workers nor the
backend matters. A finished run is not run again, and an interrupted one is taken up.

A batch whose worker was killed, or shows no sign of life, starts again, ``Workers.retries`` times. Then its jobs go
one by one, each with no other beside it and tried as often, when everything else has ended. A job that kills its worker
even so is given up. A batch that takes longer than ``Workers.limit`` is stopped and its jobs are tried one by one; a
job that takes longer by itself has failed.
"""

import math
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pacdp.cli.config import Runtime
from pacdp.cli.folder import Folder, read_json
from pacdp.cli.serial import from_dict
from pacdp.cli.sweep.jobs import Job
from pacdp.cli.sweep.life import TICK, Watched, living
from pacdp.cli.sweep.workers import Pool, Workers

Ended = tuple[int, str | None]
"""A job's position, and the error's sentence where it failed."""
_LATE = (
    "it took longer than {:g} s: raise --limit and start again, it goes on from its last checkpoint"
)


def batches(jobs: Sequence[Job], *, workers: int) -> list[list[int]]:
    """Jobs that may go together, by position; more of them than a worker's share are split. Largest first."""
    kinds: dict[Any, list[int]] = {}
    for i, job in enumerate(jobs):
        together = job.kind.together
        kinds.setdefault((job.kind, together(job.config)) if together else i, []).append(i)
    share = -(-len(jobs) // workers)
    parts = [
        members[i : i + share] for members in kinds.values() for i in range(0, len(members), share)
    ]
    return sorted(parts, key=len, reverse=True)


def carry_out(
    jobs: Sequence[Job],
    outs: Sequence[Path],
    runtime: Runtime,
    *,
    workers: Workers,
    force: bool = False,
) -> Iterator[Ended]:
    """Carry out the jobs, each in its own folder, yielding the position of each as it ends.

    ``force`` overwrites what the folders hold, as soon as the new runs can start.
    """
    outs = [out.absolute() for out in outs]
    waiting = []
    for i, (job, out) in enumerate(zip(jobs, outs, strict=True)):
        if Folder(out).finished and not force:
            yield i, _other_run(job, out)
        else:
            waiting.append(i)

    def task(members: Sequence[int]) -> tuple[Any, ...]:
        return list(members), [jobs[i] for i in members], [outs[i] for i in members], runtime, force

    parts = [
        [waiting[k] for k in part]
        for part in batches([jobs[i] for i in waiting], workers=workers.workers)
    ]
    if workers.here:
        for part in parts:
            yield from _together(*task(part))
    elif parts:
        with workers.pool() as pool:
            killers = yield from _over(pool, parts, task, workers, width=workers.workers)
            singles = [[i] for members in killers for i in members]
            alone = yield from _over(pool, singles, task, workers, width=1)
        before = {i: deaths for members, deaths in killers.items() for i in members}
        for (i,), deaths in alone.items():
            yield (
                i,
                f"its worker died {before[i] + deaths} times, {deaths} of them with nothing beside it: given up",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """Jobs that go together, by position, and how many of their workers have died."""

    members: tuple[int, ...]
    deaths: int = 0


def _over(
    pool: Pool,
    parts: list[list[int]],
    task: Callable[[Sequence[int]], tuple[Any, ...]],
    workers: Workers,
    *,
    width: int,
) -> Generator[Ended, None, dict[tuple[int, ...], int]]:
    """Carry out batches, ``width`` at a time; returns those that killed their workers too often, with the deaths."""
    queue = deque(_Batch(members=tuple(part)) for part in parts)
    running: dict[Future[Any], tuple[_Batch, Watched]] = {}
    given_up: dict[tuple[int, ...], int] = {}
    limit = math.inf if workers.limit is None else workers.limit

    def again(batch: _Batch, died: int) -> None:
        batch = replace(batch, deaths=batch.deaths + died)
        if batch.deaths <= workers.retries:
            queue.append(batch)
        else:
            given_up[batch.members] = batch.deaths

    while queue or running:
        while queue and len(running) < width:
            batch = queue.popleft()
            arguments = task(batch.members)
            future = pool.submit(_elsewhere, *arguments)
            running[future] = batch, Watched(arguments[2][0], pool.effort(future))
        for future in wait(running, timeout=TICK / 2, return_when=FIRST_COMPLETED).done:
            batch, _ = running.pop(future)
            if died := pool.deaths(future):
                again(batch, died)
            else:
                yield from _result(future, batch.members)
        for future, (batch, watched) in list(running.items()):
            watched.look()
            late, silent = watched.seconds > limit, watched.silence > workers.heartbeat
            if late or silent:
                del running[future]
                pool.stop(future)
            if late and not batch.members[1:]:
                yield batch.members[0], _LATE.format(limit)
            elif late:
                queue.extend(_Batch(members=(i,), deaths=batch.deaths) for i in batch.members)
            elif silent:
                again(batch, 1)
    return given_up


def _result(future: "Future[list[Ended]]", members: Sequence[int]) -> list[Ended]:
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, KeyboardInterrupt):
        raise error
    return [
        (i, _sentence(error)) for i in members
    ]  # the jobs or their outcomes cannot reach another process


def _elsewhere(
    members: list[int], jobs: list[Job], outs: list[Path], runtime: Runtime, force: bool
) -> list[Ended]:
    """Carry out jobs of one kind in this process, which another one waits for."""
    with living(outs[0]):
        return _together(members, jobs, outs, runtime, force)


def _together(
    members: list[int], jobs: list[Job], outs: list[Path], runtime: Runtime, force: bool
) -> list[Ended]:
    """Carry out jobs of one kind in this process; those that an earlier try has finished are left alone."""
    ended: dict[int, str | None] = {}
    if not force:
        ended = {k: _other_run(jobs[k], out) for k, out in enumerate(outs) if Folder(out).finished}
    rest = [k for k in range(len(jobs)) if k not in ended]
    if rest:
        try:
            outcomes = jobs[0].kind.carry_out(
                [jobs[k].config for k in rest], [outs[k] for k in rest], runtime
            )
            ended |= {
                k: outcome and _sentence(outcome) for k, outcome in zip(rest, outcomes, strict=True)
            }
        except Exception as error:  # whatever it is, the other jobs go on
            alone = [
                _together([k], [jobs[k]], [outs[k]], runtime, force)[0][1] for k in rest if rest[1:]
            ]
            ended |= dict(
                zip(rest, alone if None in alone else [_sentence(error)] * len(rest), strict=True)
            )
    return [(members[k], sentence) for k, sentence in ended.items()]


def _sentence(error: BaseException) -> str:
    expected = isinstance(error, ValueError | RuntimeError | OSError) and str(error)
    return str(error) if expected else f"{type(error).__name__}: {error}"


def _other_run(job: Job, out: Path) -> str | None:
    """Why a finished folder is not this job's."""
    try:
        same = from_dict(type(job.config), read_json(Folder(out).config)) == job.config
    except ValueError as error:
        return str(error)
    return (
        None
        if same
        else f"{out} holds a finished run of another configuration: choose another --out, or --force"
    )
