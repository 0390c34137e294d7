"""Hashes of rows, by which a report names the examples that it is about."""

import hashlib
from typing import Any

import numpy as np

ROWS = "pacdp-rows/2"
"""The format of the hashes."""


def row_hashes(values: Any) -> np.ndarray:
    """The hash of each row, in single precision where that is exact."""
    rows = np.asarray(values)
    kind = {"f": "<f8", "u": "<u8"}.get(rows.dtype.kind, "<i8")
    wide = rows.reshape(len(rows), -1).astype(kind)
    narrow = wide.astype("<f4")
    exact = (narrow.astype(wide.dtype) == wide) | (wide != wide)
    exact = exact.all(axis=1)
    hashes = np.empty(len(rows), dtype=np.uint64)
    for own, numbers in ((exact, narrow), (~exact, wide)):
        positive = numbers[own] + numbers.dtype.type(0)  # 0 in place of -0
        person = f"{numbers.dtype.str}{numbers.shape[1]}"
        hashes[own] = _digests(positive, person)
    return hashes


def _digests(rows: np.ndarray, person: str) -> np.ndarray:
    """BLAKE2b of 8 bytes, personalised, of each row's bytes."""
    how: dict[str, Any] = {"digest_size": 8, "person": person.encode()}
    found = [hashlib.blake2b(row.tobytes(), **how).digest() for row in rows]
    return np.frombuffer(b"".join(found), dtype="<u8")


def rows_digest(inputs: Any, labels: Any, people: Any = None) -> str:
    """SHA-256 of the sorted hashes of examples, of inputs and of people, after the name of their format."""
    seen = row_hashes(inputs)
    pairs = np.stack([seen, row_hashes(labels)], axis=1)
    columns = {"examples": _digests(pairs, "pair"), "inputs": seen}
    if people is not None:
        columns["owners"] = row_hashes(np.asarray(people).astype(np.int64))
    names = [
        name for name in ("inputs", "owners", "examples") if name in columns
    ]
    order = np.lexsort([columns[name] for name in names])
    found = hashlib.sha256(ROWS.encode())
    for name, column in columns.items():
        found.update(name.encode() + column[order].astype("<u8").tobytes())
    return f"{ROWS}:{found.hexdigest()}"
