"""NumPy's own files, .npy and .npz: nothing is unpickled, and no more memory is used than the file's size allows."""

import os
import zipfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import BinaryIO, TypeVar

import numpy as np

from pacdp.data.errors import DataError
from pacdp.data.unpacking import members, require_once

_ADVICE = "write it by numpy.savez"
Read = TypeVar("Read")


def read_npz(
    path: str | os.PathLike[str], *, ignore: Collection[str] = ()
) -> dict[str, np.ndarray]:
    """The arrays of a .npz file by name, without those to ``ignore``.

    Raises:
        DataError: the file cannot be read, is none of plain arrays, is damaged, holds an array twice, or would expand
            more than 64-fold.
    """
    path = Path(path)
    return _read(path, "npz file of plain arrays", lambda raw: _unpacked(path, raw, ignore))


def read_npy(path: str | os.PathLike[str]) -> np.ndarray:
    """The array of a .npy file.

    Raises:
        DataError: the file cannot be read, is none of a plain array, or is damaged.
    """
    return _read(
        Path(path),
        "npy file of a plain array",
        lambda raw: np.lib.format.read_array(raw, allow_pickle=False),
    )


def _read(path: Path, kind: str, read: Callable[[BinaryIO], Read]) -> Read:
    try:
        with path.open(
            "rb"
        ) as raw:  # NumPy leaves a file that it opened itself open when it is none of its own
            return read(raw)
    except DataError:
        raise
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError(
            f"{path} cannot be read ({reason}); check the path and its permissions."
        ) from None
    except Exception:  # zipfile and NumPy raise whatever the bytes of a damaged file lead them to
        raise DataError(f"{path} is no {kind}, or a damaged one; replace it.") from None


def _unpacked(path: Path, raw: BinaryIO, ignore: Collection[str]) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(raw) as archive:
        members(path, archive, _ADVICE)
    raw.seek(0)
    with np.load(raw, allow_pickle=False) as file:
        require_once(path, file.files, _ADVICE)
        if absent := sorted(set(ignore) - set(file.files)):
            raise DataError(f"{path} has no array {absent[0]!r} to ignore; correct the name.")
        found = {name: file[name] for name in file.files if name not in ignore}
    if not all(
        isinstance(array, np.ndarray) for array in found.values()
    ):  # a member of another kind is its bytes
        raise TypeError
    return found
