"""Datasets by name, as arrays whose shapes and labels have been checked."""

import hashlib
import os
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float32, Int64, UInt8

from pacdp.data.download import Progress
from pacdp.data.errors import DataError
from pacdp.data.idx import read_idx
from pacdp.data.registry import locate
from pacdp.data.splits import Split, make_splits

NAMES = ("digits", "digits2", "mnist", "mnist2")
"""The small ones, which every computer with a connection can have."""

GROUPED_NAMES = ("mnist-writers", "malaria", "xrays", "xrays224")
"""The ones whose examples belong to people, for `load_grouped`; `load` takes them too and drops the people."""

ALL_NAMES = (*NAMES, "cifar10", *GROUPED_NAMES)
"""All that `load` knows."""

# inputs [n, channels, height, width] in [0, 1], digits int64 [n]
_Part = tuple[np.ndarray, np.ndarray]

# 80 to 20; the split belongs to the name "digits" and never changes
_DIGITS_SIZES = {"train": 1437, "test": 360}
_DIGITS_SEED = 0


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Labelled examples.

    Attributes:
        name: for people; it does not enter `hash`.
        inputs: float32 [n, ...], finite, read-only.
        labels: int64 [n], each in 0 .. classes - 1, read-only.
        classes: how many classes there are, at least 2.

    The arrays are read-only views, because `hash` is computed once. `torch.tensor(data.inputs)` copies them;
    `torch.from_numpy` would warn that it cannot write to them.
    """

    name: str
    inputs: Float32[np.ndarray, "n *shape"]
    labels: Int64[np.ndarray, " n"]
    classes: int
    _hash: list[str] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the arrays; raises DataError naming the dataset and what is wrong with it."""
        if self.inputs.dtype != np.float32 or self.inputs.ndim < 2:
            raise DataError(f"inputs of {self.name} must be float32 [n, ...]; convert them.")
        if self.labels.dtype != np.int64 or self.labels.ndim != 1:
            raise DataError(f"labels of {self.name} must be int64 [n]; convert them.")
        if len(self.inputs) != len(self.labels):
            raise DataError(
                f"{self.name} has {len(self.inputs)} inputs and {len(self.labels)} labels; give one label each."
            )
        if len(self.labels) == 0:
            raise DataError(f"{self.name} has no examples; give at least one.")
        if self.classes < 2 or self.labels.min() < 0 or self.labels.max() >= self.classes:
            raise DataError(
                f"labels of {self.name} must lie in 0 .. classes - 1, classes being at least 2 "
                f"(got {self.labels.min()} .. {self.labels.max()} and {self.classes} classes); correct them."
            )
        if not np.isfinite(self.inputs).all():
            raise DataError(f"inputs of {self.name} hold values that are not finite; remove them.")
        for name in ("inputs", "labels"):
            view = getattr(self, name).view()
            view.setflags(write=False)
            object.__setattr__(self, name, view)

    @property
    def n(self) -> int:
        """How many examples."""
        return len(self.labels)

    @property
    def hash(self) -> str:
        """sha256 (hex) of shapes, dtypes, inputs and labels, as little-endian bytes; not of the name."""
        if not self._hash:
            digest = hashlib.sha256()
            for array, dtype in ((self.inputs, "<f4"), (self.labels, "<i8")):
                digest.update(f"{dtype}{array.shape}".encode())
                digest.update(np.ascontiguousarray(array, dtype=dtype).data)
            self._hash.append(digest.hexdigest())
        return self._hash[0]

    def subset(self, split: Split) -> "Dataset":
        """The examples at ``split.indices``, in that order; all of them are the dataset itself."""
        if split.n == self.n:
            return self
        return Dataset(self.name, self.inputs[split.indices], self.labels[split.indices], self.classes)


