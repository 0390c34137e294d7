"""Threads of compiled loops, as many as torch has but none for too little work, and chains spread over threads.

The loops take a range of jobs and run without the interpreter's lock, so that ordinary threads share them: numba's own
parallel loops are compiled four times over, and cannot run side by side in all of its threading layers.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise
from typing import Any

import torch

_LEAST = 40_000
"""Elementary operations, some tens of microseconds, that are worth a thread."""


def each(loop: Callable[..., None], jobs: int, *arguments: Any, operations: int) -> None:
    """``loop(first, last, *arguments)`` over the jobs 0, 1, ... in parts that threads share.

    Args:
        operations: elementary operations of all jobs together, which decide how many threads are worth it.
    """
    parts = min(jobs, max(1, operations // _LEAST), torch.get_num_threads())
    if parts < 2:
        loop(0, jobs, *arguments)
        return
    first, *others = _ranges(jobs, parts)
    pool = _pool(parts, "loops")
    waiting = [pool.submit(loop, own.start, own.stop, *arguments) for own in others]
    try:
        loop(first.start, first.stop, *arguments)
    finally:
        wait(waiting)  # all of them, since they write to what the caller holds
    for one in waiting:
        one.result()


def shares(jobs: int) -> list[range]:
    """Jobs 0, 1, ... in as many parts as torch has threads."""
    return _ranges(jobs, min(jobs, torch.get_num_threads()))


def _ranges(jobs: int, parts: int) -> list[range]:
    ends = [jobs * part // max(1, parts) for part in range(parts + 1)]
    return [range(start, stop) for start, stop in pairwise(ends)]


def spread(run: Callable[[int, Sequence[int]], None], parts: Sequence[Sequence[int]]) -> None:
    """``run(number, part)`` for each part at once, each on one thread; a single part runs here, on torch's threads."""
    if len(parts) < 2:
        for number, part in enumerate(parts):
            run(number, part)
        return

    def alone(number: int, part: Sequence[int]) -> None:
        if torch.get_num_threads() != 1:
            torch.set_num_threads(1)
        run(number, part)

    threads = torch.get_num_threads()
    waiting = [
        _pool(threads, "chains").submit(alone, number, part) for number, part in enumerate(parts)
    ]
    wait(waiting)  # all of them, since they write to what the caller holds
    torch.set_num_threads(
        threads
    )  # new threads of the process begin with the number that was set last
    for one in waiting:
        one.result()


@cache
def _pool(size: int, name: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(size, thread_name_prefix=f"pacdp-{name}")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a fork has the pools, but not their threads
