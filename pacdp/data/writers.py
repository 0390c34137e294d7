"""Who wrote each MNIST digit, from the label files of QMNIST (Yadav and Bottou, NeurIPS 2019).

QMNIST found MNIST's digits again in NIST's special database 19. Its label files are IDX tables of int32, eight
columns: class, NIST's HSF series, writer, number within the writer, NIST's class code, number in the database,
and two that are not used here. The training file has MNIST's 60,000 rows; the first 10,000 of the test file's
60,000 rows are MNIST's test set. Both are in MNIST's order, which the class column proves row by row.
"""

import os
from types import MappingProxyType

import numpy as np
from jaxtyping import Int64

from pacdp.data.dataset import Dataset
from pacdp.data.errors import DataError
from pacdp.data.idx import read_idx
from pacdp.data.mnist import load_mnist
from pacdp.data.registry import REGISTRY, DatasetEntry, FileEntry, Where

REGISTRY["mnist_writers"] = DatasetEntry(
    files=MappingProxyType(
        {
            "qmnist-train-labels-idx2-int.gz": FileEntry(
                size=463_024,
                sha256="2c05dc77f6b916b38e455e97ab129a42a444f3dbef09b278a366f82904e0dd9f",
            ),
            "qmnist-test-labels-idx2-int.gz": FileEntry(
                size=526_800,
                sha256="9fbcbe594c3766fdf4f0b15c5165dc0d1e57ac604e01422608bb72c906030d06",
            ),
        }
    ),
    mirrors=(
        "https://raw.githubusercontent.com/facebookresearch/qmnist/master/",
        "https://github.com/facebookresearch/qmnist/raw/master/",
    ),
)

_CLASS, _WRITER, _COLUMNS = 0, 2, 8


def load_writers(name: str, where: Where) -> tuple[Dataset, Dataset]:
    """MNIST and its writers.

    Raises:
        DataError: a file is missing, damaged or not what it should be.
    """
    paths = [
        where.locate(f"qmnist-{part}-labels-idx2-int.gz", "mnist_writers")
        for part in ("train", "test")
    ]
    train, test = (
        part.renamed(name, people=read_writers(path, part.labels), unit="writer")
        for path, part in zip(paths, load_mnist("mnist", where), strict=True)
    )
    return train, test


def read_writers(
    path: str | os.PathLike[str], digits: Int64[np.ndarray, " n"]
) -> Int64[np.ndarray, " n"]:
    """The writers of `digits`, MNIST's labels in MNIST's order, from one of QMNIST's label files.

    Args:
        path: an IDX file of int32 with eight columns, plain or gzipped, of at least n rows.
        digits: int64 [n].

    Returns:
        int64 [n], NIST's numbers of the writers.

    Raises:
        DataError: the file is damaged, of another form or too short, its first n classes are not `digits`, or a
            writer's number is negative.
    """
    table = read_idx(path)
    if table.dtype != np.int32 or table.ndim != 2 or table.shape[1] != _COLUMNS:
        raise DataError(
            f"{path} holds {table.dtype} {list(table.shape)}, not {_COLUMNS} columns of int32; replace it."
        )
    if len(table) < len(digits):
        raise DataError(
            f"{path} describes {len(table)} digits where there are {len(digits)}; replace it."
        )
    table = table[: len(digits)]
    wrong = np.flatnonzero(table[:, _CLASS] != digits)
    if len(wrong):
        row = int(wrong[0])
        raise DataError(
            f"{path} gives row {row} the class {table[row, _CLASS]} where MNIST's label is {digits[row]} (and "
            f"{len(wrong) - 1} more differ); replace it."
        )
    writers = table[:, _WRITER].astype(np.int64)
    if writers.size and writers.min() < 0:
        raise DataError(f"{path} holds the writer {writers.min()}, which is negative; replace it.")
    return writers
