"""Splits of a dataset into disjoint index sets, each with a hash that a checkpoint can carry.

Seeded words and permutations stay the same from one NumPy release to the next: NumPy promises the bits of PCG64 for
ever, the methods of Generator not (NEP 19). Splits and random labels outlive installations, in hashes that checkpoints
carry, so they are made from the bits.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Int64, Integer, UInt64

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


@dataclass(frozen=True, slots=True)
class Split:
    """Some examples of a dataset. Two splits are equal when their hashes are.

    Attributes:
        indices: int64 [k], strictly increasing, read-only.
        hash: `index_hash(indices)`.
    """

    indices: Int64[np.ndarray, " k"] = field(compare=False)
    hash: str

    def __post_init__(self) -> None:
        """Check both fields against each other; raises DataError when they do not belong together."""
        if self.indices.dtype != np.int64 or self.indices.ndim != 1:
            raise DataError(
                "indices of a Split must be a one-dimensional int64 array; convert them."
            )
        if np.any(np.diff(self.indices) <= 0):
            raise DataError(
                "indices of a Split must be strictly increasing; sort them and drop duplicates."
            )
        if index_hash(self.indices) != self.hash:
            raise DataError(
                "hash of a Split does not belong to its indices; use index_hash(indices)."
            )
        view = self.indices.view()
        view.setflags(write=False)
        object.__setattr__(self, "indices", view)

    @property
    def n(self) -> int:
        """How many examples."""
        return len(self.indices)


def index_hash(indices: Integer[np.ndarray, " k"]) -> str:
    """sha256 (hex) of a set of indices: sorted, as little-endian int64 bytes. Their order is irrelevant.

    Raises:
        DataError: not one-dimensional integers, or negative, or an index twice.
    """
    if indices.ndim != 1 or not np.issubdtype(indices.dtype, np.integer):
        raise DataError("indices must be a one-dimensional integer array; convert them.")
    ordered = np.sort(indices)
    if ordered.size and ordered[0] < 0:
        raise DataError(f"indices must not be negative, got {ordered[0]}.")
    if np.any(ordered[1:] == ordered[:-1]):
        raise DataError("indices must be distinct; drop the duplicates.")
    return hashlib.sha256(ordered.astype("<i8").tobytes()).hexdigest()


def make_splits(n: int, *, sizes: Mapping[str, int | float], seed: int) -> dict[str, Split]:
    """Disjoint random subsets of 0 .. n - 1, one a name.

    The result depends on the arguments alone, not on the order in which `sizes` lists its names.

    Args:
        n: how many examples there are.
        sizes: an int is a count, a float a fraction of n (1 is one example, 1.0 all of them). Fractions
            that add up to 1 cover everything, each split within one example of its share.
        seed: a non-negative integer.

    Returns:
        A split for each name, in the order of `sizes`.

    Raises:
        DataError: a negative, non-finite or too large size, a fraction that comes to no example, sizes
            that add up to more than there is, a bad seed.
    """
    if n < 1:
        raise DataError(f"n must be at least 1, got {n}.")
    counts: dict[str, int] = {}
    fractions: list[float] = []  # rounded at their running total, so that their sum is right
    for name in sorted(sizes):
        size = sizes[name]
        if not math.isfinite(size) or size < 0:
            raise DataError(
                f"size of split {name!r} must be a finite number, at least 0, got {size}."
            )
        if isinstance(size, int | np.integer):
            counts[name] = int(size)
            continue
        before = round(n * math.fsum(fractions))
        fractions.append(size)
        total = math.fsum(fractions)
        if total > 1 + 1e-12:
            raise DataError(f"fractions in sizes add up to {total:.6g}; they must not exceed 1.")
        counts[name] = min(n, round(n * total)) - before
        if size > 0 and counts[name] == 0:
            raise DataError(
                f"split {name!r} would get none of {n} examples; raise its fraction from {size}."
            )
    total = sum(counts.values())
    if total > n:
        raise DataError(f"sizes ask for {total} of {n} examples; make them smaller.")
    order = permutation(n, seed=seed, stream=SPLIT)
    splits: dict[str, Split] = {}
    start = 0
    for name in sorted(counts):
        indices = np.sort(order[start : start + counts[name]])
        splits[name] = Split(indices, index_hash(indices))
        start += counts[name]
    return {name: splits[name] for name in sizes}


def require_disjoint(
    a: Split | Integer[np.ndarray, " k"],
    b: Split | Integer[np.ndarray, " m"],
    names: tuple[str, str] = ("a", "b"),
) -> None:
    """Refuse two index sets that share an example, for instance what a prior saw and what a bound may use.

    Raises:
        DataError: they overlap; the sentence names both and counts the shared examples.
    """
    first = a.indices if isinstance(a, Split) else a
    second = b.indices if isinstance(b, Split) else b
    shared = len(np.intersect1d(first, second))
    if shared:
        raise DataError(
            f"{names[0]} and {names[1]} share {shared} example{'s' if shared > 1 else ''}; make them disjoint, "
            "because a bound must not use data that the prior saw without privacy."
        )
