"""A run's folder, which can be believed: `result.json` is written last, by rename, and means finished.

Rows of `metrics.jsonl` are chained: each carries, as `hash`, SHA-256 of the hash of the row before it and of its own
canonical JSON without it (:mod:`pacdp.store.canonical`). `result.json` names the hashes of the configuration, the
last row and the checkpoint that it rests on.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bounds._check import json_value
from pacdp.cli.serial import from_dict
from pacdp.store.canonical import chained, digest, follows
from pacdp.store.files import Held, begin, locked, remove_own, remove_partial, replacing, written

_RUN = ("config.json", "provenance.json", "metrics.jsonl", "checkpoint.safetensors", "result.json",
        "released.json")  # fmt: skip
"""What a run writes by itself."""
_MADE_OF_IT = ("certificates.json", "figure.png", "figure.pdf", "report.html")
_WRITTEN = (":(top,exclude)experiments/results", ":(top,exclude)docs/results.md")
_PACKAGES = ("pacdp", "torch", "opacus", "numpy", "scipy", "numba", "safetensors", "scikit-learn")


class Folder:
    """Paths and state of one run's folder."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.config = self.path / "config.json"
        self.provenance = self.path / "provenance.json"
        self.metrics = self.path / "metrics.jsonl"
        self.checkpoint = self.path / "checkpoint.safetensors"
        self.result = self.path / "result.json"
        self.snapshots = self.path / "snapshots"
        self.certificates = self.path / "certificates.json"

    @property
    def finished(self) -> bool:
        """Whether a run ended here."""
        return self.result.is_file()

    @property
    def started(self) -> bool:
        """Whether a run has begun here, or a checkpoint was put here."""
        return self.config.is_file() or self.checkpoint.is_file()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes out; the operating system lets go when this one dies, however it dies.

        Raises:
            ValueError: another process is at work in the folder.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            with locked(self.path / ".lock"):
                for name in (*_RUN, *_MADE_OF_IT):
                    remove_partial(self.path / name)
                yield
        except Held as error:
            raise ValueError(
                f"another process is at work in {self.path}: {error}, or choose another --out"
            ) from error

    def require_free(self, config: Any, *, resume: bool) -> None:
        """Refuse a folder that another run has, or this one where it is not to be resumed.

        Raises:
            ValueError: the folder holds a finished run, an unfinished one without ``resume``, or another run's.
        """
        if self.finished:
            raise ValueError(
                f"{self.path} holds a finished run: choose another --out, or overwrite it with --force"
            )
        if self.started and not resume:
            raise ValueError(
                f"{self.path} holds an unfinished run: continue it with --resume, or overwrite it with --force"
            )
        if self.started and from_dict(type(config), read_json(self.config)) != config:
            raise ValueError(
                f"{self.path} holds a run of another configuration: choose another --out, or --force"
            )

    def clear(self) -> None:
        """Remove what pacdp wrote of an earlier run and nothing else; what it writes from here on, the folder lists.

        Raises:
            ValueError: a file that the run would write is there, and is not one that pacdp wrote.
        """
        begin(self.path, own=_RUN if self._of_earlier_version() else ())
        known = written(self.path) or ()
        for name in _RUN:
            if name not in known and os.path.lexists(self.path / name):
                raise ValueError(
                    f"{self.path / name} was not written by pacdp: move it away, or choose another --out"
                )
        remove_own(self.path, names=(*_RUN, *_MADE_OF_IT))
        for snapshot in self.snapshots.glob("snapshots-*.safetensors"):
            if snapshot.stem.removeprefix("snapshots-").isdecimal():
                snapshot.unlink()

    def _of_earlier_version(self) -> bool:
        """Whether a run began here before folders listed what was written."""
        try:
            return {"versions", "argv", "seed"} <= read_json(self.provenance).keys()
        except ValueError:
            return False

    def rows(self) -> list[dict[str, Any]]:
        """The recorded rows; a last line cut short by a crash is left out.

        Raises:
            ValueError: a row that is not what was written.
        """
        return [
            {name: value for name, value in row.items() if name != "hash"}
            for row in _chained(self.metrics)
        ]

    def keep_rows(self, *, up_to_step: int, expected: Sequence[int] | None = None) -> None:
        """Drop the rows that lie beyond a checkpoint's step: the resumed run writes them again.

        Raises:
            ValueError: a row that is not what was written, or other steps than the ``expected`` ones are left.
        """
        kept = [row for row in self.rows() if row["step"] <= up_to_step]
        steps = [row["step"] for row in kept]
        if expected is not None and steps != list(expected):
            raise ValueError(
                f"{self.metrics} has rows for the steps {steps}, but the checkpoint's run has recorded "
                f"{list(expected)}: restore the file, or start the run again with --force"
            )
        lines, last = [], ""
        for row in kept:
            own = chained(row, after=last)
            last = own["hash"]
            lines.append(json.dumps(own, allow_nan=False) + "\n")
        _replace(self.metrics, "".join(lines))

    def append_row(self, row: Mapping[str, Any]) -> None:
        """Add a row and hand it to the disk."""
        own = chained(row, after=self._last_hash())
        line = (json.dumps(own, allow_nan=False) + "\n").encode()
        with self.metrics.open(
            "ab", buffering=0
        ) as file:  # a buffer would write once more, after an error, on closing
            if file.write(line) != len(line):
                raise OSError(
                    f"a row of {self.metrics} was cut short: free space on the disk, and go on with --resume"
                )
            os.fsync(file.fileno())

    def content_hashes(self) -> dict[str, str | None]:
        """The hashes of configuration, recorded rows and checkpoint, where these exist."""
        from pacdp.store.checkpoint import (
            load_checkpoint,
        )  # torch, for which reports of predictions do not wait

        return {
            "config": digest(read_json(self.config)) if self.config.is_file() else None,
            "metrics": self._last_hash() or None,
            "checkpoint": load_checkpoint(self.checkpoint).content_hash
            if self.checkpoint.is_file()
            else None,
        }

    def _last_hash(self) -> str:
        rows = _chained(self.metrics)
        return rows[-1].get("hash", "") if rows else ""


