"""NumPy's own files, .npy and .npz: nothing is unpickled, and no more memory is used than the file's size allows."""

import os
import zipfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import BinaryIO, TypeVar

import numpy as np

from pacdp.data.errors import DataError

# deflate may expand a thousandfold, which no array that anyone has measured does
_MOST_EXPANSION, _ALWAYS_ALLOWED = 64, 64 * 2**20

Read = TypeVar("Read")


def read_npz(path: str | os.PathLike[str], *, ignore: Collection[str] = ()) -> dict[str, np.ndarray]:
    """The arrays of a .npz file by name, without those to ``ignore``.

    Raises:
        DataError: the file cannot be read, is none of plain arrays, is damaged, or would expand more than 64-fold.
    """
    return _read(Path(path), "npz file of plain arrays", lambda raw: _unpacked(raw, ignore))


def read_npy(path: str | os.PathLike[str]) -> np.ndarray:
    """The array of a .npy file.

    Raises:
        DataError: the file cannot be read, is none of a plain array, or is damaged.
    """
    return _read(Path(path), "npy file of a plain array", lambda raw: np.lib.format.read_array(raw, allow_pickle=False))


def _read(path: Path, kind: str, read: Callable[[BinaryIO], Read]) -> Read:
    try:
        with path.open("rb") as raw:  # NumPy leaves a file that it opened itself open when it is none of its own
            return read(raw)
    except DataError:
        raise
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError(f"{path} cannot be read ({reason}); check the path and its permissions.") from None
    except Exception:  # zipfile and NumPy raise whatever the bytes of a damaged file lead them to
        raise DataError(f"{path} is no {kind}, or a damaged one; replace it.") from None


def _unpacked(raw: BinaryIO, ignore: Collection[str]) -> dict[str, np.ndarray]:
    allowed = max(_ALWAYS_ALLOWED, _MOST_EXPANSION * raw.seek(0, os.SEEK_END))
    with zipfile.ZipFile(raw) as archive:  # which reads no more of a member than its entry declares
        if sum(member.file_size for member in archive.infolist()) > allowed:
            raise DataError(f"{raw.name} would unpack to more than {allowed} bytes; write it by numpy.savez.")
    raw.seek(0)
    with np.load(raw, allow_pickle=False) as file:
        found = {name: file[name] for name in file.files if name not in ignore}
    if not all(isinstance(array, np.ndarray) for array in found.values()):  # a member of another kind is its bytes
        raise TypeError
    return found
