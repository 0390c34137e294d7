"""MNIST (LeCun, Cortes and Burges), from its four IDX files."""

import os
from types import MappingProxyType

import numpy as np
from jaxtyping import Int64, UInt8

from pacdp.data.dataset import Dataset
from pacdp.data.digits import digits_of_pixels
from pacdp.data.errors import DataError
from pacdp.data.idx import read_idx
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


def load_mnist(name: str, where: Where) -> tuple[Dataset, Dataset]:
    """Inputs [n, 1, 28, 28], 60,000 for training and 10,000 for tests.

    Raises:
        DataError: a file is missing, damaged or not what it should be.
    """
    train, test = (
        digits_of_pixels(name, pixels[:, None], digits)
        for pixels, digits in (
            read_mnist(
                *(
                    where.locate(f"{part}-{kind}-ubyte.gz", "mnist")
                    for kind in ("images-idx3", "labels-idx1")
                )
            )
            for part in ("train", "t10k")
        )
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
        raise DataError(
            f"{images} holds {pixels.dtype} {list(pixels.shape)}, not 28x28 images of bytes; replace it."
        )
    if digits.dtype != np.uint8 or digits.ndim != 1:
        raise DataError(
            f"{labels} holds {digits.dtype} {list(digits.shape)}, not a row of bytes; replace it."
        )
    if digits.size and digits.max() > 9:
        raise DataError(
            f"{labels} holds the label {digits.max()}, which is not in 0 .. 9; replace it."
        )
    if len(pixels) != len(digits):
        raise DataError(
            f"{images} holds {len(pixels)} images and {labels} {len(digits)} labels; replace the wrong one."
        )
    return pixels, digits.astype(np.int64)
