"""Seeded words and permutations that stay the same from one NumPy release to the next.

NumPy promises the bits of PCG64 for ever, the methods of Generator not (NEP 19). Splits and random labels
outlive installations, in hashes that checkpoints carry, so they are made from the bits.
"""

import numpy as np
from jaxtyping import Int64, UInt64

from pacdp.data.errors import DataError

# one stream a purpose: the same seed given to two of them must not correlate their draws
SPLIT, LABEL_SUBSET, LABEL_VALUES = 1, 2, 3


def words(n: int, *, seed: int, stream: int) -> UInt64[np.ndarray, " n"]:
    """`n` uniform 64-bit words; equal arguments give equal words, and fewer words are a prefix of more.

    Raises:
        DataError: `seed` is negative.
    """
    if seed < 0:
        raise DataError(f"seed must be a non-negative integer, got {seed}.")
    bits = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(stream,)))
    return np.asarray(bits.random_raw(n), dtype=np.uint64)


def permutation(n: int, *, seed: int, stream: int) -> Int64[np.ndarray, " n"]:
    """A uniform order of 0 .. n - 1 (but for ties among 64-bit words, of probability below n²/2**65).

    Raises:
        DataError: `seed` is negative.
    """
    return np.argsort(words(n, seed=seed, stream=stream), kind="stable").astype(
        np.int64, copy=False
    )
