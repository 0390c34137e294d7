"""Datasets by name: shapes, scales, labels, hashes; and what is refused."""

import os
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from data_tools import idx_bytes
from jaxtyping import TypeCheckError

from pacdp.data import ALL_NAMES, DataError, Dataset, load, read_mnist

# the hashes that checkpoints carry; a new value here would orphan them
DIGITS_HASHES = (
    "9d1f9286ff6716bf69b1b3a02b47ad068063dbf45e8be09d814fec6ba00b978f",
    "cff7267035caa1385d65491a7a18aab58fb6b94d1145d65e5aafcd9037b72393",
)
MNIST_HASHES = (
    "b0d7725b7d6048b53111c5af80b469f3f926f7aeff57b05be84416f40c2ff592",
    "1fedc85c2ade70dcaab651f8db6f640f5c6c26d4b9f95fc564beb6ca148f8801",
)
HAS_MNIST = (Path(os.environ.get("PACDP_DATA") or "nowhere") / "mnist").is_dir()


def test_digits() -> None:
    train, test = load("digits")
    assert train.inputs.shape == (1437, 1, 8, 8)
    assert test.inputs.shape == (360, 1, 8, 8)
    assert (train.n, test.n, train.classes) == (1437, 360, 10)
    for data in (train, test):
        assert data.name == "digits"
        assert data.inputs.dtype == np.float32
        assert data.inputs.min() == 0.0
        assert data.inputs.max() == 1.0
        assert set(data.labels.tolist()) == set(range(10))
    assert train.hash == DIGITS_HASHES[0]
    assert test.hash == DIGITS_HASHES[1]
    assert np.bincount(np.concatenate([train.labels, test.labels])).sum() == 1797


@pytest.mark.parametrize(
    "base", ["digits", pytest.param("mnist", marks=pytest.mark.skipif(not HAS_MNIST, reason="no MNIST here"))]
)
def test_two_classes_are_small_against_large_digits(base: str) -> None:
    for ten, two in zip(load(base, download=False), load(f"{base}2", download=False), strict=True):
        assert (two.name, two.classes) == (f"{base}2", 2)
        np.testing.assert_array_equal(two.labels, (ten.labels < 5).astype(np.int64))
        np.testing.assert_array_equal(two.inputs, ten.inputs)
        assert two.hash != ten.hash


@pytest.mark.skipif(not HAS_MNIST, reason="PACDP_DATA names no folder with mnist/")
def test_mnist() -> None:
    train, test = load("mnist", download=False)
    assert train.inputs.shape == (60_000, 1, 28, 28)
    assert test.inputs.shape == (10_000, 1, 28, 28)
    # class counts as on the original page
    assert np.bincount(train.labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(test.labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert train.labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert float(train.inputs.mean()) == pytest.approx(0.1306604, abs=1e-6)  # the 0.1307 of every tutorial
    assert (train.inputs.min(), train.inputs.max()) == (0.0, 1.0)
    assert train.hash == MNIST_HASHES[0]
    assert test.hash == MNIST_HASHES[1]


def test_unknown_name_lists_the_names() -> None:
    with pytest.raises(DataError, match=f"'mnits' is unknown; choose one of {', '.join(ALL_NAMES)}"):
        load("mnits")


@pytest.fixture
def small() -> Dataset:
    return Dataset("small", np.zeros((3, 4), dtype=np.float32), np.array([0, 1, 2]), 3)


def test_hash_is_of_the_content_alone(small: Dataset) -> None:
    assert Dataset("other", small.inputs.copy(), small.labels.copy(), 3).hash == small.hash
    assert Dataset("small", small.inputs.reshape(3, 2, 2), small.labels, 3).hash != small.hash
    assert Dataset("small", small.inputs + 1, small.labels, 3).hash != small.hash
    assert Dataset("small", small.inputs, small.labels[::-1], 3).hash != small.hash
    wide = np.zeros((3, 8), dtype=np.float32)
    assert Dataset("strided", wide[:, ::2], small.labels, 3).hash == small.hash
    assert pickle.loads(pickle.dumps(small)).hash == small.hash  # noqa: S301


def test_arrays_are_read_only_and_the_callers_are_not(small: Dataset) -> None:
    labels = np.array([0, 1])
    data = Dataset("mine", np.zeros((2, 2), dtype=np.float32), labels, 2)
    with pytest.raises(ValueError, match="read-only"):
        data.labels[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        small.inputs[0] = 1
    labels[0] = 1


ROW = np.zeros((2, 2), dtype=np.float32)


@pytest.mark.parametrize(
    ("inputs", "labels", "classes", "match"),
    [
        (ROW.astype(np.float64), [0, 1], 2, "must be float32"),
        (ROW[0], [0, 1], 2, "must be float32"),
        (ROW, [0, 1, 1], 2, "2 inputs and 3 labels"),
        (ROW, [0, 2], 2, r"must lie in 0 \.\. classes - 1"),
        (ROW, [-1, 0], 2, "must lie in"),
        (ROW, [0, 0], 1, "at least 2"),
        (ROW[:0], [], 2, "no examples"),
        (ROW * np.float32("nan"), [0, 1], 2, "not finite"),
    ],
)
def test_malformed_datasets(inputs: np.ndarray, labels: list[int], classes: int, match: str) -> None:
    with pytest.raises((DataError, TypeCheckError)) as caught:
        Dataset("odd", inputs, np.array(labels, dtype=np.int64), classes)
    if isinstance(caught.value, DataError):  # where shapes are checked, the annotation may speak first
        assert re.search(f"odd.*{match}", str(caught.value))


@pytest.mark.parametrize(
    ("images", "labels", "match"),
    [
        (np.zeros((2, 28, 27), np.uint8), np.zeros(2, np.uint8), r"images holds uint8 \[2, 28, 27\], not 28x28"),
        (np.zeros((2, 784), np.uint8), np.zeros(2, np.uint8), "images .* not 28x28"),
        (np.zeros((2, 28, 28), np.int32), np.zeros(2, np.uint8), "images holds int32"),
        (np.zeros((2, 28, 28), np.uint8), np.array([0, 10], np.uint8), r"labels holds the label 10"),
        (np.zeros((2, 28, 28), np.uint8), np.zeros((2, 1), np.uint8), "labels .* not a row"),
        (np.zeros((2, 28, 28), np.uint8), np.zeros(2, np.int32), "labels holds int32"),
        (np.zeros((2, 28, 28), np.uint8), np.zeros(3, np.uint8), "images holds 2 images and .*labels 3 labels"),
    ],
)
def test_mnist_files_that_are_something_else(
    tmp_path: Path, images: np.ndarray, labels: np.ndarray, match: str
) -> None:
    (tmp_path / "images").write_bytes(idx_bytes(images))
    (tmp_path / "labels").write_bytes(idx_bytes(labels))
    with pytest.raises(DataError, match=match):
        read_mnist(tmp_path / "images", tmp_path / "labels")
