"""How much may come out of a packed file: readers are guarded against small files that hold far too much.

Of NumPy's own files, .npy and .npz, nothing is unpickled, and no more memory is used than the file's size allows.
"""

import os
import zipfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from pacdp.data.errors import DataError

# deflate may expand a thousandfold, which nothing that anyone has measured does
_MOST_EXPANSION, _ALWAYS_ALLOWED = 64, 64 * 2**20
_ADVICE = "write it by numpy.savez"
Read = TypeVar("Read")


def room(path: Path) -> int:
    """How many bytes may come out of a file: 64 times its size, or 64 MiB."""
    return max(_ALWAYS_ALLOWED, _MOST_EXPANSION * path.stat().st_size)


def require_room(path: Path, unpacked: int, advice: str) -> None:
    """Refuse a file that holds more than 64 times its size, and more than 64 MiB.

    Args:
        unpacked: how many bytes it says that it holds; of a table's columns, how many cells.
        advice: how else the file may be given.

    Raises:
        DataError: it holds more.
    """
    allowed = room(path)
    if unpacked > allowed:
        raise DataError(
            f"{path} would unpack to {unpacked} bytes, more than the {allowed} of its size: {advice}"
        )


def require_once(path: Path, names: Sequence[str], advice: str) -> None:
    """Refuse a file in which a name stands twice, of which readers would drop one in silence.

    Raises:
        DataError: one does.
    """
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"{path} holds {twice!r} twice: {advice}")


def members(path: Path, archive: Any, advice: str) -> list[str]:
    """The names in a zip, none of them twice, which together hold no more than :func:`require_room` allows.

    Args:
        archive: a ``ZipFile`` of Python's or of its backport, which read no more of a member than its entry declares.

    Raises:
        DataError: a name stands twice, or they hold more.
    """
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    require_once(path, names, advice)
    require_room(path, sum(entry.file_size for entry in entries), advice)
    return names


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
