"""The writers of MNIST's digits, by QMNIST's tables."""

import gzip

import numpy as np
import pytest
from data_tools import idx_bytes, put, register

from pacdp.data import DataError, load
from pacdp.data.writers import read_writers
from tests.marks import refusal

DIGITS = np.array([5, 0, 4, 1, 9])


def table(digits, first):
    rows = np.zeros((len(digits), 8), dtype=np.int32)
    rows[:, 0] = digits
    rows[:, 2] = first + np.arange(len(digits)) // 2
    return rows


def test_writers_of_the_first_rows(tmp_path):
    longer = np.concatenate([table(DIGITS, 300), table(DIGITS, 900)])
    path = put(tmp_path / "labels.gz", gzip.compress(idx_bytes(longer), mtime=0))
    writers = read_writers(path, DIGITS)
    assert writers.dtype == np.int64
    assert writers.tolist() == [300, 300, 301, 301, 302]


@pytest.fixture
def root(tmp_path):
    for prefix, count in (("train", 6), ("t10k", 4)):
        digits = np.arange(count, dtype=np.uint8)
        images = np.full((count, 28, 28), 255, dtype=np.uint8)
        put(tmp_path / "mnist" / f"{prefix}-images-idx3-ubyte.gz", idx_bytes(images))
        put(tmp_path / "mnist" / f"{prefix}-labels-idx1-ubyte.gz", idx_bytes(digits))
    put(tmp_path / "mnist_writers" / "qmnist-train-labels-idx2-int.gz", idx_bytes(table(np.arange(6), 10)))
    return tmp_path


def test_a_small_mnist_with_writers(root, monkeypatch):
    put(root / "mnist_writers" / "qmnist-test-labels-idx2-int.gz", idx_bytes(table(np.arange(9), 20)))
    register(monkeypatch, root)
    train, test = load("mnist-writers", root=root, download=False)
    assert (train.n, train.units, train.unit) == (6, 3, "writer")
    assert test.people.tolist() == [20, 20, 21, 21]
    assert [part.hash for part in load("mnist", root=root)] == [train.hash, test.hash]


def test_a_writer_on_both_sides(root, monkeypatch):
    put(root / "mnist_writers" / "qmnist-test-labels-idx2-int.gz", idx_bytes(table(np.arange(4), 12)))
    register(monkeypatch, root)
    with refusal(r"train and test of mnist-writers share 1 writer \(the first has number 12\)", DataError):
        load("mnist-writers", root=root, download=False)
