"""An export killed at any operation on a file: nothing left that was not counted, and no half of a folder."""

import shutil
from pathlib import Path
from shutil import copytree

import pytest
from cli_tools import read, verdicts
from secret_runs import stretches
from tiny_runs import leave

from pacdp.cli import exporting
from pacdp.step.noise import SystemRandomness
from tests.file_faults import Fault, carried_out, note
from tests.marks import parametrize, slow


def export(folder, out):
    """Export the run, noting each draw of noise."""

    class Noted(SystemRandomness):
        def noised(self, *arguments, **more):
            note(folder / "drawn", "1")
            return super().noised(*arguments, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exporting, "SystemRandomness", Noted)
        leave(folder / "run", folder / out)


def releases(folder):
    return len(stretches(folder / "ledger", "release"))


def draws(folder):
    return len((folder / "drawn").read_text().splitlines()) if (folder / "drawn").exists() else 0


@parametrize("every", [7, slow(1)])
def test_an_export_may_be_killed_at_any_operation(every, exported, tmp_path, monkeypatch):
    place, fresh = tmp_path / "first", Path(copytree(exported, tmp_path / "fresh"))
    shutil.rmtree(fresh / "out")
    (fresh / "run" / "released.json").unlink()
    copytree(fresh, place)
    made_by, before = {"commit": None, "dirty": False, "versions": {}}, releases(fresh)
    monkeypatch.setattr(exporting, "provenance", lambda **about: made_by)  # which asks git, for a while
    whole = carried_out(export, (place, "out"), root=place)
    export(place, "again")  # what is remembered from here on makes the others quick
    redrawn = 0
    for at in range(1, len(whole.operations) + 1, every):
        place = Path(copytree(fresh, tmp_path / str(at)))
        fault = Fault(at=at, kind="tear" if at % 2 else "kill")
        assert carried_out(export, (place, "out"), root=place, fault=fault).killed
        assert draws(place) <= 2 * (releases(place) - before)
        if (place / "out").exists():
            assert verdicts(place / "out") == {"follows"}
            assert (place / "run" / "released.json").exists()
        export(place, "again")
        assert verdicts(place / "again") == {"follows"}
        assert draws(place) <= 2 * (releases(place) - before)
        counts = [read(place / out / "certificates.json")["details"]["counts"] for out in ("again", "out")
                  if (place / out).exists()]  # fmt: skip
        assert counts[0] == counts[-1]
        redrawn += releases(place) > before + 1
    assert len(whole.operations) > 30
    assert redrawn >= 1, "a kill between the entry and the file of the counts is paid again"
