"""Many jobs: those of one kind as batches, the batches over processes of this machine or of a cluster.

A run's numbers are a function of its configuration alone, so that neither the batches nor the workers matter. A
finished run is not run again, and an interrupted one is taken up.

A batch whose worker was killed starts again, ``Workers.retries`` times. Then its jobs go one by one, each with no other
beside it and tried as often, when everything else has ended. A job that kills its worker even so is given up. A batch
that takes longer than ``Workers.limit`` is stopped and its jobs are tried one by one; a job that takes longer by itself
has failed.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
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
    outs = [out.absolute() for out in outs]
    waiting = []
    for i, (job, out) in enumerate(zip(jobs, outs, strict=True)):
        if Folder(out).finished and not how.force:
            yield i, _other_run(job, out)
        else:
            waiting.append(i)
    found = batches([jobs[i] for i in waiting], workers=workers.workers)
    parts = [[waiting[k] for k in part] for part in found]
    ledger = how.ledger and how.ledger.absolute()
    elsewhere = replace(how, ledger=ledger, report=silent, progressbar=False)

    def together(part: Part, how: Training = elsewhere) -> tuple[Any, ...]:
        return _together, part, [jobs[i] for i in part], [outs[i] for i in part], how

    if workers.here:
        for part in parts:
            carried, *arguments = together(part, how)
            yield from carried(*arguments)
    elif parts:
        with workers.pool() as pool:
            yield from _elsewhere(pool, parts, together, workers)


def _elsewhere(
    pool: Any, parts: list[Part], task: Callable[[Part], Any], workers: Workers
) -> Iterator[Ended]:
    """Carry out batches in other processes: all at once, then what was late one by one, then what killed its worker."""
    tries = workers.retries + 1
    late, killed = yield from _over(pool, parts, task, width=workers.workers, tries=tries)
    several = [part for part in late if part[1:]]
    again, more = yield from _over(
        pool, _singles(several), task, width=workers.workers, tries=tries
    )
    last, dead = yield from _over(pool, _singles(killed + more), task, width=1, tries=tries)
    for part in (*late, *again, *last):
        if part not in several:
            yield part[0], f"it took longer than {workers.limit:g} s: raise --limit and start again, it goes on from " \
                           "its last checkpoint"  # fmt: skip
    for (i,) in dead:
        yield (
            i,
            f"its worker died {2 * tries} times, {tries} of them with nothing beside it: given up",
        )


def _singles(parts: Sequence[Part]) -> list[Part]:
    return [[i] for part in parts for i in part]


def _over(
    pool: Any, parts: list[Part], task: Callable[[Part], Any], *, width: int, tries: int
) -> Generator[Ended, None, tuple[list[Part], list[Part]]]:
    """Carry out batches, ``width`` at a time; returns those that were late, and those that killed a worker each try."""
    late, killed = list[Part](), list[Part]()

    def carried(part: Part) -> list[Ended]:
        for _ in range(tries):
            try:
                return pool.run(*task(part))
            except Late:
                late.append(part)
                return []
            except Died:
                continue
            except RuntimeError:
                raise
            except Exception as error:  # the jobs or their outcomes cannot reach another process
                return [(i, _sentence(error)) for i in part]
        killed.append(part)
        return []

    threads = ThreadPoolExecutor(width)
    try:
        for done in as_completed([threads.submit(carried, part) for part in parts]):
            yield from done.result()
    except BaseException:
        pool.close()  # or the threads would wait for what it does
        raise
    finally:
        threads.shutdown(cancel_futures=True)
    return late, killed


def _together(members: Part, jobs: list[Job], outs: list[Path], how: Training) -> list[Ended]:
    """Carry out jobs of one kind in this process; those that an earlier try has finished are left alone."""
    ended: dict[int, str | None] = {}
    if not how.force:
        ended = {k: _other_run(jobs[k], out) for k, out in enumerate(outs) if Folder(out).finished}
    rest = [k for k in range(len(jobs)) if k not in ended]
    if rest:
        try:
            outcomes = jobs[0].kind.carry_out(
                [jobs[k].config for k in rest], [outs[k] for k in rest], how
            )
            ended |= {
                k: outcome and _sentence(outcome) for k, outcome in zip(rest, outcomes, strict=True)
            }
        except Exception as error:  # whatever it is, the other jobs go on
            alone = [_together([k], [jobs[k]], [outs[k]], how)[0][1] for k in rest if rest[1:]]
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
        same = Folder(out).config_of(type(job.config)) == job.config
    except ValueError as error:
        return str(error)
    return (
        None
        if same
        else f"{out} holds a finished run of another configuration: choose another --out, or --force"
    )
