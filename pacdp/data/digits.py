"""Scikit-learn's 8x8 digits, which need no file; and digits in two classes."""

import numpy as np
from jaxtyping import Int64

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
    labels, classes = classes_of(name, np.asarray(digits, dtype=np.int64))
    rows = [splits[part].indices for part in _SIZES]
    train, test = (Dataset(name, inputs[index], labels[index], classes) for index in rows)
    return train, test


def classes_of(name: str, digits: Int64[np.ndarray, " n"]) -> tuple[Int64[np.ndarray, " n"], int]:
    """Labels and their number: ten classes, or two if the name ends in 2: 1 for the digits 0 to 4, 0 for 5 to 9."""
    return ((digits <= 4).astype(np.int64), 2) if name.endswith("2") else (digits, 10)
