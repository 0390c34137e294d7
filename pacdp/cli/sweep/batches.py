"""Many jobs: those of one kind as batches, the batches over processes of this machine or of a cluster.

A run's numbers are a function of its configuration alone, so that neither the batches nor the workers matter. A
finished run is not run again, and an interrupted one is taken up.

A batch whose worker was killed starts again, ``Workers.retries`` times; one that takes longer than ``Workers.limit`` is
stopped. When everything else has ended, the jobs of both go one by one with no other beside them, and are tried as
often. A job that kills its worker even so is given up; one that takes longer than the limit by itself has failed.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pacdp.cli.folder import Folder
from pacdp.cli.runtime import Training, silent
from pacdp.cli.sweep.jobs import Job
from pacdp.cli.sweep.workers import Died, Late, Workers

Ended = tuple[int, str | None]
"""A job's position, and the error's sentence where it failed."""
Part = dict[int, tuple[Job, Path]]
"""Jobs that go together, and their folders, by position."""


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
    jobs: Sequence[Job], outs: Sequence[Path], how: Training, *, workers: Workers
) -> Iterator[Ended]:
    """Carry out the jobs, each in its own folder, yielding the position of each as it ends.

    ``how.force`` overwrites what the folders hold, as soon as the new runs can start.
    """
    every = dict(enumerate(zip(jobs, (out.absolute() for out in outs), strict=True)))
    waiting = list[int]()
    for i, (job, out) in every.items():
        if how.force or not Folder(out).finished:
            waiting.append(i)
        else:
            yield i, _another(job, out)
    found = batches([jobs[i] for i in waiting], workers=workers.workers)
    parts = [{waiting[k]: every[waiting[k]] for k in part} for part in found]
    how = replace(how, resume=True, ledger=how.ledger and how.ledger.absolute())
    if workers.here:
        for part in parts:
            yield from _together(part, how)
    elif parts:
        how = replace(how, report=silent, progressbar=bool)
        with closing(workers.pool()) as pool:
            run = lambda part: pool.run(_together, part, how)  # noqa: E731
            yield from _elsewhere(run, pool.close, parts, workers)


def _elsewhere(
    run: Callable[[Part], list[Ended]],
    stop: Callable[[], None],
    parts: list[Part],
    workers: Workers,
) -> Iterator[Ended]:
    """Carry out batches in other processes, all at once; then, one by one, the jobs of those that came to no end."""
    tries = workers.retries + 1

    def over(parts: list[Part], width: int) -> Generator[Ended, None, list[Part]]:
        """Carry out batches, ``width`` at a time; returns those that came to no end."""
        without_end = list[Part]()

        def carried(part: Part) -> list[Ended]:
            for _ in range(tries):
                try:
                    return run(part)
                except Died:
                    continue
                except Late:
                    if len(part) == 1:
                        said = f"it took longer than {workers.limit:g} s: raise --limit and start again"
                        return [(i, f"{said}, it goes on from its last checkpoint") for i in part]
                    break
            without_end.append(part)
            return []

        threads = ThreadPoolExecutor(width)
        try:
            for done in as_completed([threads.submit(carried, part) for part in parts]):
                yield from done.result()
        except BaseException:
            stop()  # or the threads would wait for what it does
            raise
        finally:
            threads.shutdown(cancel_futures=True)
        return without_end

    again = yield from over(parts, workers.workers)
    dead = yield from over([{i: one} for part in again for i, one in part.items()], 1)
    for (i,) in dead:
        yield (
            i,
            f"its worker died {2 * tries} times, {tries} of them with nothing beside it: given up",
        )


def _together(part: Part, how: Training) -> list[Ended]:
    """Carry out jobs of one kind in this process; those that an earlier try has finished are left alone."""
    ended, rest, batch = list[Ended](), Part(), None
    for i, (job, out) in part.items():
        if how.force or not Folder(out).finished:
            rest[i], batch = (job, out), job.kind.batch
        else:
            ended.append((i, _another(job, out)))
    if batch and len(rest) > 1:
        with suppress(Exception):  # whatever it is, each shows it by itself, or goes on
            configs, outs = zip(*((job.config, out) for job, out in rest.values()), strict=True)
            found = map(_said, batch(configs, outs, how))
            return ended + list(zip(rest, found, strict=True))
    for i, (job, out) in rest.items():
        error = None
        try:
            job.kind.carry_out(job.config, out, how)
        except Exception as found:  # the other jobs go on
            error = found
        ended.append((i, _said(error)))
    return ended


def _said(found: Any) -> str | None:
    """What an error says; None of a result."""
    if not isinstance(found, Exception):
        return None
    expected = isinstance(found, ValueError | RuntimeError | OSError) and str(found)
    return str(found) if expected else f"{type(found).__name__}: {found}"


def _another(job: Job, out: Path) -> str | None:
    """What is wrong where a folder holds another run than the job's, which is finished."""
    try:
        if Folder(out).config_of(type(job.config)) == job.config:
            return None
    except ValueError as error:
        return str(error)
    return f"{out} holds a finished run of another configuration: choose another --out, or --force"
