"""Random labels: the test that a bound must pass to say anything about generalisation (Zhang et al., 2017)."""

import numpy as np
from jaxtyping import Int64

from pacdp.data.dataset import Dataset
from pacdp.data.errors import DataError
from pacdp.data.streams import LABEL_SUBSET, LABEL_VALUES, permutation, words


def random_labels(
    labels: Int64[np.ndarray, " n"], *, fraction: float, classes: int, seed: int
) -> Int64[np.ndarray, " n"]:
    """Labels of which a fixed part was drawn anew, uniformly over all classes.

    A drawn label may equal the true one, so about `fraction * (1 - 1/classes)` of the labels change. Subset
    and draws depend on `seed`, `n` and `classes` alone: a larger fraction with the same seed draws for a
    superset of the examples and gives the common ones the same labels.

    Args:
        labels: int64 [n], each in 0 .. classes - 1.
        fraction: in [0, 1]; `round(fraction * n)` examples are drawn for.
        classes: how many classes there are, at least 2.
        seed: a non-negative integer.

    Returns:
        A new int64 array [n]; equal to `labels` for fraction 0.

    Raises:
        DataError: fraction outside [0, 1], too few classes, labels out of range, a bad seed.
    """
    if not 0.0 <= fraction <= 1.0:
        raise DataError(f"fraction must lie in [0, 1], got {fraction}.")
    if classes < 2:
        raise DataError(f"classes must be at least 2, got {classes}.")
    if labels.size and not (labels.min() >= 0 and labels.max() < classes):
        raise DataError(f"labels must lie in 0 .. {classes - 1}; pass the right number of classes.")
    n = len(labels)
    chosen = permutation(n, seed=seed, stream=LABEL_SUBSET)[: round(fraction * n)]
    # 64-bit words modulo the classes: uniform to within classes / 2**64
    drawn = (words(n, seed=seed, stream=LABEL_VALUES) % np.uint64(classes)).astype(np.int64)
    mixed = labels.astype(np.int64, copy=True)
    mixed[chosen] = drawn[chosen]
    return mixed


def randomise(dataset: Dataset, *, fraction: float, seed: int) -> Dataset:
    """The same inputs under `random_labels`; the name says so, as in "mnist2+random1.0@7".

    Raises:
        DataError: as `random_labels`.
    """
    labels = random_labels(dataset.labels, fraction=fraction, classes=dataset.classes, seed=seed)
    return dataset.renamed(f"{dataset.name}+random{float(fraction)}@{seed}", labels=labels)
