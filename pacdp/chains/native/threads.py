"""Threads of compiled loops, as many as torch has but none for too little work, and chains spread over threads.

The loops take a range of jobs and run without the interpreter's lock, so that ordinary threads share them: numba's own
parallel loops are compiled four times over, and cannot run side by side in all of its threading layers.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import Any

import torch

_LEAST = 40_000
"""Elementary operations, some tens of microseconds, that are worth a thread."""


def each(loop: Callable[..., None], jobs: int, *arguments: Any, operations: int) -> None:
    """``loop(first, last, *arguments)`` over the jobs 0, 1, ... in parts that threads share.

    Args:
        operations: elementary operations of all jobs together, which decide how many threads are worth it.
    """
    parts = shares(jobs, most=operations // _LEAST)
    if len(parts) < 2:
        loop(0, jobs, *arguments)
    else:
        _at_once("loops", len(parts), lambda _, own: loop(own.start, own.stop, *arguments), parts)


def shares(jobs: int, *, most: int | None = None) -> list[range]:
    """Jobs 0, 1, ... in as many parts as torch has threads, and no more than there are jobs or than ``most``."""
    parts = max(1, min(jobs, torch.get_num_threads(), jobs if most is None else most))
    return [range(jobs * part // parts, jobs * (part + 1) // parts) for part in range(parts)]


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
    try:
        _at_once("chains", threads, alone, parts)
    finally:  # new threads of the process begin with the number that was set last
        torch.set_num_threads(threads)


def _at_once(
    name: str, threads: int, run: Callable[[int, Any], None], parts: Sequence[Any]
) -> None:
    waiting = [_pool(threads, name).submit(run, *one) for one in enumerate(parts)]
    wait(waiting)  # all of them, since they write to what the caller holds
    for one in waiting:
        one.result()


@cache
def _pool(size: int, name: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(size, thread_name_prefix=f"pacdp-{name}")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a fork has the pools, but not their threads
