"""An export killed at any operation on a file: nothing left that was not counted, and no half of a folder."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from cli_tools import read

from pacdp.cli import exporting
from pacdp.cli.config import Runtime
from pacdp.cli.exporting import export_run
from pacdp.cli.private.recipes import private_recipe
from pacdp.cli.private.run import train_private
from pacdp.ledger import Ledger
from pacdp.step.noise import SystemRandomness
from pacdp.verify.report import check_path
from tests.file_faults import Fault, carried_out, note

RUNTIME = Runtime(threads=1)


def export(folder: Path, out: str) -> None:
    """Export the run, noting each draw of noise."""

    class Noted(SystemRandomness):
        def normal(self, *arguments: Any, **more: Any) -> Any:
            note(folder / "drawn", "1")
            return super().normal(*arguments, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporting, "SystemRandomness", Noted)
        export_run(folder / "run", folder / out, RUNTIME)


def test_an_export_may_be_killed_at_any_operation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = private_recipe("dp-sgd-mnist", scale="smoke")
    place = tmp_path / "first"
    train_private(config, place / "run", RUNTIME, ledger=place / "ledger")
    shutil.copytree(place, tmp_path / "fresh")
    made_by = {"commit": None, "dirty": False, "versions": {}}
    monkeypatch.setattr(exporting, "provenance", lambda **about: made_by)  # which asks git, for a while
    whole = carried_out(export, (place, "out"), root=place, of_this=True)
    export(place, "again")  # what is remembered from here on makes the others quick
    redrawn = 0
    for at in range(1, len(whole.operations) + 1):
        place = tmp_path / str(at)
        shutil.copytree(tmp_path / "fresh", place)
        fault = Fault(at=at, kind="tear" if at % 2 else "kill")
        assert carried_out(export, (place, "out"), root=place, fault=fault, of_this=True).killed
        drawn = len((place / "drawn").read_text().splitlines()) if (place / "drawn").exists() else 0
        paid = [one for one in Ledger.load(place / "ledger").entries if one.stretch.kind == "release"]
        assert drawn <= 2 * len(paid)
        if (place / "out").exists():
            assert {one.verdict for one in check_path(place / "out")} == {"follows"}
            assert (place / "run" / "released.json").exists()
        export(place, "again")
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
    assert len(whole.operations) > 30
    assert redrawn >= 1, "a kill between the entry and the file of the counts is paid again"
