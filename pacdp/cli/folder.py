"""A run's folder, which can be believed: `result.json` is written last, by rename, and means finished.

Rows of `metrics.jsonl` are chained: each carries, as `hash`, SHA-256 of the hash of the row before it and of its own
canonical JSON without it (:mod:`pacdp.store.canonical`). `result.json` names the hashes of the configuration, the
last row and the checkpoint that it rests on.

A report takes the place of an earlier one, which is kept; what is no report is left alone.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

from bounds._check import json_value
from pacdp.cli.runtime import Runtime, Training
from pacdp.cli.serial import Values, from_dict, to_dict
from pacdp.cli.terminal import messages, refusing
from pacdp.store.canonical import chained, digest, follows, parsed
from pacdp.store.files import (
    ASIDE,
    MOVING,
    Held,
    add_line,
    begin,
    keep_beside,
    let_go,
    locked,
    path_of,
    put_back,
    remove_empty,
    remove_own,
    remove_partial,
    write_keeping,
    write_whole,
    written,
)

Config = TypeVar("Config")
FORMAT = "pacdp-run/3"
PRIVATE = (
    "Private, not to be published: this depends on the training data beyond what epsilon covers (errors "
    "counted without noise, hashes of the data). pacdp export writes the only folder that may leave."
)
"""What stands on everything that a private run leaves behind."""
_ABOUT = ("format", "kind", "title")
"""What config.json says beside the configuration itself."""
_RUN = ("config.json", "provenance.json", "metrics.jsonl", "checkpoint.safetensors", "result.json",
        "released.json")  # fmt: skip
"""What a run writes by itself."""
_MADE_OF_IT = ("certificates.json", "figure.png", "figure.pdf", "report.html")
_OWN = (*_RUN, *_MADE_OF_IT)
_WRITTEN = (":(top,exclude)experiments/results", ":(top,exclude)docs/results.md")
_PACKAGES = ("pacdp", "torch", "opacus", "numpy", "scipy", "numba", "safetensors", "scikit-learn")


class Folder:
    """Paths and state of one run's folder."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.config, self.provenance, self.metrics, self.checkpoint, self.result, _ = (
            self.path / name for name in _RUN
        )
        self.certificates = self.path / "certificates.json"

    @property
    def finished(self) -> bool:
        """Whether a run ended here."""
        return self.result.is_file()

    @property
    def started(self) -> bool:
        """Whether a run has begun here, or a checkpoint was put here."""
        return self.config.is_file() or self.checkpoint.is_file()

    @property
    def kind(self) -> str | None:
        """Which kind of run began here: chain, private, compression, or another one of a study's."""
        return self._settings()["kind"] if self.config.is_file() else None

    def certified(self) -> Values:
        """The report of the run's certificates; empty where there is none.

        Raises:
            ValueError: the run has ended, and it is about another checkpoint.
        """
        report = read_json(self.certificates) if self.certificates.is_file() else {}
        result = read_json(self.result) if report and self.finished else {}
        of = (report.get("subject") or {}).get("content_hash")
        ended = (result.get("rests_on") or {}).get("checkpoint")
        if of and ended and of != ended:
            raise ValueError(
                f"{self.certificates} is about another checkpoint than that at which {self.path} ended: certify again"
            )
        return report

    def config_of(self, kind: type[Config]) -> Config:
        """The configuration of the run that began here.

        Raises:
            ValueError: there is none, or one of another kind or version.
        """
        values = self._settings()
        return from_dict(kind, {name: values[name] for name in values if name not in _ABOUT})

    def _settings(self) -> Values:
        values = read_json(self.config)
        if values.get("format") != FORMAT:
            made = read_json(self.provenance) if self.provenance.is_file() else {}
            version = made.get("versions", {}).get("pacdp", "of an earlier version")
            raise ValueError(
                f"{self.config} is of format {values.get('format', 'pacdp-run/2')!r}, and this version reads "
                f"{FORMAT!r}: go on with it by pacdp {version} (commit {made.get('commit', 'unknown')}), which wrote it"
            )
        return values

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes out; the operating system lets go when this one dies, however it dies.

        Raises:
            ValueError: another process is at work in the folder, or it is none and cannot be made; a folder that is
                called as what is put aside is somebody else's.
        """
        path_of(folder=self.path, made=True)
        try:
            with locked(self.path / ".lock"):
                for name in (*_OWN, ASIDE):
                    remove_partial(self.path / name)
                for name in (ASIDE, MOVING):
                    if os.path.lexists(self.path / name) and name not in (written(self.path) or ()):
                        raise ValueError(
                            f"{self.path / name} was not written by pacdp: move it away, or choose another folder"
                        )
                if not ((self.path / ASIDE).is_dir() and self.config.is_file()):
                    put_back(self.path, names=_OWN)  # a process was killed on the way
                yield
        except Held as error:
            raise ValueError(
                f"another process is at work in {self.path}: {error}, or choose another --out"
            ) from error

    @contextmanager
    def at_work(self, config: Any, how: Training) -> Iterator[bool]:
        """Keep other processes out while a run is carried out here; yields whether it goes on where it stands.

        A run that is refused, or ends otherwise, before its first step leaves the folder as it found it: what
        it was to take the place of is back, and a folder that was not there is gone. Its first step lets that go.

        Raises:
            ValueError: the folder holds a finished run, an unfinished one that is not to be resumed, or another one;
                or another process is at work in it.
        """
        new = not self.path.exists()
        with self.lock():
            if self.finished and not how.force:
                hint = "certify it" if how.resume else "choose another --out"
                raise ValueError(
                    f"{self.path} holds a finished run: {hint}, or overwrite it with --force"
                )
            if self.started and not how.force:
                if not how.resume:
                    raise ValueError(
                        f"{self.path} holds an unfinished run: continue it with --resume, or overwrite it with --force"
                    )
                if self.config_of(type(config)) != config:
                    raise ValueError(
                        f"{self.path} holds a run of another configuration: choose another --out, or --force"
                    )
            try:
                yield self.checkpoint.is_file() and not how.force
            finally:
                put_back(self.path, names=_OWN)
                if new and not self.started:
                    remove_empty(self.path)

    def begin(self, config: Any, runtime: Runtime, *, bytes_needed: int = 1_000_000) -> None:
        """Write the first files of a run, in the place of what pacdp wrote of an earlier one.

        Raises:
            ValueError: there is no room for it; a file that it would write is there, and is not one that pacdp wrote.
        """
        free = shutil.disk_usage(self.path).free
        if free < bytes_needed:
            raise ValueError(
                f"{self.path} has {free / 1e6:.0f} MB free, the run needs {bytes_needed / 1e6:.0f} MB: make room"
            )
        self.clear(aside=hasattr(config, "KIND"))  # a study keeps what it needs by itself
        made_by = provenance(device=runtime.device, seed=config.seed)
        write_json(self.provenance, made_by | {"runtime": runtime.recorded()})
        self.keep_rows(up_to_step=-1)
        about = {"format": FORMAT, "kind": "study"}
        if hasattr(config, "KIND"):
            about |= {"kind": config.KIND, "title": config.title}
        write_json(self.config, about | to_dict(config))  # last: with it the run has begun

    def finish(self, result: Mapping[str, Any]) -> Values:
        """Write what the run found, beside the hashes of what that rests on; returns it."""
        from pacdp.store.checkpoint import (
            load_checkpoint,
        )  # torch: reports of predictions do without

        made = load_checkpoint(self.checkpoint).content_hash if self.checkpoint.is_file() else None
        rests_on = {
            "config": digest(read_json(self.config)),
            "metrics": self._last_hash() or None,
            "checkpoint": made,
        }
        whole = {**result, "rests_on": rests_on}
        let_go(self.path)
        write_json(self.result, whole)
        return whole

    def clear(self, *, aside: bool = False) -> None:
        """Remove what pacdp wrote of an earlier run and nothing else; what it writes from here on, the folder lists.

        Args:
            aside: whether it is kept aside until the new run has what its first step needs; see :func:`let_go`.

        Raises:
            ValueError: a file that the run would write is there, and is not one that pacdp wrote.
        """
        begin(self.path)
        known = written(self.path) or ()
        for name in _RUN:
            if name not in known and os.path.lexists(self.path / name):
                raise ValueError(
                    f"{self.path / name} was not written by pacdp: move it away, or choose another --out"
                )
        remove_own(self.path, names=_OWN, aside=aside)

    def rows(self) -> list[Values]:
        """The recorded rows; a last line cut short by a crash is left out.

        Raises:
            ValueError: a row that is not what was written, or other rows than the result rests on.
        """
        rows, result = self._chained(), read_json(self.result) if self.finished else {}
        ended = (result.get("rests_on") or {}).get("metrics")
        if ended and [row["hash"] for row in rows[-1:]] != [ended]:
            raise ValueError(
                f"{self.metrics} holds other rows than those that {self.result.name} rests on: restore the file, or "
                "start the run again with --force"
            )
        for row in rows:
            del row["hash"]
        return rows

    def keep_rows(self, *, up_to_step: int, expected: Sequence[int] | None = None) -> None:
        """Drop the rows that lie beyond a checkpoint's step: the resumed run writes them again.

        Raises:
            ValueError: a row that is not what was written, or other steps than the ``expected`` ones are left.
        """
        kept = [row for row in self._chained() if row["step"] <= up_to_step]
        steps = [row["step"] for row in kept]
        if expected is not None and steps != list(expected):
            raise ValueError(
                f"{self.metrics} has rows for the steps {steps}, but the checkpoint's run has recorded "
                f"{list(expected)}: restore the file, or start the run again with --force"
            )
        write_whole(self.metrics, "".join(map(_line, kept)).encode())

    def append_row(self, row: Mapping[str, Any]) -> None:
        """Add a row and hand it to the disk."""
        let_go(self.path)
        add_line(self.metrics, _line(chained(row, after=self._last_hash())).encode())

    def _last_hash(self) -> str:
        rows = self._chained()
        return rows[-1]["hash"] if rows else ""

    def _chained(self) -> list[Values]:
        """The rows with their hashes, each found to follow from the one before it."""
        rows, last = list[Values](), ""
        text = self.metrics.read_bytes() if self.metrics.is_file() else b""
        *lines, _ = text.decode(errors="replace").split("\n")
        for number, line in enumerate(lines, start=1):
            row = parsed(line)
            if not (follows(row, after=last) and isinstance(row.get("step"), int)):
                raise ValueError(
                    f"{self.metrics} is damaged: row {number} is not what was written after the rows before it; "
                    "restore the file, or start the run again with --force"
                )
            rows.append(row)
            last = row["hash"]
        return rows


def followed(path: Path) -> Path:
    """The file in a run's folder that a link beside no run points to, so that the run is found; or the path itself."""
    real = Path(os.path.realpath(path))
    away = not Folder(path.parent).config.is_file() and Folder(real.parent).config.is_file()
    return real if away and real.is_file() else path


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, allow_nan=False) + "\n"


