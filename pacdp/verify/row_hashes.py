"""Hashes of rows, by which a report names the examples that it is about."""

import hashlib
from typing import Any

import numpy as np

_CHUNK = 512


def _words(count: int) -> np.ndarray:
    content = hashlib.shake_256(b"pacdp-rows/1").digest(8 * count)
    return np.frombuffer(content, dtype="<u8")


def _rotate(x: np.ndarray, bits: int) -> np.ndarray:
    left = x << np.uint64(bits)
    right = x >> np.uint64(64 - bits)
    return left | right


def _siphash(key: np.ndarray, *blocks: np.ndarray) -> np.ndarray:
    """SipHash-2-4 of 64-bit blocks, for many messages at once."""
    start = np.frombuffer(
        b"somepseudorandomlygeneratedbytes", dtype=">u8"
    ).astype(np.uint64)
    state: Any = [start[i : i + 1] ^ key[i % 2] for i in range(4)]
    length = np.array([len(blocks) << 59], dtype=np.uint64)
    for block in (*blocks, length):
        state[3] = state[3] ^ block
        _turn(state, 2)
        state[0] = state[0] ^ block
    state[2] = state[2] ^ np.uint64(255)
    _turn(state, 4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _turn(state: list[np.ndarray], times: int) -> None:
    a, b, c, d = state
    for _ in range(times):
        a = a + b
        c = c + d
        b = _rotate(b, 13) ^ a
        d = _rotate(d, 16) ^ c
        a = _rotate(a, 32) + d
        c = c + b
        b = _rotate(b, 17) ^ c
        d = _rotate(d, 21) ^ a
        c = _rotate(c, 32)
    state[:] = a, b, c, d


def row_hashes(values: Any) -> np.ndarray:
    """Two multilinear hashes of a row's 32-bit words, cut to 32 bits each, and SipHash of these and of the format."""
    rows = np.asarray(values)
    kind = {"f": "f8", "u": "u8"}.get(rows.dtype.kind, "i8")
    wide = rows.reshape(len(rows), -1).astype(kind)
    narrow = wide.astype(np.float32)
    exact = (narrow.astype(wide.dtype) == wide) | (wide != wide)
    exact = exact.all(axis=1)
    hashes = np.empty(len(rows), dtype=np.uint64)
    hashes[exact] = _in_chunks(narrow[exact])
    hashes[~exact] = _in_chunks(wide[~exact])
    return hashes


def _in_chunks(numbers: np.ndarray) -> np.ndarray:
    hashes = np.empty(len(numbers), dtype=np.uint64)
    for start in range(0, len(numbers), _CHUNK):
        part = slice(start, start + _CHUNK)
        hashes[part] = _multilinear(numbers[part])
    return hashes


def _multilinear(numbers: np.ndarray) -> np.ndarray:
    positive = np.ascontiguousarray(
        numbers + numbers.dtype.type(0)
    )  # 0 in place of -0
    words = positive.view("<u4").astype(np.uint64)
    seeds = _words(4 + 2 * words.shape[1])
    first, second = np.split(seeds[4:], 2)
    high = np.einsum("ij,j->i", words, first) + seeds[2]
    low = np.einsum("ij,j->i", words, second) + seeds[3]
    half = np.uint64(32)
    joined = (high >> half << half) | (low >> half)
    form = f"{numbers.dtype.str}{numbers.shape[1]}".encode()
    kind = np.frombuffer(hashlib.sha256(form).digest()[:8], dtype="<u8")
    return _siphash(seeds[:2], joined, kind)


def rows_digest(
    inputs: Any,
    labels: Any,
    people: Any = None,
) -> str:
    """SHA-256 of the sorted hashes of examples, of inputs and of people."""
    seen = row_hashes(inputs)
    columns = {
        "examples": _siphash(_words(2), seen, row_hashes(labels)),
        "inputs": seen,
    }
    if people is not None:
        columns["owners"] = row_hashes(np.asarray(people).astype(np.int64))
    keys = [
        columns[name]
        for name in ("inputs", "owners", "examples")
        if name in columns
    ]
    order = np.lexsort(keys)
    found = hashlib.sha256(b"pacdp-rows/1")
    for name, column in columns.items():
        found.update(name.encode())
        found.update(column[order].astype("<u8").tobytes())
    return found.hexdigest()