@contextmanager
def as_written(path: Path) -> Iterator[None]:
    """Say in a sentence, as a ValueError, that what was read in ``path`` lacks something or is of another kind."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(
            f"{path} holds a file that this version does not read ({type(error).__name__}: {error}): restore it, or "
            "train and certify again"
        ) from error


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write JSON so that ``path`` holds the old file or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _replace(path, json.dumps(dict(values), indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        ValueError: the file is missing or no JSON object.
    """
    if path.exists() and not path.is_file():  # a device or a pipe has no end
        raise ValueError(f"{path} is no file: give that of a run or a report")
    try:
        values = json_value(path.read_text())
    except FileNotFoundError as error:
        raise ValueError(f"{path} is missing: give the folder of a run or an experiment") from error
    except OSError as error:
        raise ValueError(
            f"{path} cannot be read ({error.strerror}): check it and its permissions"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} is no JSON ({error}): restore it or start the run again with --force"
        ) from error
    if not isinstance(values, dict):
        raise ValueError(
            f"{path} holds no JSON object: restore it or start the run again with --force"
        )
    return values


def provenance(*, device: str, seed: int) -> dict[str, Any]:
    """What made a number: commit, whether code had changes that it does not hold, versions, device, command line, seed,
    time. Results that were written since the commit made nothing.
    """
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    name = platform.machine()
    if device.startswith("cuda"):
        import torch

        name = torch.cuda.get_device_name(device)
    return {
        "commit": _git("rev-parse", "HEAD"),
        "dirty": bool(_git("status", "--porcelain", "--untracked-files=no", "--", ":/", *_WRITTEN)),
        "versions": versions,
        "device": {"type": device, "name": name, "cpu_count": os.cpu_count()},
        "argv": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "seed": seed,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def require_space(path: Path, *, bytes_needed: int) -> None:
    """Refuse to start where what the run writes would not fit.

    Raises:
        ValueError: less room than ``bytes_needed`` on the disk of ``path``.
    """
    free = shutil.disk_usage(path).free
    if free < bytes_needed:
        raise ValueError(
            f"{path} has {free / 1e6:.0f} MB free, the run needs {bytes_needed / 1e6:.0f} MB: make room"
        )


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _replace(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())


def _chained(path: Path) -> list[dict[str, Any]]:
    """The rows with their hashes, each found to follow from the one before it; those of earlier versions have none."""
    if not path.is_file():
        return []
    *lines, cut_short = path.read_bytes().decode(errors="replace").split("\n")
    rows: list[dict[str, Any]] = []
    for number, line in enumerate([*lines, cut_short], start=1):
        row = _row(line, rows)
        if row is not None:
            rows.append(row)
        elif number <= len(lines):
            raise ValueError(
                f"{path} is damaged: row {number} is not what was written after the rows before it; restore the file, "
                "or start the run again with --force"
            )
    return rows


def _row(line: str, before: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The row, if it follows those before it."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict) or not isinstance(row.get("step"), int):
        return None
    if "hash" not in row:
        return row if not any("hash" in one for one in before) else None
    return row if follows(row, after=before[-1].get("hash", "") if before else "") else None