def as_written(path: Path) -> AbstractContextManager[None]:
    """Say in a sentence, as a ValueError, that what was read in ``path`` lacks something or is of another kind."""
    return refusing(
        f"{path} holds a file that this version does not read",
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
        or_else="restore it, or train and certify again",
    )


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write JSON so that ``path`` holds the old file or the whole new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, (json.dumps(dict(values), indent=2, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Values:
    """Read a JSON object.

    Raises:
        ValueError: the file is missing or no JSON object.
    """
    if path.exists() and not path.is_file():  # a device or a pipe has no end
        raise ValueError(f"{path} is no file: give that of a run or a report")
    if not path.exists():
        raise ValueError(f"{path} is missing: give the folder of a run or an experiment")
    again = "restore it or start the run again with --force"
    with refusing(f"{path} cannot be read as JSON", or_else=again):
        values = json_value(path.read_text())
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds no JSON object: {again}")
    return values


def provenance(*, device: str, seed: int) -> Values:
    """What made a number: commit, whether code had changes that it does not hold, versions, device, command line, seed,
    time. Results that were written since the commit made nothing.
    """
    name = platform.machine()
    if device.startswith("cuda"):
        import torch

        name = torch.cuda.get_device_name(device)
    return {
        "commit": _git("rev-parse", "HEAD"),
        "dirty": bool(_git("status", "--porcelain", "--untracked-files=no", "--", ":/", *_WRITTEN)),
        "versions": {
            "python": platform.python_version(),
            **{one: installed(one) for one in _PACKAGES},
        },
        "device": {"type": device, "name": name, "cpu_count": os.cpu_count()},
        "argv": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "seed": seed,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def reported(found: Any, *, device: str, seed: int, **subject: Any) -> Values:
    """A report of certificates as JSON values: on what, and made by what."""
    return found.to_dict(subject=subject, provenance=provenance(device=device, seed=seed))


def installed(package: str) -> str:
    """The version of a package, in words where there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _git(*arguments: str) -> str | None:
    """What git says of the checkout that this package lies in, or None.

    An environment may lie in a project of somebody's own, whose commit is a hash of all files there, data among them.
    """
    checkout = Path(__file__).parents[2]
    if not (checkout / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=checkout,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def require_replaceable(path: Path, report: str = "certificates") -> None:
    """Refuse a place for a report that holds something else.

    Args:
        report: what the report is about, "certificates" or "diagnosis", as its format says.

    Raises:
        ValueError: it is a folder, or a file that is no such report.
    """
    if not os.path.lexists(path):
        return
    try:
        ours = str(read_json(path).get("format", "")).startswith(f"pacdp-{report}/")
    except (ValueError, OSError):
        ours = False
    if not ours:
        raise ValueError(
            f"{path} is there and is no report of {report}: give another --out, or move it away"
        )


def write_report(path: Path, report: Mapping[str, Any]) -> None:
    """Write a report; an earlier one that says something else is kept, see :func:`pacdp.store.files.keep_beside`.

    Raises:
        ValueError: see :func:`require_replaceable`.
    """
    require_replaceable(path)
    if path.exists():  # without when it was found, and by which command
        timeless = ({**each, "provenance": None} for each in (read_json(path), report))
        earlier, now = (json.loads(json.dumps(each)) for each in timeless)
        if earlier != now:
            keep_beside(path)
    write_json(path, report)


def write_telling(path: Path, content: bytes) -> None:
    """Write a page or a figure, and say where another file that stood there is kept now.

    Raises:
        ValueError, OSError: see :func:`pacdp.store.files.write_keeping`.
    """
    if kept := write_keeping(path, content):
        messages.print(f"another {path.name} stood in {path.parent}: it is kept as {kept.name}")
