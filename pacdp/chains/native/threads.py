"""Threads of compiled loops, as many as torch has but none for too little work, and chains spread over threads."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise

import numba
import torch
from numba.core import config

_LEAST = 40_000
"""Elementary operations, some tens of microseconds, that are worth a thread."""


def use(operations: int) -> None:
    """Let the next compiled loops of this thread share ``operations`` elementary operations.

    Numba's OpenMP layer, when it starts, resets the count that torch reads; it is put back.
    """
    threads = torch.get_num_threads()
    useful = max(1, operations // _LEAST)
    numba.set_num_threads(min(useful, threads, config.NUMBA_NUM_THREADS))  # pyright: ignore
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


def shares(jobs: int) -> list[range]:
    """Jobs 0, 1, ... in as many parts as torch has threads; one where compiled loops may not run side by side."""
    parts = min(jobs, torch.get_num_threads()) if _side_by_side() else 1
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
    waiting = [_pool(threads).submit(alone, number, part) for number, part in enumerate(parts)]
    wait(waiting)  # all of them, since they write to what the caller holds
    torch.set_num_threads(threads)  # new threads of the process begin with the number that was set last
    for one in waiting:
        one.result()


@cache
def _pool(size: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(size, thread_name_prefix="pacdp-chains")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a fork has the pools, but not their threads


def _side_by_side() -> bool:
    """Whether numba's threading layer, known once a parallel loop has run, takes calls from several threads."""
    try:
        return numba.threading_layer() in ("omp", "tbb")  # pyright: ignore
    except ValueError:
        return False
