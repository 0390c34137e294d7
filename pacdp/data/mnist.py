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
from types import MappingProxyType

import numpy as np

from pacdp.data.dataset import Dataset
from pacdp.data.digits import digits_of_pixels
from pacdp.data.registry import REGISTRY, DatasetEntry, FileEntry, Where

# the md5 sums that circulate belong to the same bytes
REGISTRY["mnist"] = DatasetEntry(
    files=MappingProxyType(
        {
            "train-images-idx3-ubyte.gz": FileEntry(
                size=9_912_422,
                sha256="440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            "train-labels-idx1-ubyte.gz": FileEntry(
                size=28_881,
                sha256="3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ),
            "t10k-images-idx3-ubyte.gz": FileEntry(
                size=1_648_877,
                sha256="8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            "t10k-labels-idx1-ubyte.gz": FileEntry(
                size=4_542,
                sha256="f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        }
    ),
    mirrors=(
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "http://yann.lecun.com/exdb/mnist/",  # the origin; plain http is safe because the sha256 decides
    ),
)


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
        digits_of_pixels(
            name,
            read(f"{part}-images-idx3-ubyte.gz")[:, None],
            read(f"{part}-labels-idx1-ubyte.gz").astype(np.int64),
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
