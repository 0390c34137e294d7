"""JSON lines on disk that only grow: chained by hash, verified when read, added to under a lock.

The first line names the format. Every line carries as ``hash`` the SHA-256 of the hash before it and of its own
canonical JSON (:mod:`pacdp.store.canonical`), so that none can be changed, moved or taken out. A line is one write
and is on the disk before whoever adds it is told: one without its end was told to nobody, so readers leave it out and
the next writer removes it.

A file has a *head* beside it, which names the number of lines and the last hash. It is there before the file is, and
is replaced after a line is on the disk and before anyone is told: it may lag, never lead. So lines that were
cut off the end are missed too. Whoever keeps a file open misses the lines that it has read, whatever the head says.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pacdp.store.canonical import chained, follows, parsed
from pacdp.store.files import add_line, on_disk, remove_partial, write_whole
from pacdp.store.files import locked as file_locked
from pacdp.store.record import record

Line = dict[str, Any]


class Lines(list[Line]):
    """Lines that were found to be chained, with the bytes that they were read from."""

    content: bytes = b""


@record
class Kind:
    """What such a file is called in sentences, and which lines may stand in it."""

    format: str
    called: str
    """As in "cannot read the ledger"."""
    made_by: str
    """Where such a file comes from, for those who gave another."""
    fits: Callable[[Line, Sequence[Line]], bool]
    """Whether a line may stand after those before it, its hash apart."""


def create(path: Path, header: Mapping[str, Any], kind: Kind, *, existing: str) -> Lines:
    """Start a file with its first line.

    Raises:
        ValueError: there is something at ``path``, of which ``existing`` says what to do; it cannot be written.
    """
    lines = Lines([chained({"format": kind.format, **header}, after="")])
    lines.content = _text(lines[0]).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"cannot write {kind.called} {path}: {error.strerror or error}") from error
    with _lock(path, kind):
        if os.path.lexists(path):
            raise ValueError(f"{path} exists: {existing}")
        _require_no_head(path, lines)
        try:
            _write_head(path, lines)
            write_whole(path, lines.content)
            on_disk(path.parent)
        except OSError as error:
            raise ValueError(
                f"cannot write {kind.called} {path}: {error.strerror or error}"
            ) from error
    return lines


def read(path: Path, kind: Kind, *, known: Lines | None = None) -> Lines:
    """All lines, verified; ``known`` ones, which were read before and must still be there, are not verified again.

    Raises:
        ValueError: no such file; one of another kind; a line that was changed, moved, added or taken out; one of the
            ``known`` lines is missing.
    """
    try:
        head = _read_head(path)  # before the lines, which another process may add to
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot read {kind.called} {path}: {error.strerror or error}") from error
    lines = Lines()
    kept = known is not None and content.startswith(known.content)
    if known is not None and kept:
        lines[:], lines.content = known, known.content
    whole = content.rfind(b"\n") + 1
    _verify(path, content[len(lines.content) : whole], kind, lines)
    lines.content = content[:whole]
    _require_head(path, head, lines)
    if known is not None and not kept:
        raise ValueError(
            f"{path} lacks lines that were read from it before: it was put back to an older copy, or another file took "
            "its place; restore what was there"
        )
    return lines


@contextmanager
def locked(path: Path, kind: Kind, *, known: Lines | None = None) -> Iterator[Lines]:
    """Keep other processes out, and work on the lines that the file holds now.

    Raises:
        ValueError: as :func:`read`; or another process holds the lock for half a minute.
    """
    with _lock(path, kind):
        lines = read(path, kind, known=known)
        for one in (path, _head(path)):
            remove_partial(one)
        try:
            if (
                len(lines.content) < path.stat().st_size
            ):  # a line cut short by a crash, before anyone was told of it
                os.truncate(path, len(lines.content))
        except OSError as error:
            raise ValueError(
                f"cannot write {kind.called} {path}: {error.strerror or error}"
            ) from error
        yield lines


def append(path: Path, values: Mapping[str, Any], lines: Lines, kind: Kind) -> Lines:
    """Add a line after ``lines``, which are those that :func:`locked` gave; returns all, once they are on the disk.

    Raises:
        ValueError: it cannot be written; the caller is then to act as if it had been.
    """
    line = chained(values, after=lines[-1]["hash"])
    whole = Lines([*lines, line])
    whole.content = lines.content + _text(line).encode()
    try:
        add_line(path, _text(line).encode())
        _write_head(path, whole)
    except OSError as error:
        raise ValueError(
            f"cannot write {kind.called} {path}: {error.strerror or error}; what was to be added may stand there all "
            "the same"
        ) from error
    return whole


def _verify(path: Path, whole: bytes, kind: Kind, lines: Lines) -> None:
    """Add to ``lines`` what comes after them."""
    texts = whole.decode(errors="replace").split("\n")[:-1]
    for number, text in enumerate(texts, start=1 + len(lines)):
        line = parsed(text)
        if number == 1 and (not isinstance(line, dict) or line.get("format") != kind.format):
            break
        if not (follows(line, after=lines[-1]["hash"] if lines else "") and kind.fits(line, lines)):
            raise ValueError(
                f"{path} is not what was written: line {number} was changed, moved or added, or one before it was "
                "taken out; restore the file"
            )
        lines.append(line)
    if not lines:
        raise ValueError(
            f"{path} is no {kind.called.removeprefix('the ')} of format {kind.format}: {kind.made_by}"
        )


@contextmanager
def _lock(path: Path, kind: Kind) -> Iterator[None]:
    with ExitStack() as held:
        try:
            held.enter_context(file_locked(path.with_name(f".{path.name}.lock"), timeout=30.0))
        except OSError as error:
            raise ValueError(
                f"cannot lock {kind.called} {path}: {error.strerror or error}"
            ) from error
        yield


def _head(path: Path) -> Path:
    return path.with_suffix(".head")


def _read_head(path: Path) -> Any:
    try:
        return parsed(_head(path).read_text()) or {}
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        return {}


def _require_head(path: Path, head: Any, lines: Lines) -> None:
    """Refuse lines that are fewer than somebody was told."""
    if head is None:
        raise ValueError(
            f"{path} has no {_head(path).name} beside it, which says how many lines it had: restore both "
            "files from a copy"
        )
    try:
        count, last = head["lines"], head["hash"]
        kept = 0 < count <= len(lines) and lines[count - 1]["hash"] == last
        told = f"{len(lines)} lines of the {count}"
    except (KeyError, TypeError):
        kept, told = False, "none of the lines"
    if not kept:
        raise ValueError(
            f"{path} has {told} that {_head(path).name} names: restore both files from a copy"
        )


def _require_no_head(path: Path, started: Lines) -> None:
    """Refuse a head without its file, but for that of a start that was cut short before anyone was told of it."""
    head = _read_head(path)
    if head is not None and not (isinstance(head, dict) and head.get("lines") == len(started)):
        raise ValueError(
            f"{_head(path)} exists and {path} does not: restore it, or choose another folder"
        )


def _write_head(path: Path, lines: Lines) -> None:
    head = json.dumps({"lines": len(lines), "hash": lines[-1]["hash"]})
    write_whole(_head(path), f"{head}\n".encode())
    on_disk(path.parent)


def _text(line: Line) -> str:
    return f"{json.dumps(line, allow_nan=False)}\n"
