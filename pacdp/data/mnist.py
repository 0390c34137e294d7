"""MNIST (LeCun, Cortes and Burges), from its four IDX files; and who wrote each digit.

That is in the label files of QMNIST (Yadav and Bottou, NeurIPS 2019). QMNIST found MNIST's digits again in NIST's
special database 19. Its label files are IDX tables of int32, eight columns: class, NIST's HSF series, writer, number
within the writer, NIST's class code, number in the database, and two that are not used here. The training file has
MNIST's 60,000 rows; the first 10,000 of the test file's 60,000 rows are MNIST's test set. Both are in MNIST's order, as
their class column says row by row.
"""

import gzip
import struct
from pathlib import Path

import numpy as np

from pacdp.data.dataset import Dataset
from pacdp.data.digits import classes_of
from pacdp.data.registry import Where

_TYPES = {0x08: "u1", 0x0C: ">i4"}
_WRITER = 2


def load_mnist(name: str, where: Where) -> tuple[Dataset, Dataset]:
    """Inputs [n, 1, 28, 28], 60,000 for training and 10,000 for tests.

    Raises:
        DataError: a file is missing or not what it should be.
    """

    def read(file_name: str) -> np.ndarray:
        return read_idx(where.locate(file_name, "mnist"))

    train, test = (
        Dataset.of_pixels(
            name,
            read(f"{part}-images-idx3-ubyte.gz")[:, None],
            *classes_of(name, read(f"{part}-labels-idx1-ubyte.gz").astype(np.int64)),
        )
        for part in ("train", "t10k")
    )
    return train, test


def read_idx(path: Path) -> np.ndarray:
    """The array of a gzipped IDX file of registered bytes, in native byte order.

    00 00 | type code | number of dimensions d | d sizes, uint32 big-endian | elements, big-endian
    """
    content = gzip.decompress(path.read_bytes())
    dtype, start = np.dtype(_TYPES[content[2]]), 4 + 4 * content[3]
    shape = struct.unpack(f">{content[3]}I", content[4:start])
    found = np.frombuffer(content, dtype, offset=start).reshape(shape)
    return found.astype(dtype.newbyteorder("="))


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
