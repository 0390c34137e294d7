"""Files that are there whole or not at all, locks, and the list of what pacdp wrote into a folder.

A folder that pacdp began holds ``.pacdp``: the names of the files that were written there by :func:`replacing`, a line
each, entered before the file takes its place. What is not in it is somebody else's: nothing here replaces it, and
:func:`remove_own` leaves it alone.
"""

import errno
import os
import shutil
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO

import psutil
from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

LIST = ".pacdp"
ASIDE = ".replaced"
"""The folder, in a folder, of what :func:`remove_own` put aside."""
MOVING = ".replacing"
"""The same, on its way there or back."""
_SPARE = 2**16
_NO_FLOCK = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)
_told: set[int] = set()
"""Disks of which it was said that they have no flock."""


class Held(TimeoutError):
    """Another process holds a lock."""


@contextmanager
def locked(path: Path, *, timeout: float = 0.0) -> Iterator[None]:
    """Keep other processes out, by a lock on the file ``path``, which stays there; wait ``timeout`` seconds for it.

    The operating system lets go when this process dies, however it dies. A disk without flock, such as Lustre mounted
    without it, has a second file in place of the lock, ``path.held``. It names process and machine, and is taken over
    from a process of the same machine that is no more; a warning says so, once for each disk.

    Raises:
        Held: another process holds the lock.
        OSError: the file cannot be written.
    """
    lock: BaseFileLock = FileLock(path, timeout=timeout)
    ending = "wait for it"
    if not _has_flock(path):
        disk = path.parent.stat().st_dev
        if disk not in _told:
            _told.add(disk)
            warnings.warn(
                f"the disk of {path.parent} has no flock: files named *.held keep processes apart, which one that is "
                "killed on another machine leaves behind, and a machine that mounts the disk with flock does not see",
                stacklevel=3,
            )
        lock = SoftFileLock(f"{path}.held", timeout=timeout)
        ending += f", or remove {lock.lock_file} if the process that it names is no more"
    try:
        try:
            lock.acquire()
        except Timeout as error:
            raise Held(ending) from error
        yield
    finally:
        try:
            lock.release()
        finally:  # Ctrl-C may have come before it did anything
            lock.release(force=True)


def _has_flock(path: Path) -> bool:
    """Whether the disk of the file knows flock, which other systems than those of POSIX do without."""
    if sys.platform == "win32":
        return True
    import fcntl

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # keeps nobody else from the lock
    except OSError as error:
        if error.errno not in _NO_FLOCK:
            raise
        return False
    finally:
        os.close(descriptor)
    return True


def require_own(path: Path) -> None:
    """Refuse to replace a file that the folder's list of what pacdp wrote, where there is one, does not name.

    Raises:
        ValueError: as said.
    """
    known = written(path.parent)
    if known is not None and path.name not in known and os.path.lexists(path):
        raise ValueError(f"{path} was not written by pacdp: move it away, or choose another place")


def path_of(*, made: bool = False, **given: object) -> Path:
    """The path that was given under this name; ``made`` is that of a folder, which is made if it is not there.

    Raises:
        ValueError: something else, such as an open file; a file is where the folder is to be, or it cannot be made.
    """
    ((name, value),) = given.items()
    if not isinstance(value, str | os.PathLike):
        raise ValueError(
            f"{name} must be a path, got {type(value).__name__}: give the name of a file or folder on a disk"
        )
    path = Path(value)
    try:
        if made:
            path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = (
            "is a file, or a link to nothing"
            if isinstance(error, FileExistsError)
            else f"cannot be made ({error.strerror})"
        )
        raise ValueError(f"{name} must be a folder, and {path} {why}: give another") from error
    return path


def one_of_its_chains(folder: Path) -> str:
    """What to do with a folder of several chains, each a run of its own, where one run is wanted; empty for others."""
    chains = sorted(folder.glob("chain-*"))
    return f"give one of its chains, such as {chains[0]}" if chains else ""


