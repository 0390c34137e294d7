"""A 64-bit hash for each row of an array: equal rows always agree, different ones with probability about 2**-63.

A row's 32-bit words are first hashed by two multilinear functions modulo 2**64,

    m_0 + m_1 word_1 + ... + m_w word_w, of which the upper 32 bits are kept.

Over random 64-bit m this is strongly universal: two different rows of one width agree in both with probability 2**-64
(Lemire and Kaser, "Strongly universal string hashing is fast", The Computer Journal 57, 2014, section 3). SipHash-2-4
(Aumasson and Bernstein, INDOCRYPT 2012) of these 64 bits, of the dtype and of the width is the row's hash. The m and
SipHash's key are SHAKE-256 of the caller's key. Among n rows some two different ones agree with probability about
n**2/2**64, 2e-10 for 60,000.

Without a key anybody can compute the hashes, look whether a record that they have is among them, and make different
rows that agree. With a secret key of 16 random bytes the hashes look like random numbers to whoever lacks the key,
however well they know the data.

The values decide, not their format: a row that float32 holds exactly is hashed as float32, so that the same numbers as
uint8, float32 and float64 agree (bytes and bytes/255 are other numbers), and so do 0.0 and -0.0. Other rows are hashed
as float64, int64 or uint64. The shape of a row does not enter: [28, 28] and [784] agree.
"""

import hashlib
from functools import lru_cache
from numbers import Real
from typing import Any

import numpy as np
from jaxtyping import Shaped, UInt64

from pacdp.data.errors import DataError

_CHUNK = 1 << 18  # words at a time: 2 MB as 64-bit integers, which a core's cache holds
_HALF = np.uint64(32)
_SECRET = 16  # bytes


