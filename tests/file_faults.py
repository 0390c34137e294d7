"""A process that is killed, or whose disk fails, at its k-th operation on a file below one folder.

:func:`carried_out` calls a function in a process of its own, forked from one that has imported everything already, so
that nothing rests on the clock: the process counts what it does to files below ``root`` (opening for writing, writing,
flushing to the disk, renaming, linking, removing, cutting, making folders) and meets its fault at the one it was told.
Python's own files are counted at every write that reaches the system, and those of safetensors, which writes around
Python, by doing in Python what it does: a file of its own naming, cut to length, written, renamed. Reading is not
counted: a kill while reading is one between two operations.
"""

import builtins
import errno
import io
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Literal, NamedTuple

import safetensors
import safetensors.numpy
import safetensors.torch
import torch

Kind = Literal["kill", "tear", "full", "io", "stop"]
KINDS = ("kill", "tear", "full", "io")
_WRITES = {"write", "sendfile"}
_GROWS = {"create", "mkdir", "link", "symlink", *_WRITES}
"""What a full disk refuses; it lets files be removed and renamed."""
_TARGETS = {"rename": 1, "replace": 1, "link": 1, "symlink": 1}
"""Calls whose second argument is the name that changes."""
_CALLS = ("open", "mkdir", "rmdir", "unlink", "remove", "truncate", "ftruncate", "chmod", "fsync", "fdatasync", "write",
          "sendfile", *_TARGETS)  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PRELOADED = ("tests.file_faults", "pacdp.cli.kinds", "pytest", "tests.file_faults_warm")
_real = {name: getattr(os, name) for name in _CALLS} | {"close": os.close}
_real_open = io.open


class Fault(NamedTuple):
    """What happens at operation ``at``, counted from 1.

    "kill": the process dies before it. "tear": of a write, half of the bytes arrive and the process dies; it dies after
    any other operation. "full": every operation from here on that needs room raises ENOSPC. "io": the operation raises
    EIO, once. Of a write that is to fail half of the bytes arrive first, and it says so, as the system does: the next
    write is the one that raises. "stop": Ctrl-C, as the operation ends.
    """

    at: int
    kind: Kind = "kill"


class Outcome(NamedTuple):
    """How the process ended."""

    exitcode: int
    operations: tuple[str, ...]
    """Name and path below ``root`` of each operation that was met, the failing one included."""
    out: str
    err: str

    @property
    def killed(self):
        """Whether the fault killed it."""
        return self.exitcode == -signal.SIGKILL


def places(operations, kind):
    """The operations, counted from 1, at which a fault of that kind is another one than at those before."""
    concerned = {"tear": _WRITES, "full": _GROWS}
    names = [one.split()[0] for one in operations]
    return [at for at, name in enumerate(names, start=1) if name in concerned.get(kind, {name})]


def carried_out(function, arguments=(), *, root, fault=None):
    """Call ``function`` in another process, with a fault or without one.

    The process is a fork of this one, with all that it remembers. From beside the main thread, where a fork may find
    locks held, it is one of a server's, and the function must be importable by name.
    """
    main = threading.current_thread() is threading.main_thread()
    context = multiprocessing.get_context("fork") if main else _context()
    with tempfile.TemporaryDirectory(prefix="faults") as notes:
        process = context.Process(target=_child, args=(function, tuple(arguments), root, fault, Path(notes)))
        process.start()
        process.join(600)
        if process.exitcode is None:
            process.kill()
            raise AssertionError(f"{function.__name__} hangs under {fault}")
        said = [Path(notes, name) for name in ("operations", "out", "err")]
        operations, out, err = (one.read_text(errors="replace") if one.exists() else "" for one in said)
        return Outcome(exitcode=process.exitcode, operations=tuple(operations.splitlines()), out=out, err=err)


def note(path, line):
    """Add a line to a file of the test's own by operations that are not counted, so that it outlives any fault."""
    descriptor = _real["open"](path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    _real["write"](descriptor, f"{line}\n".encode())
    _real["close"](descriptor)


def _context():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_PRELOADED))
    return context


