"""CIFAR-10 (Krizhevsky 2009) from its binary form, raw bytes that nothing needs to unpickle.

A record is a label byte and 3,072 pixel bytes: the red, green and blue planes of 32x32, row by row. Six files
data_batch_1.bin .. data_batch_5.bin, test_batch.bin hold 10,000 records each, in the folder cifar-10-batches-bin or
in the archive cifar-10-binary.tar.gz, from which they are read without being extracted.
"""

import gzip
import os
import tarfile
import zlib
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from jaxtyping import Int64, UInt8

from pacdp.data.dataset import Dataset
from pacdp.data.errors import DataError
from pacdp.data.progress import Progress
from pacdp.data.registry import REGISTRY, DatasetEntry, FileEntry, Where, find, locate

ARCHIVE = "cifar-10-binary.tar.gz"
FOLDER = "cifar-10-batches-bin"

_TRAIN = tuple(f"data_batch_{k}.bin" for k in range(1, 6))
_TEST = ("test_batch.bin",)
_RECORD = 1 + 3 * 32 * 32
_MOST = 10_000 * _RECORD  # bytes in a file
_MOST_UNPACKED = 7 * _MOST  # bytes in the archive, with a file's worth of room for headers
_PICKLED = ("cifar-10-python.tar.gz", "cifar-10-batches-py")


# Alex Krizhevsky, Vinod Nair, Geoffrey Hinton; the archive's md5 is the published c32a1d4ab5d03f1284b67883e8d87530
REGISTRY["cifar10"] = DatasetEntry(
    files=MappingProxyType(
        {
            "cifar-10-binary.tar.gz": FileEntry(
                size=170_052_171,
                sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            )
        }
    ),
    mirrors=("https://www.cs.toronto.edu/~kriz/", "https://cave.cs.toronto.edu/kriz/"),
)
REGISTRY[f"cifar10/{FOLDER}"] = DatasetEntry(
    files=MappingProxyType(
        {
            f"{name}.bin": FileEntry(size=30_730_000, sha256=sha256)
            for name, sha256 in {
                "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
                "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
                "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
                "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
                "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
                "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
            }.items()
        }
    ),
    source="it is a member of cifar-10-binary.tar.gz (https://www.cs.toronto.edu/~kriz/cifar.html)",
)


class Pictures(NamedTuple):
    """Pixels and labels as their files hold them."""

    pixels: UInt8[np.ndarray, "n 3 32 32"]
    labels: Int64[np.ndarray, " n"]


def load_cifar10(name: str, where: Where) -> tuple[Dataset, Dataset]:
    """Inputs [n, 3, 32, 32], 50,000 for training and 10,000 for tests.

    Raises:
        DataError: see `locate_cifar10` and `read_cifar10`.
    """
    path = locate_cifar10(root=where.root, download=where.download, progressbar=where.progressbar)
    train, test = (
        Dataset.of_pixels(name, pixels, labels, 10) for pixels, labels in read_cifar10(path)
    )
    return train, test


def locate_cifar10(
    *,
    root: str | os.PathLike[str] | None = None,
    download: bool = True,
    progressbar: bool | Progress = False,
) -> Path:
    """The path of the folder or else of the archive, every byte verified; the archive may be downloaded (162 MiB).

    They are looked for where `pacdp.data.locate` looks, in its folder cifar10.

    Raises:
        DataError: as `locate`, or only the pickled form is there, which is not read because unpickling runs code.
    """
    unpacked = f"cifar10/{FOLDER}"
    if any(find(name, unpacked, root=root) for name in (*_TRAIN, *_TEST)):
        folders = {
            locate(name, unpacked, root=root, download=False).parent for name in (*_TRAIN, *_TEST)
        }
        if len(folders) > 1:
            places = " and ".join(sorted(str(folder) for folder in folders))
            raise DataError(f"the files of {FOLDER} are spread over {places}; put them into one.")
        return folders.pop()
    pickled = next((path for name in _PICKLED if (path := find(name, "cifar10", root=root))), None)
    if pickled is not None and find(ARCHIVE, "cifar10", root=root) is None:
        raise DataError(
            f"{pickled} is CIFAR-10 as Python pickles, which are never read because unpickling runs code; put "
            f"{ARCHIVE} there instead, or move it away so that {ARCHIVE} is downloaded."
        )
    return locate(ARCHIVE, "cifar10", root=root, download=download, progressbar=progressbar)


def read_cifar10(path: str | os.PathLike[str]) -> tuple[Pictures, Pictures]:
    """Train and test set: pixels uint8 [n, 3, 32, 32] and labels int64 [n].

    Args:
        path: the folder cifar-10-batches-bin or the archive cifar-10-binary.tar.gz, under any name.

    Raises:
        DataError: a file is missing, cut short, longer than 10,000 records or holds a label above 9, or the archive
            is damaged.
    """
    path = Path(path)
    contents = _from_folder(path) if path.is_dir() else _from_archive(path)
    missing = [name for name in (*_TRAIN, *_TEST) if name not in contents]
    if missing:
        raise DataError(f"{path} lacks {', '.join(missing)}; replace it by the whole {ARCHIVE}.")
    train, test = (
        _records(path, {name: contents.pop(name) for name in names}) for names in (_TRAIN, _TEST)
    )
    return train, test


def _from_folder(folder: Path) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    for name in (*_TRAIN, *_TEST):
        try:
            with (folder / name).open("rb") as file:
                contents[name] = file.read(_MOST + 1)
        except FileNotFoundError:
            continue
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise DataError(
                f"{folder / name} cannot be read ({reason}); check its permissions."
            ) from None
    return contents


def _from_archive(path: Path) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    try:
        with gzip.open(path) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
            for member in archive:
                _require_short(path, stream)
                if member.size > _MOST:
                    raise DataError(
                        f"{path} is not CIFAR-10: {member.name!r} has {member.size} bytes; replace it."
                    )
                folder, _, name = member.name.rpartition("/")
                wanted = member.isreg() and folder == FOLDER and name in (*_TRAIN, *_TEST)
                if wanted and (file := archive.extractfile(member)) is not None:
                    contents[name] = file.read()
            while stream.read(1 << 20):  # gzip compares its checksum at the end
                _require_short(path, stream)
    except (tarfile.TarError, zlib.error, EOFError, MemoryError):
        raise DataError(
            f"{path} is no gzipped tar archive, or a damaged one; fetch {ARCHIVE} again."
        ) from None
    except OSError as error:  # gzip's own complaints have no strerror
        reason = error.strerror or "damaged"
        raise DataError(f"{path} cannot be read ({reason}); fetch {ARCHIVE} again.") from None
    return contents


def _require_short(path: Path, stream: gzip.GzipFile) -> None:
    if stream.tell() > _MOST_UNPACKED:
        raise DataError(
            f"{path} is not CIFAR-10: it unpacks to more than {_MOST_UNPACKED} bytes; replace it."
        )


def _records(path: Path, contents: dict[str, bytes]) -> Pictures:
    for name, content in contents.items():
        if not content or len(content) % _RECORD or len(content) > _MOST:
            raise DataError(
                f"{name} in {path} has {len(content)} bytes, not 1 to 10,000 records of {_RECORD}; replace it."
            )
    records = np.frombuffer(b"".join(contents.values()), dtype=np.uint8).reshape(-1, _RECORD)
    labels = records[:, 0].astype(np.int64)
    if labels.max() > 9:
        raise DataError(
            f"{path} holds the label {labels.max()}, which is not in 0 .. 9; replace it."
        )
    return Pictures(np.ascontiguousarray(records[:, 1:]).reshape(-1, 3, 32, 32), labels)
