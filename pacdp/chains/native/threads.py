"""How many threads a compiled loop uses: those of torch, but none for too little work."""

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
