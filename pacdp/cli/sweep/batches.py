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
Part = list[int]
"""The positions of jobs that go together."""


def batches(jobs: Sequence[Job], *, workers: int) -> list[Part]:
    """Jobs that may go together, by position; more of them than a worker's share are split. Largest first."""
    kinds: dict[Any, Part] = {}
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
    places, waiting = [out.absolute() for out in outs], Part()
    for i, (job, place) in enumerate(zip(jobs, places, strict=True)):
        if how.force or not Folder(place).finished:
            waiting.append(i)
        else:
            yield i, _another(job, place)
    found = batches([jobs[i] for i in waiting], workers=workers.workers)
    parts = [[waiting[k] for k in part] for part in found]
    how = replace(how, resume=True, ledger=how.ledger and how.ledger.absolute())

    def task(part: Part, how: Training) -> tuple[Any, ...]:
        return part, [jobs[i] for i in part], [places[i] for i in part], how

    if workers.here:
        for part in parts:
            yield from _together(*task(part, how))
    elif parts:
        elsewhere = replace(how, report=silent, progressbar=False)
        with closing(workers.pool()) as pool:
            run = lambda part: pool.run(_together, *task(part, elsewhere))  # noqa: E731
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
                    if not part[1:]:
                        said = f"it took longer than {workers.limit:g} s: raise --limit and start again"
                        return [(part[0], f"{said}, it goes on from its last checkpoint")]
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
    dead = yield from over([[i] for part in again for i in part], 1)
    for (i,) in dead:
        yield (
            i,
            f"its worker died {2 * tries} times, {tries} of them with nothing beside it: given up",
        )


def _together(part: Part, jobs: list[Job], outs: list[Path], how: Training) -> list[Ended]:
    """Carry out jobs of one kind in this process; those that an earlier try has finished are left alone."""
    ended, rest = list[Ended](), list[tuple[int, Job, Path]]()
    for i, job, out in zip(part, jobs, outs, strict=True):
        if how.force or not Folder(out).finished:
            rest.append((i, job, out))
        else:
            ended.append((i, _another(job, out)))
    batch = jobs[0].kind.batch
    if batch and rest[1:]:
        with suppress(Exception):  # whatever it is, each shows it by itself, or goes on
            found = batch([job.config for _, job, _ in rest], [out for _, _, out in rest], how)
            said = [_sentence(one) if isinstance(one, Exception) else None for one in found]
            return ended + [(i, one) for (i, _, _), one in zip(rest, said, strict=True)]
    for i, job, out in rest:
        try:
            job.kind.carry_out(job.config, out, how)
            ended.append((i, None))
        except Exception as error:  # the other jobs go on
            ended.append((i, _sentence(error)))
    return ended


def _sentence(error: Exception) -> str:
    expected = isinstance(error, ValueError | RuntimeError | OSError) and str(error)
    return str(error) if expected else f"{type(error).__name__}: {error}"


def _another(job: Job, out: Path) -> str | None:
    """What is wrong where a folder holds another run than the job's, which is finished."""
    try:
        if Folder(out).config_of(type(job.config)) == job.config:
            return None
    except ValueError as error:
        return str(error)
    return f"{out} holds a finished run of another configuration: choose another --out, or --force"
