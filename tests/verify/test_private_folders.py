"""A private run's folder: its noise is that of its configuration, and no number of that changes without notice."""

import copy
import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from edits import leaves, moved

from pacdp import load_checkpoint, save_checkpoint
from pacdp.verify.claim import CANNOT, DOES_NOT, FOLLOWS
from pacdp.verify.folder import check_folder, digest
from pacdp.verify.report import check_path

NAMES = ("calibrated", "halted", "langevin", "tempered", "parameters", "people")
# what a mechanism does not depend on: learning rates, networks, seeds, and how many examples at a time
FREE = {
    "hidden", "seed", "records", "learning_rate", "momentum", "prior_std", "burn_in", "local_epochs",
    "local_batch_size", "score_bound", "max_physical", "snapshots", "public_size",
}  # fmt: skip


def _wrong(path: Path) -> dict[str, str]:
    report = json.loads((path / "certificates.json").read_text())
    return {one.claim: one.why for one in check_folder(path, report) if one.verdict == DOES_NOT}


@pytest.mark.parametrize("name", NAMES)
def test_a_fresh_private_run_follows(private_runs: dict[str, Path], name: str) -> None:
    found = check_path(private_runs[name])
    odd = [one for one in found if one.verdict != FOLLOWS]
    assert odd == [one for one in odd if "betting" in one.subject and one.verdict == CANNOT], odd
    assert {"steps", "privacy spent", "report", "epsilon"} <= {one.claim for one in found}


def _forge(source: Path, folder: Path, header: dict[str, Any], run: dict[str, Any] | None = None) -> None:
    """A folder in which everything that names a configuration or a checkpoint by its hash names the forged one."""
    shutil.copytree(source, folder)
    if run is not None:
        header = {**header, "about": {**header["about"], "run": run}}
        (folder / "config.json").write_text(json.dumps(run))
    header = {name: value for name, value in header.items() if name not in ("content_hash", "config_hash")}
    save_checkpoint(folder / "checkpoint.safetensors", replace(load_checkpoint(source), header=header))
    made = load_checkpoint(folder)
    for name in ("result.json", "certificates.json"):
        said = json.loads((folder / name).read_text())
        if name == "result.json":
            said["rests_on"] |= {"checkpoint": made.content_hash, "config": digest(run or header["about"]["run"])}
        else:
            said["subject"]["content_hash"] = made.content_hash
        (folder / name).write_text(json.dumps(said))


@pytest.mark.parametrize("name", NAMES)
def test_no_number_of_a_private_configuration_changes_without_notice(
    private_runs: dict[str, Path], tmp_path: Path, name: str
) -> None:
    header, missed = dict(load_checkpoint(private_runs[name]).header), []
    run = header["about"]["run"]
    _forge(private_runs[name], tmp_path / "same", header, run)
    assert not _wrong(tmp_path / "same")
    free = FREE | ({"noise", "drift"} if run["method"].get("convention") != "parameter-slot" else {"temperature"})
    for place in leaves(run, free):
        for factor in (1.1, 0.9):
            folder = tmp_path / f"{'.'.join(map(str, place))} {factor}"
            _forge(private_runs[name], folder, header, moved(run, place, factor))
            if not {"steps", "report", "privacy spent"} & set(_wrong(folder)):
                missed.append((place, factor))
    # another budget that ends the run at the same step
    assert {place for place, _ in missed} <= (set() if name == "calibrated" else {("budget", "epsilon")}), missed
    _forge(private_runs[name], tmp_path / "poor", header, {**run, "budget": {**run["budget"], "epsilon": 0.05}})
    assert _wrong(tmp_path / "poor")


@pytest.mark.parametrize("name", NAMES)
def test_no_number_of_an_event_changes_without_notice(private_runs: dict[str, Path], tmp_path: Path, name: str) -> None:
    header = dict(load_checkpoint(private_runs[name]).header)
    for number, place in enumerate(leaves({one: header[one] for one in ("event", "step", "public")})):
        folder = tmp_path / ".".join(map(str, place))
        _forge(private_runs[name], folder, moved(header, place, (1.1, 0.9)[number % 2]))
        assert _wrong(folder), place
    for forged in ("cut", "nothing ran"):
        change = {"event": None} if forged == "nothing ran" else {"chosen": header["chosen"][:-1]}
        _forge(private_runs[name], tmp_path / forged, {**header, **change})
        assert _wrong(tmp_path / forged)


def test_a_result_with_another_event_is_found(private_runs: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(private_runs["people"], tmp_path / "run"))
    result = json.loads((folder / "result.json").read_text())
    result["privacy"]["event"]["inner"][0]["count"] += 1
    (folder / "result.json").write_text(json.dumps(result))
    assert _wrong(folder)["result.json"] == "its event is not the checkpoint's"


def test_a_run_stopped_by_hand_pays_for_its_plan(private_runs: dict[str, Path], tmp_path: Path) -> None:
    """Its header has fewer steps than its certificates pay for, which is as it should be; the reverse is not."""
    source = private_runs["calibrated"]
    header = dict(load_checkpoint(source).header)
    event, steps = copy.deepcopy(header["event"]), header["step"]
    assert event["inner"][0]["count"] == steps
    event["inner"][0]["count"] = steps - 2
    part = {"step": steps - 2, "event": event, "chosen": header["chosen"][:-2]}
    _forge(source, tmp_path / "part", {**header, **part})
    shutil.copy(source / "certificates.json", tmp_path / "part" / "certificates.json")
    (tmp_path / "part" / "result.json").unlink()
    (tmp_path / "part" / "metrics.jsonl").unlink()
    assert set(_wrong(tmp_path / "part")) == {"report"}  # the other checkpoint's hash
    report = json.loads((source / "certificates.json").read_text())
    report["subject"]["content_hash"] = load_checkpoint(tmp_path / "part").content_hash
    (tmp_path / "part" / "certificates.json").write_text(json.dumps(report))
    assert not _wrong(tmp_path / "part")
    report["privacy"]["event"]["inner"][0]["count"] = steps - 2
    (tmp_path / "part" / "certificates.json").write_text(json.dumps(report))
    assert "was to make more" in _wrong(tmp_path / "part")["report"]


def test_quieter_candidates_are_found(private_runs: dict[str, Path], tmp_path: Path) -> None:
    """P3SGD: independent candidates cost more than nested ones, and a choice costs its epsilon."""
    header = dict(load_checkpoint(private_runs["people"]).header)
    run = header["about"]["run"]
    scales = run["method"]["noise_scales"]
    gaussian, choice = header["event"]["inner"][0]["inner"]["inner"]["inner"]
    assert gaussian["noise_multiplier"] == pytest.approx(1 / math.sqrt(sum(z**-2 for z in scales)), rel=1e-12)
    assert choice["epsilon"] == run["method"]["selection_epsilon"]
    for place, change in enumerate(({"nested": True}, {"noise_scales": scales[:1]})):
        _forge(private_runs["people"], tmp_path / str(place), header, {**run, "method": {**run["method"], **change}})
        assert "steps" in _wrong(tmp_path / str(place))
