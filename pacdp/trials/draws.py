"""Global random numbers that a trial draws from and leaves as they were."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def kept_draws() -> Iterator[np.random.RandomState]:
    """Afterwards the global random numbers of torch, NumPy and Python go on as if none had been drawn.

    Yields the generator behind NumPy's global functions, which estimators draw from.
    """
    of_numpy = np.random.mtrand._rand
    before = torch.get_rng_state(), of_numpy.get_state(), random.getstate()
    try:
        yield of_numpy
    finally:
        torch.set_rng_state(before[0])
        of_numpy.set_state(before[1])
        random.setstate(before[2])
