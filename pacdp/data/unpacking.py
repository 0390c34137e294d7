"""How much may come out of a packed file: what follows guards readers against small files that hold far too much."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pacdp.data.errors import DataError

# deflate may expand a thousandfold, which nothing that anyone has measured does
_MOST_EXPANSION, _ALWAYS_ALLOWED = 64, 64 * 2**20


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