def _child(function, arguments, root, fault, notes):
    for name, stream in (("out", 1), ("err", 2)):
        os.dup2(os.open(notes / name, os.O_WRONLY | os.O_CREAT), stream)
        setattr(sys, f"std{name}", os.fdopen(stream, "w", buffering=1, closefd=False))
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # workers of the suite ignore it
    log = os.open(notes / "operations", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    _Shim(root, fault, log).install()
    typed = sys.modules.get("tests.typed")
    with typed.unchecked() if typed else nullcontext():
        function(*arguments)


class _Shim:
    """Stands between Python and the system for files below ``root``."""

    def __init__(self, root, fault, log):
        self.root, self.fault, self.log, self.done, self.failing = (os.path.realpath(root), fault, log, 0, False)

    def install(self):
        """Take the place of the functions that change files."""
        for name in _CALLS:
            setattr(os, name, self._counted(name))
        io.open = builtins.open = self._open  # type: ignore[assignment]
        safetensors.torch.serialize_file = safetensors.numpy.serialize_file = self._serialize_file

    def met(self, name, path, act, half):
        """Count an operation and do it, do half of it, or fail; ``half`` returns how many bytes it wrote, or 0."""
        _real["write"](self.log, f"{name} {path}\n".encode())
        self.done += 1
        fault = self.fault
        if fault is None or self.done < fault.at:
            return act()
        if fault.kind == "full":
            if name not in _GROWS:
                return act()
            if self.done == fault.at and (count := half()):
                return count
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        if fault.kind == "io" and (self.done == fault.at or (self.failing and name in _WRITES)):
            self.failing = self.done == fault.at and (count := half()) > 0
            if self.failing:
                return count
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        if self.done > fault.at:
            return act()
        if fault.kind == "stop":
            done = act()
            os.kill(os.getpid(), signal.SIGINT)
            return done
        if fault.kind == "tear":
            with suppress(OSError):
                (half if name in _WRITES else act)()
        os.kill(os.getpid(), signal.SIGKILL)

    def _counted(self, name):
        real = _real[name]

        def operation(*arguments, **more):
            where = _TARGETS.get(name, 0)
            dir_fd = more.get("dst_dir_fd" if where else "dir_fd")
            path = self._below(arguments[where], dir_fd) if len(arguments) > where else None
            if path is None or (name == "open" and not arguments[1] & _WRITING):
                return real(*arguments, **more)
            called = name
            if name == "open" and arguments[1] & os.O_CREAT and not os.path.lexists(os.path.join(self.root, path)):
                called = "create"

            def half():
                if name == "write":
                    return real(arguments[0], arguments[1][: len(arguments[1]) // 2])
                return real(*arguments[:3], os.fstat(arguments[1]).st_size // 2) if name == "sendfile" else 0

            return self.met(called, path, lambda: real(*arguments, **more), half)

        return operation

    def _open(
        self, file, mode = "r", buffering = -1, encoding = None, errors = None,
        newline = None, closefd = True, opener = None,
    ):  # fmt: skip
        """What :func:`open` does, on a raw file whose writes are counted."""
        if not set(mode) & set("wax+") or self._below(file) is None:
            return _real_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        shim = self

        class Raw(io.FileIO):
            def write(self, content):
                content, path = bytes(content), shim._below(self.fileno()) or "?"
                write = super().write
                return shim.met("write", path, lambda: write(content), lambda: write(content[: len(content) // 2]))

            def truncate(self, size=None):
                truncate = super().truncate
                return shim.met("truncate", str(self.name), lambda: truncate(size), lambda: 0)

        opener = opener or (lambda path, flags: os.open(path, flags, 0o666))
        raw = Raw(file, mode.replace("b", "").replace("t", ""), closefd, None if isinstance(file, int) else opener)
        if buffering == 0:
            return raw
        buffered = (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw)
        if "b" in mode:
            return buffered
        text = io.TextIOWrapper(buffered, encoding, errors, newline, line_buffering=buffering == 1)
        text.mode = mode  # type: ignore[misc]
        return text

    def _serialize_file(self, tensors, filename, metadata=None):
        """What safetensors 0.8 was seen to do, by strace: a file .tmp*, cut to length, written and renamed."""
        content = bytes(safetensors.serialize(tensors, metadata=metadata))
        temporary = Path(filename).with_name(f".tmp{os.getpid()}")
        try:
            try:
                descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
                os.ftruncate(descriptor, len(content))
                if os.write(descriptor, content) < len(content):
                    raise OSError("cut short")
                _real["close"](descriptor)
                os.rename(temporary, filename)
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as error:
            raise safetensors.SafetensorError(f"Error while serializing: I/O error: {error}") from error

    def _below(self, what, dir_fd=None):
        """The path below the root of a file name or descriptor, or None where it lies elsewhere."""
        if isinstance(what, int):
            path = os.readlink(f"/proc/self/fd/{what}")
        else:
            folder = os.getcwd() if dir_fd is None else os.readlink(f"/proc/self/fd/{dir_fd}")
            path = os.path.normpath(os.path.join(folder, os.fsdecode(what)))
        return os.path.relpath(path, self.root) if path == self.root or path.startswith(self.root + os.sep) else None
