"""Keys that tests choose, words that tests choose, and the normal numbers of given words."""

import hashlib
import itertools

import numpy as np
from numpy.random import default_rng

from pacdp.random import cipher, grid

FINE = 2.0**60  # a grid so fine that the numbers are what the polynomials gave


def fix_keys(monkeypatch, name="keys"):
    """The operating system's keys become a sequence that every run of the tests repeats."""
    count = itertools.count()
    monkeypatch.setattr(cipher, "new_key", lambda: hashlib.sha256(f"{name} {next(count)}".encode()).digest())


def words_of(count, name="words"):
    """Uniform words, the same ones for the same name."""
    return default_rng(list(name.encode())).integers(-(2**63), 2**63, count, dtype=np.int64)


def normals_of(words, spare=None):
    """The standard normal numbers of these words."""
    values = np.zeros(len(words))
    spare = words_of(2 * len(words), "spare") if spare is None else spare
    assert grid.add_on_grid(values, words, spare, grid.table(), FINE, 1.0 / FINE, 0) == len(words)
    return values