def load(
    name: str,
    *,
    root: str | os.PathLike[str] | None = None,
    download: bool = True,
    progressbar: bool | Progress = False,
) -> tuple[Dataset, Dataset]:
    """The train and test set of that name, inputs scaled to [0, 1].

    - "digits": scikit-learn's 8x8 digits, inputs [n, 1, 8, 8], 1,437 train and 360 test, needs no file;
    - "mnist": inputs [n, 1, 28, 28], 60,000 train and 10,000 test, files by `pacdp.data.locate`;
    - "digits2", "mnist2": the same inputs, label 1 for the digits 0 to 4, label 0 for 5 to 9;
    - "cifar10": inputs [n, 3, 32, 32], 50,000 train and 10,000 test, by `pacdp.data.cifar10`;
    - "mnist-writers", "malaria", "xrays", "xrays224": as `load_grouped`, without the people.

    Args:
        name: one of `ALL_NAMES`.
        root: a folder laid out like the one PACDP_DATA names.
        download: whether missing files may be downloaded.
        progressbar: True for pooch's own bar (needs tqdm), or an object with its members.

    Raises:
        DataError: unknown name, or a file that is missing, damaged or not what it should be.
    """
    if name not in ALL_NAMES:
        raise DataError(f"dataset {name!r} is unknown; choose one of {', '.join(ALL_NAMES)}.")
    if name in GROUPED_NAMES:
        from pacdp.data.groups import load_grouped  # imports this module for its record

        train, test = load_grouped(name, root=root, download=download, progressbar=progressbar)
        return train.dataset, test.dataset
    if name == "cifar10":
        parts = _cifar10(root, download, progressbar)
    else:
        parts = _digits() if name.startswith("digits") else _mnist(root, download, progressbar)
    two = name.endswith("2")
    train, test = (
        Dataset(name, inputs, (digits <= 4).astype(np.int64) if two else digits, 2 if two else 10)
        for inputs, digits in parts
    )
    return train, test


def read_mnist(
    images: str | os.PathLike[str], labels: str | os.PathLike[str]
) -> tuple[UInt8[np.ndarray, "n 28 28"], Int64[np.ndarray, " n"]]:
    """A pair of IDX files in MNIST's layout: pixels uint8 [n, 28, 28] and digits int64 [n].

    Raises:
        DataError: a file is damaged, images are not 28x28 bytes, labels are not bytes in 0 .. 9, or the
            two counts differ.
    """
    pixels, digits = read_idx(images), read_idx(labels)
    if pixels.dtype != np.uint8 or pixels.shape[1:] != (28, 28):
        raise DataError(f"{images} holds {pixels.dtype} {list(pixels.shape)}, not 28x28 images of bytes; replace it.")
    if digits.dtype != np.uint8 or digits.ndim != 1:
        raise DataError(f"{labels} holds {digits.dtype} {list(digits.shape)}, not a row of bytes; replace it.")
    if digits.size and digits.max() > 9:
        raise DataError(f"{labels} holds the label {digits.max()}, which is not in 0 .. 9; replace it.")
    if len(pixels) != len(digits):
        raise DataError(
            f"{images} holds {len(pixels)} images and {labels} {len(digits)} labels; replace the wrong one."
        )
    return pixels, digits.astype(np.int64)


def _mnist(root: str | os.PathLike[str] | None, download: bool, progressbar: bool | Progress) -> list[_Part]:
    parts: list[_Part] = []
    for prefix in ("train", "t10k"):
        images, labels = (
            locate(f"{prefix}-{kind}-ubyte.gz", root=root, download=download, progressbar=progressbar)
            for kind in ("images-idx3", "labels-idx1")
        )
        pixels, digits = read_mnist(images, labels)
        parts.append((np.divide(pixels[:, None], 255, dtype=np.float32), digits))
    return parts


def _cifar10(root: str | os.PathLike[str] | None, download: bool, progressbar: bool | Progress) -> list[_Part]:
    from pacdp.data.cifar10 import locate_cifar10, read_cifar10

    path = locate_cifar10(root=root, download=download, progressbar=progressbar)
    return [(np.divide(pixels, 255, dtype=np.float32), labels) for pixels, labels in read_cifar10(path)]


def _digits() -> list[_Part]:
    from sklearn.datasets import load_digits  # costs a second to import, and only this dataset needs it

    pixels, digits = load_digits(return_X_y=True)
    inputs = (np.asarray(pixels) / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    splits = make_splits(len(inputs), sizes=_DIGITS_SIZES, seed=_DIGITS_SEED)
    rows = [splits[part].indices for part in ("train", "test")]
    return [(inputs[index], np.asarray(digits)[index].astype(np.int64)) for index in rows]
