"""Scikit-learn's 8x8 digits, which need no file; and digits in two classes."""

import numpy as np
from jaxtyping import Float32, Int64, UInt8

from pacdp.data.dataset import Dataset
from pacdp.data.registry import Where
from pacdp.data.splits import make_splits

# 80 to 20; the split belongs to the name "digits" and never changes
_SIZES = {"train": 1437, "test": 360}
_SEED = 0


def load_digits(name: str, where: Where) -> tuple[Dataset, Dataset]:
    """Inputs [n, 1, 8, 8], 1,437 for training and 360 for tests."""
    from sklearn.datasets import (
        load_digits as read,
    )  # costs a second to import, and only this dataset needs it

    del where
    pixels, digits = read(return_X_y=True)
    inputs = (np.asarray(pixels) / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    splits = make_splits(len(inputs), sizes=_SIZES, seed=_SEED)
    rows = [splits[part].indices for part in _SIZES]
    train, test = (
        digits_data(name, inputs[index], np.asarray(digits)[index].astype(np.int64))
        for index in rows
    )
    return train, test


def digits_data(
    name: str, inputs: Float32[np.ndarray, "n *shape"], digits: Int64[np.ndarray, " n"]
) -> Dataset:
    """Ten classes, or two if the name ends in 2: label 1 for the digits 0 to 4, label 0 for 5 to 9."""
    return Dataset(name, inputs, *_classes(name, digits))


def digits_of_pixels(
    name: str, pixels: UInt8[np.ndarray, "n *shape"], digits: Int64[np.ndarray, " n"]
) -> Dataset:
    """The same of images in bytes."""
    return Dataset.of_pixels(name, pixels, *_classes(name, digits))


def _classes(name: str, digits: Int64[np.ndarray, " n"]) -> tuple[Int64[np.ndarray, " n"], int]:
    return ((digits <= 4).astype(np.int64), 2) if name.endswith("2") else (digits, 10)