@contextmanager
def replacing(path: Path | str) -> Iterator[BinaryIO]:
    """A file to be written in the place of ``path``, which holds what it held until the block ends without an error.

    What killed processes left of earlier tries is removed.

    Raises:
        ValueError: the folder has a list of what pacdp wrote, and the file that is at ``path`` is not in it.
        OSError: the disk is full, or the folder cannot be written; ``path`` is as it was.
    """
    path = Path(path)
    path.parent.stat()  # of a folder that is not there, this names the folder
    require_own(path)
    temporary = remove_partial(path)
    try:
        has_room = temporary.exists()
        with temporary.open("r+b" if has_room else "wb") as file:
            yield file
            if has_room:
                file.truncate()
            file.flush()
            os.fsync(file.fileno())
        _enter(path.parent, path.name)
        temporary.replace(path)
    except BaseException as error:
        if isinstance(error, OSError) and error.errno:
            # a full disk names no file, a closed folder the temporary one
            error.filename = os.fspath(path)
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def write_whole(path: Path | str, content: bytes) -> None:
    """Write a file so that ``path`` holds the old one or the whole new one.

    Raises:
        ValueError, OSError: see :func:`replacing`.
    """
    with replacing(path) as file:
        file.write(content)


class Room:
    """Bytes of a disk on which :func:`replacing` of a path writes next: a full disk is met before what is to be written
    is paid for. What was not written upon is given back at the end of the block.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._size = path, 0
        self._held: Path | None = None

    def take(self, size: int) -> None:
        """Take up so many bytes, and a few for what else is written before, which :meth:`spare` gives back.

        Raises:
            OSError: there is no room, or the folder cannot be written.
        """
        self._held, self._size = remove_partial(self._path), size
        with self._held.open("wb") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size + _SPARE)
            else:
                file.write(bytes(size + _SPARE))

    def spare(self) -> None:
        """Give back what was taken up for other files."""
        with suppress(OSError):  # somebody has removed it
            if self._held is not None:
                os.truncate(self._held, self._size)

    def __enter__(self) -> "Room":
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            if self._held is not None:
                self._held.unlink(missing_ok=True)


def add_line(path: Path, line: bytes) -> None:
    """Add a line to a file that is there: one write, and on the disk before this returns.

    Raises:
        OSError: it cannot be written, or was cut short.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        if os.write(descriptor, line) != len(line):
            raise OSError(f"a line of {path} was cut short: free space on the disk, and go on")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def on_disk(path: Path) -> None:
    """Wait until a file, or the names of the files in a folder, are on the disk, where the system can."""
    if os.name == "posix":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def keep_beside(path: Path) -> Path:
    """Give the file a second name, which it keeps when another file takes its place.

    The name is the first of ``NAME.1``, ``NAME.2``, ... that is free, or that the file has already from an earlier try.
    The list of the folder, if there is one, gets it.

    Raises:
        ValueError: the disk gives a file no second name.
    """
    for number in count(1):
        kept = path.with_name(f"{path.name}.{number}")
        try:
            os.link(path, kept)
        except FileExistsError:
            if not os.path.samestat(path.lstat(), kept.lstat()):
                continue
        except OSError as error:
            raise ValueError(
                f"{path} cannot be kept as {kept.name} ({error.strerror}): move it away, or choose another place"
            ) from error
        _enter(path.parent, kept.name)
        return kept
    raise AssertionError("there is always another number")


def write_keeping(path: Path, content: bytes) -> Path | None:
    """Write a file; another that stands there, in a folder without a list, is kept as :func:`keep_beside` says.

    Returns where that is kept, if there was one.

    Raises:
        ValueError: see :func:`replacing` and :func:`keep_beside`.
        OSError: it cannot be written; ``path`` is as it was.
    """
    another = path.exists() and path.read_bytes() != content
    kept = keep_beside(path) if another and written(path.parent) is None else None
    write_whole(path, content)
    return kept


