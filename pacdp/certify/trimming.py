"""Memory that was freed, handed back to the system while large batches come and go."""

import ctypes
from functools import cache
from typing import Any

_LARGE = 2**20
"""Bytes of a batch. Small ones leave nothing worth the call behind."""


def hand_back(size: int) -> None:
    """After a batch of ``size`` bytes: what glibc keeps of freed memory goes back to the system.

    Its allocator fills the gaps between aligned tensors of some megabytes poorly, and a stream of batches would grow
    without end in sight. Elsewhere nothing happens.
    """
    trim = _trim()
    if size >= _LARGE and trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
