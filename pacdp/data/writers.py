"""Who wrote each MNIST digit, from the label files of QMNIST (Yadav and Bottou, NeurIPS 2019).

QMNIST found MNIST's digits again in NIST's special database 19. Its label files are IDX tables of int32, eight
columns: class, NIST's HSF series, writer, number within the writer, NIST's class code, number in the database,
and two that are not used here. The training file has MNIST's 60,000 rows; the first 10,000 of the test file's
60,000 rows are MNIST's test set. Both are in MNIST's order, as their class column says row by row.
"""

from types import MappingProxyType

import numpy as np

from pacdp.data.dataset import Dataset
from pacdp.data.mnist import load_mnist, read_idx
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

_WRITER = 2


def load_writers(name: str, where: Where) -> tuple[Dataset, Dataset]:
    """MNIST and its writers, under NIST's numbers.

    Raises:
        DataError: a file is missing or not what it should be.
    """
    paths = [
        where.locate(f"qmnist-{part}-labels-idx2-int.gz", "mnist_writers")
        for part in ("train", "test")
    ]
    train, test = (
        part.renamed(name, people=read_idx(path)[: part.n, _WRITER].astype(np.int64), unit="writer")
        for path, part in zip(paths, load_mnist("mnist", where), strict=True)
    )
    return train, test
