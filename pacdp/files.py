"""Files that are there whole or not at all, and the list of those that pacdp wrote into a folder.

A folder that pacdp began holds ``.pacdp``: the names of the files that were written there by :func:`replacing`, a line
each, entered before the file takes its place. What is not in it is somebody else's: nothing here replaces it, and
:func:`remove_own` leaves it alone.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO

import psutil

LIST = ".pacdp"


@contextmanager
def replacing(path: Path | str) -> Iterator[BinaryIO]:
    """A file to be written in the place of ``path``, which holds what it held until the block ends without an error.

    What killed processes left of earlier tries is removed.

    Raises:
        ValueError: the folder has a list of what pacdp wrote, and the file that is at ``path`` is not in it.
        OSError: the disk is full, or the folder cannot be written; ``path`` is as it was.
    """
    path = Path(path)
    known = written(path.parent)
    if known is not None and path.name not in known and os.path.lexists(path):
        raise ValueError(f"{path} was not written by pacdp: move it away, or choose another place")
    remove_partial(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if known is not None and path.name not in known:
            _enter(path.parent, [path.name])
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def keep_beside(path: Path) -> Path:
    """Give the file a second name, which it keeps when another file takes its place.

    The name is the first of ``NAME.1``, ``NAME.2``, ... that is free. The list of the folder, if there is one, gets it.

    Raises:
        ValueError: the disk gives a file no second name.
    """
    for number in count(1):
        kept = path.with_name(f"{path.name}.{number}")
        try:
            os.link(path, kept)
        except FileExistsError:
            continue
        except OSError as error:
            raise ValueError(
                f"{path} cannot be kept as {kept.name} ({error.strerror}): move it away, or choose another place"
            ) from error
        if written(path.parent) is not None:
            _enter(path.parent, [kept.name])
        return kept
    raise AssertionError("there is always another number")


def remove_partial(path: Path) -> None:
    """Remove what processes that are no more left of ``path``, a file or a folder."""
    start, end = f".{path.name}.", ".partial"
    for name in _names(path.parent):
        if name.startswith(start) and name.endswith(end):
            number, left = name[len(start) : -len(end)], path.parent / name
            if not number.isdecimal() or int(number) == os.getpid() or psutil.pid_exists(int(number)):
                continue
            with suppress(OSError):
                if left.is_dir() and not left.is_symlink():
                    shutil.rmtree(left)
                else:
                    left.unlink(missing_ok=True)


def begin(folder: Path, *, own: Iterable[str] = ()) -> None:
    """Keep a list of what is written in ``folder`` from here on; ``own`` are files that an earlier version wrote there.

    Raises:
        OSError: the folder cannot be written.
    """
    if written(folder) is None:
        _enter(folder, [name for name in own if os.path.lexists(folder / name)])


def written(folder: Path) -> frozenset[str] | None:
    """The names of the files that pacdp wrote into the folder, or None where nothing says so.

    Raises:
        ValueError: there is a list, and it cannot be read.
    """
    try:
        text = (folder / LIST).read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ValueError(f"{folder / LIST} cannot be read ({error.strerror}): restore it, or remove it") from error
    return frozenset(text.split("\n"))


def remove_own(folder: Path, *, names: Iterable[str]) -> None:
    """Remove those of the files that pacdp wrote into the folder, and what :func:`keep_beside` kept of them.

    Raises:
        OSError: one cannot be removed.
    """
    names = frozenset(names)
    for name in written(folder) or ():
        stem, _, number = name.rpartition(".")
        if name in names or (stem in names and number.isdecimal()):
            (folder / name).unlink(missing_ok=True)


def _enter(folder: Path, names: Iterable[str]) -> None:
    with (folder / LIST).open("ab") as file:
        file.write("".join(f"\n{name}\n" for name in names).encode())
        file.flush()
        os.fsync(file.fileno())


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