def row_hashes(values: Any, *, key: bytes = b"", name: str = "values") -> UInt64[np.ndarray, " n"]:
    """The hash of each row ``values[i]``, whatever shape a row has.

    Args:
        values: a NumPy array or a tensor, [n, ...], of booleans, integers, real or complex numbers.
        key: a secret, or nothing where anybody may compute the hashes.
        name: what the values are, for the error's sentence.

    Raises:
        DataError: no numbers, no rows, or nothing in a row.
    """
    if not isinstance(key, bytes) or 0 < len(key) < _SECRET:
        raise DataError(f"key must be at least {_SECRET} secret bytes, or b'' for none; take secrets.token_bytes(16).")
    rows = _matrix(values, name)
    hashes = np.empty(len(rows), dtype=np.uint64)
    step = max(1, _CHUNK // rows.shape[1])
    for start in range(0, len(rows), step):
        hashes[start : start + step] = _value_hashes(rows[start : start + step], key)
    return hashes


def pair_hashes(
    first: UInt64[np.ndarray, " n"], second: UInt64[np.ndarray, " n"], *, key: bytes = b""
) -> UInt64[np.ndarray, " n"]:
    """One hash for each pair of hashes; the order within a pair counts."""
    return _siphash(first, second, _words(key, 2))


def require_no_mask(values: Any, name: str) -> None:
    """Refuse a masked array, of which torch and NumPy take what lies under the mask; raises DataError."""
    if np.ma.isMaskedArray(values):
        raise DataError(f"{name} are a masked array, whose gaps would count as numbers: fill them in")


def table_hashes(values: Any, *, name: str = "values") -> UInt64[np.ndarray, " n"]:
    """The hash of each row of a table as estimators take it; rows of numbers have those of `row_hashes`.

    Args:
        values: an array, tensor, data frame, sparse matrix or list, [n] or [n, ...]; a cell that is no number is hashed
            as its text.
        name: what the values are, for the error's sentence.

    Raises:
        DataError: no rows, nothing in a row, or a masked array.
    """
    require_no_mask(values, name)
    if hasattr(values, "tocsr"):
        rows, step = values.tocsr(), max(1, _CHUNK // max(1, values.shape[1]))
        parts = [row_hashes(rows[at : at + step].toarray()) for at in range(0, rows.shape[0], step)]
        return np.concatenate(parts)
    array = values.to_numpy() if hasattr(values, "to_numpy") else array_of(values, name)
    if array.dtype == object and array.size and all(isinstance(cell, Real) for cell in array.ravel().tolist()):
        array = np.array(array.tolist())  # numbers are numbers, whatever holds them
    if array.dtype.kind in "biufc":
        return row_hashes(array, name=name)
    cells, places = np.unique([str(cell) for cell in array.ravel().tolist()], return_inverse=True)
    digests = [hashlib.blake2b(cell.encode(), digest_size=8).digest() for cell in cells.tolist()]
    return row_hashes(np.frombuffer(b"".join(digests), dtype="<i8")[places].reshape(array.shape), name=name)


def array_of(values: Any, name: str) -> Shaped[np.ndarray, "..."]:
    """A tensor or an array as an array; bfloat16, which NumPy lacks, as float32.

    Raises:
        DataError: it cannot be one.
    """
    try:
        if hasattr(values, "detach"):  # a tensor, without importing torch here
            values = values.detach().cpu()
            values = values.float() if "bfloat16" in str(values.dtype) else values
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError):
        raise DataError(f"{name} must be a dense array or tensor, got {type(values).__name__}; convert them.") from None


def _matrix(values: Any, name: str) -> Shaped[np.ndarray, "n width"]:
    array = array_of(values, name)
    if array.dtype.kind not in "biufc":
        raise DataError(f"{name} must hold numbers, got an array of {array.dtype}; convert them.")
    if array.ndim == 0 or array.size == 0:
        raise DataError(f"{name} must hold at least one row of at least one number, got shape {array.shape}.")
    if array.dtype.kind == "c":
        array = np.stack([np.real(array), np.imag(array)], axis=-1)
    return array.reshape(len(array), -1)


def _value_hashes(rows: Shaped[np.ndarray, "n width"], key: bytes) -> UInt64[np.ndarray, " n"]:
    """As float32 where that is exact (NaN is NaN), else as float64, int64 or uint64."""
    if rows.dtype == np.float32:
        return _word_hashes(rows, key)
    rows = rows.astype({"f": np.float64, "u": np.uint64}.get(rows.dtype.kind, np.int64))
    with np.errstate(over="ignore", invalid="ignore"):
        single = rows.astype(np.float32)
        exact = ((single.astype(rows.dtype) == rows) | (rows != rows)).all(axis=1)
    hashes = _word_hashes(single, key)
    if not exact.all():
        hashes[~exact] = _word_hashes(rows[~exact], key)
    return hashes


def _word_hashes(rows: Shaped[np.ndarray, "n width"], key: bytes) -> UInt64[np.ndarray, " n"]:
    rows = np.ascontiguousarray(rows + rows.dtype.type(0))  # -0.0 becomes 0.0
    words = rows.view("<u4").astype(np.uint64)
    seeds = _words(key, 4 + 2 * words.shape[1])
    offsets, factors = seeds[2:4], seeds[4:].reshape(2, -1)
    # einsum, because matmul of integers is twice as slow
    high, low = (np.einsum("ij,j->i", words, factor) + offset for factor, offset in zip(factors, offsets, strict=True))
    kind = hashlib.sha256(f"{rows.dtype.str}{rows.shape[1]}".encode()).digest()[:8]
    return _siphash((high >> _HALF << _HALF) | (low >> _HALF), np.frombuffer(kind, dtype="<u8"), seeds[:2])


@lru_cache(maxsize=8)
def _words(key: bytes, count: int) -> UInt64[np.ndarray, " count"]:
    """The first so many 64-bit words that belong to a key."""
    return np.frombuffer(hashlib.shake_256(b"pacdp-rows/1" + key).digest(8 * count), dtype="<u8").astype(np.uint64)


def _siphash(
    first: UInt64[np.ndarray, " n"], second: UInt64[np.ndarray, " m"], key: UInt64[np.ndarray, " 2"]
) -> UInt64[np.ndarray, " n"]:
    """SipHash-2-4 of the 16 bytes of each pair of words, m being n or 1."""
    constants = np.frombuffer(b"uespemosmodnarodarenegylsetybdet", dtype="<u8").reshape(4, 1)
    v0, v1, v2, v3 = constants ^ np.concatenate([key, key])[:, None]
    for block, rounds in ((first, 2), (second, 2), (np.array([16 << 56], dtype=np.uint64), 2), (None, 4)):
        if block is None:
            v2 = v2 ^ np.uint64(0xFF)
        else:
            v3 = v3 ^ block
        for _ in range(rounds):
            v0 = v0 + v1
            v2 = v2 + v3
            v1, v3 = _rotated(v1, 13) ^ v0, _rotated(v3, 16) ^ v2
            v0 = _rotated(v0, 32) + v3
            v2 = v2 + v1
            v1, v3 = _rotated(v1, 17) ^ v2, _rotated(v3, 21) ^ v0
            v2 = _rotated(v2, 32)
        if block is not None:
            v0 = v0 ^ block
    return v0 ^ v1 ^ v2 ^ v3


def _rotated(words: UInt64[np.ndarray, " n"], bits: int) -> UInt64[np.ndarray, " n"]:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))