def remove_partial(path: Path) -> Path:
    """Remove what processes that are no more left of ``path``, a file or a folder; where this one writes what is to
    take its place.
    """
    start, end = f".{path.name}.", ".partial"
    own = path.with_name(f"{start}{os.getpid()}{end}")
    try:
        names = os.listdir(path.parent)
    except OSError:
        return own
    for name in names:
        if name.startswith(start) and name.endswith(end):
            number, left = name[len(start) : -len(end)], path.parent / name
            if (
                not number.isdecimal()
                or int(number) == os.getpid()
                or psutil.pid_exists(int(number))
            ):
                continue
            with suppress(OSError):
                if left.is_dir() and not left.is_symlink():
                    shutil.rmtree(left)
                else:
                    left.unlink(missing_ok=True)
    return own


def begin(folder: Path) -> None:
    """Keep a list of what is written in ``folder`` from here on.

    Raises:
        OSError: the folder cannot be written.
    """
    if written(folder) is None:
        (folder / LIST).touch()
        on_disk(folder / LIST)


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
        raise ValueError(
            f"{folder / LIST} cannot be read ({error.strerror}): restore it, or remove it"
        ) from error
    return frozenset(text.split("\n"))


def remove_own(folder: Path, *, names: Iterable[str], aside: bool = False) -> None:
    """Remove those of the files that pacdp wrote into the folder, and what :func:`keep_beside` kept of them.

    Args:
        folder: where they are.
        names: of the files.
        aside: whether they are kept aside until :func:`put_back` or :func:`let_go`, where nothing is aside already,
            whose successor they are and came to nothing.

    Raises:
        OSError: one cannot be removed or moved; :func:`put_back` mends that, also where the process was killed.
    """
    names, moving = frozenset(names), folder / MOVING
    aside = aside and not (folder / ASIDE).is_dir()
    if aside:
        _enter(folder, ASIDE, MOVING)  # what is not in the list is somebody else's
        moving.mkdir(exist_ok=True)
    for name in written(folder) or ():
        stem, _, number = name.rpartition(".")
        if name not in names and not (stem in names and number.isdecimal()):
            continue
        if not aside:
            (folder / name).unlink(missing_ok=True)
        elif os.path.lexists(folder / name):
            (folder / name).rename(moving / name)
    if aside:
        moving.rename(folder / ASIDE)


def put_back(folder: Path, *, names: Iterable[str]) -> None:
    """Remove the successor of what is aside, and put back that, or what is on its way there; nothing without either.

    Raises:
        OSError: a file cannot be removed or moved; the next call goes on.
    """
    moving = folder / MOVING
    if (folder / ASIDE).is_dir():
        remove_own(folder, names=names)
        (folder / ASIDE).rename(moving)
    if moving.is_dir():
        for one in moving.iterdir():
            one.rename(folder / one.name)
        moving.rmdir()


def let_go(folder: Path) -> None:
    """Remove what is aside: all of it, where the process is killed, or what :func:`remove_partial` knows."""
    if (folder / ASIDE).is_dir():
        going = folder / f".{ASIDE}.{os.getpid()}.partial"
        (folder / ASIDE).rename(going)
        shutil.rmtree(going, ignore_errors=True)  # the next lock removes what is left


def remove_empty(folder: Path) -> None:
    """Remove the folder if nothing but its lock and its list is in it."""
    ours = {".lock", LIST}
    with suppress(OSError):
        if ours.issuperset(os.listdir(folder)):
            for name in ours:
                (folder / name).unlink(missing_ok=True)
            folder.rmdir()


def _enter(folder: Path, *names: str) -> None:
    """Enter names that are not in the folder's list, if there is one."""
    known = written(folder)
    new = [name for name in names if known is not None and name not in known]
    if new:
        with (folder / LIST).open("ab") as file:
            file.write("".join(f"\n{name}\n" for name in new).encode())
            file.flush()
            os.fsync(file.fileno())
