"""CIFAR-10 (Krizhevsky 2009) from its binary form, raw bytes that nothing needs to unpickle.

A record is a label byte and 3,072 pixel bytes: the red, green and blue planes of 32x32, row by row. Six files
data_batch_1.bin .. data_batch_5.bin, test_batch.bin hold 10,000 records each, in the archive cifar-10-binary.tar.gz,
from which they are read without being extracted.
"""

import tarfile

import numpy as np

from pacdp.data.dataset import Dataset
from pacdp.data.registry import Where

ARCHIVE = "cifar-10-binary.tar.gz"
FOLDER = "cifar-10-batches-bin"

_TRAIN = tuple(f"data_batch_{k}.bin" for k in range(1, 6))
_TEST = ("test_batch.bin",)
_RECORD = 1 + 3 * 32 * 32


def load_cifar10(name: str, where: Where) -> tuple[Dataset, Dataset]:
    """Inputs [n, 3, 32, 32], 50,000 for training and 10,000 for tests.

    Raises:
        DataError: the archive is missing or not what it should be.
    """
    with tarfile.open(where.locate(ARCHIVE, "cifar10")) as archive:
        content = {one.name: file.read() for one in archive if (file := archive.extractfile(one))}

    def of(names: tuple[str, ...]) -> Dataset:
        joined = b"".join(content[f"{FOLDER}/{one}"] for one in names)
        records = np.frombuffer(joined, np.uint8).reshape(-1, _RECORD)
        pixels = np.ascontiguousarray(records[:, 1:]).reshape(-1, 3, 32, 32)
        return Dataset.of_pixels(name, pixels, records[:, 0].astype(np.int64), 10)

    return of(_TRAIN), of(_TEST)
