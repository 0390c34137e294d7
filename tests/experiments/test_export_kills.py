"""An export killed at any operation on a file: nothing left that was not counted, and no half of a folder."""

import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cli_tools import read

from experiments import exporting
from experiments.config import Runtime
from experiments.exporting import export_run
from experiments.private.recipes import private_recipe
from experiments.private.run import train_private
from pacdp.ledger import Ledger
from pacdp.step.noise import SystemRandomness
from pacdp.verify.report import check_path

FORK = multiprocessing.get_context("fork")
OPERATIONS = ("open", "write", "fsync", "replace", "rename", "truncate", "close", "mkdir")
RUNTIME = Runtime(threads=1)
_open, _write, _close = os.open, os.write, os.close


def note(folder: Path) -> None:
    """That noise was drawn, by operations that are not counted."""
    descriptor = _open(folder / "drawn", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    _write(descriptor, b"1\n")
    _close(descriptor)


def dying(at: int, after: bool) -> None:
    """Kill this process before its ``at``-th operation on a file, or after it."""
    done = 0

    def counted(whole: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*arguments: Any, **more: Any) -> Any:
            nonlocal done
            done += 1
            if done == at and after:
                with suppress(OSError):
                    whole(*arguments, **more)
            if done == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return whole(*arguments, **more)

        return operation

    for name in OPERATIONS:
        setattr(os, name, counted(getattr(os, name)))


def killed(folder: Path, out: str, at: int, after: bool) -> bool:
    """Whether the kill came in time."""

    def body() -> None:
        dying(at, after)
        export_run(folder / "run", folder / out, RUNTIME)

    process = FORK.Process(target=body)
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


def test_an_export_may_be_killed_at_any_operation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Noted(SystemRandomness):
        def normal(self, *arguments: Any, **more: Any) -> Any:
            note(place)
            return super().normal(*arguments, **more)

    config = private_recipe("dp-sgd-mnist", scale="smoke")
    place = tmp_path / "first"
    train_private(config, place / "run", RUNTIME, ledger=place / "ledger")
    shutil.copytree(place, tmp_path / "fresh")
    monkeypatch.setattr(exporting, "SystemRandomness", Noted)
    made_by = {"commit": None, "dirty": False, "versions": {}}
    monkeypatch.setattr(exporting, "provenance", lambda **about: made_by)  # which asks git, for a while
    export_run(place / "run", place / "out", RUNTIME)  # what is remembered from here on makes the others quick
    at, kills, redrawn = 0, 0, 0
    while True:
        at += 1
        place = tmp_path / str(at)
        shutil.copytree(tmp_path / "fresh", place)
        if not killed(place, "out", at, after=at % 2 == 0):
            break
        kills += 1
        drawn = len((place / "drawn").read_text().splitlines()) if (place / "drawn").exists() else 0
        paid = [one for one in Ledger.load(place / "ledger").entries if one.stretch.kind == "release"]
        assert drawn <= 2 * len(paid)
        if (place / "out").exists():
            assert {one.verdict for one in check_path(place / "out")} == {"follows"}
            assert (place / "run" / "released.json").exists()
        export_run(place / "run", place / "again", RUNTIME)
        assert {one.name for one in (place / "again").iterdir()} == {
            "certificates.json",
            "settings.json",
            "weights.safetensors",
        }
        total = [one for one in Ledger.load(place / "ledger").entries if one.stretch.kind == "release"]
        assert len((place / "drawn").read_text().splitlines()) <= 2 * len(total)
        counts = read(place / "again" / "certificates.json")["details"]["counts"]
        if (place / "out").exists():
            assert read(place / "out" / "certificates.json")["details"]["counts"] == counts
        redrawn += len(total) > 1
    assert kills > 30
    assert redrawn >= 1, "a kill between the entry and the file of the counts is paid again"
