"""The writers of MNIST's digits, by QMNIST's tables."""

import numpy as np
from data_tools import idx_bytes, put, register

from pacdp.data import load

DIGITS = np.array([5, 0, 4, 1, 9])


def table(digits, first):
    rows = np.zeros((len(digits), 8), dtype=np.int32)
    rows[:, 0] = digits
    rows[:, 2] = first + np.arange(len(digits)) // 2
    return rows


def test_a_small_mnist_with_writers(tmp_path, monkeypatch):
    for prefix, count in (("train", 6), ("t10k", 4)):
        digits = np.arange(count, dtype=np.uint8)
        images = np.full((count, 28, 28), 255, dtype=np.uint8)
        put(tmp_path / "mnist" / f"{prefix}-images-idx3-ubyte.gz", idx_bytes(images))
        put(tmp_path / "mnist" / f"{prefix}-labels-idx1-ubyte.gz", idx_bytes(digits))
    for name, count, first in (("train", 6, 10), ("test", 9, 20)):
        content = idx_bytes(table(np.arange(count), first))
        put(tmp_path / "mnist_writers" / f"qmnist-{name}-labels-idx2-int.gz", content)
    register(monkeypatch, tmp_path)
    train, test = load("mnist-writers", root=tmp_path, download=False)
    assert (train.n, train.units, train.unit) == (6, 3, "writer")
    assert test.people.tolist() == [20, 20, 21, 21]
    assert [part.hash for part in load("mnist", root=tmp_path)] == [train.hash, test.hash]
