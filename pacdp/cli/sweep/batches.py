"""Many jobs: those of one kind as batches, the batches over processes of this machine or of a cluster.

A run's numbers are a function of its configuration alone, so that neither the batches nor the workers matter. A
finished run is not run again, and an interrupted one is taken up.

A batch whose worker was killed starts again, ``Workers.retries`` times. Then its jobs go one by one, each with no other
beside it and tried as often, when everything else has ended. A job that kills its worker even so is given up. A batch
that takes longer than ``Workers.limit`` is stopped and its jobs are tried one by one; a job that takes longer by itself
has failed.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
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
    places = [out.absolute() for out in outs]
    waiting = range(len(jobs))
    if not how.force:
        yield from _finished(waiting, jobs, places)
        waiting = [i for i in waiting if not Folder(places[i]).finished]
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
    """Carry out batches in other processes: all at once, then what was late one by one, then what killed its worker."""
    tries = workers.retries + 1

    def over(
        parts: list[Part], width: int
    ) -> Generator[Ended, None, tuple[list[Part], list[Part]]]:
        """Carry out batches, ``width`` at a time; returns those that were late, and those whose every worker died."""
        late, killed = list[Part](), list[Part]()

        def carried(part: Part) -> list[Ended]:
            for _ in range(tries):
                try:
                    return run(part)
                except Late:
                    late.append(part)
                    return []
                except Died:
                    continue
            killed.append(part)
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
        return late, killed

    late, killed = yield from over(parts, workers.workers)
    again, more = yield from over(_singles(part for part in late if part[1:]), workers.workers)
    last, dead = yield from over(_singles(killed + more), 1)
    for (i,) in (*(part for part in late if not part[1:]), *again, *last):
        yield i, f"it took longer than {workers.limit:g} s: raise --limit and start again, it goes on from its last " \
                 "checkpoint"  # fmt: skip
    for (i,) in dead:
        yield (
            i,
            f"its worker died {2 * tries} times, {tries} of them with nothing beside it: given up",
        )


def _singles(parts: Iterable[Part]) -> list[Part]:
    return [[i] for part in parts for i in part]


def _together(part: Sequence[int], jobs: list[Job], outs: list[Path], how: Training) -> list[Ended]:
    """Carry out jobs of one kind in this process; those that an earlier try has finished are left alone."""
    rest = [k for k, out in enumerate(outs) if how.force or not Folder(out).finished]
    ended = [] if how.force else [*_finished(part, jobs, outs)]
    if rest:
        configs, places = [jobs[k].config for k in rest], [outs[k] for k in rest]
        try:
            found = jobs[0].kind.carry_out(configs, places, how)
            said = [_sentence(one) if isinstance(one, Exception) else None for one in found]
            ended += zip((part[k] for k in rest), said, strict=True)
        except Exception as error:  # whatever it is, the other jobs go on
            for k in rest:
                one = [part[k]], [jobs[k]], [outs[k]]
                ended += _together(*one, how) if rest[1:] else [(part[k], _sentence(error))]
    return ended


def _sentence(error: BaseException) -> str:
    expected = isinstance(error, ValueError | RuntimeError | OSError) and str(error)
    return str(error) if expected else f"{type(error).__name__}: {error}"


def _finished(part: Sequence[int], jobs: Sequence[Job], outs: Sequence[Path]) -> Iterator[Ended]:
    """The jobs whose folders are finished, each with what is wrong where it holds another run."""
    for i, job, out in zip(part, jobs, outs, strict=True):
        if Folder(out).finished:
            try:
                other = Folder(out).config_of(type(job.config)) != job.config
                what = f"{out} holds a finished run of another configuration: choose another --out, or --force"
                yield i, what if other else None
            except ValueError as error:
                yield i, str(error)
