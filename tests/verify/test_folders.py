"""A run's folder: everything in it follows, and no number of header, rows or certificates changes without notice."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from edits import leaves, moved

from pacdp import load_checkpoint, save_checkpoint
from pacdp.checkpoint import Checkpoint
from pacdp.data.rows import Rows
from pacdp.problem import Problem
from pacdp.verify import loss
from pacdp.verify.claim import DOES_NOT, FOLLOWS, Statement
from pacdp.verify.folder import check_folder, read_checkpoint
from pacdp.verify.recount import row_hashes, rows_digest
from pacdp.verify.report import check_path, check_report, main

# What a header, a report or a row may say that nothing else in the folder, nor any theorem, determines.
FREE = {
    "seconds", "wall_seconds", "device", "runtime", "trace", "diagnosis", "provenance", "effort", "not_applicable",
    "gibbs", "weights", "mu_central_limit", "seed", "reference", "by", "prior", "std",
}  # fmt: skip
SOME = ("half_brier_private_pac_bayes", "test_set_clopper_pearson")


def _wrong(path: Path, *, reported: bool = False) -> list[Statement]:
    report = json.loads((path / "certificates.json").read_text()) if reported else None
    return [one for one in check_folder(path, report) if one.verdict == DOES_NOT]


@pytest.mark.parametrize("name", ["clipped", "entropy", "sgd", "sgld"])
def test_a_fresh_run_follows(runs: dict[str, Path], name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = check_path(runs[name])
    assert {one.verdict for one in found} == {FOLLOWS}, [one for one in found if one.verdict != FOLLOWS]
    assert {"content of the checkpoint", "run", "steps", "metrics.jsonl", "result.json", "report"} <= {
        one.claim for one in found
    }
    assert main([str(runs[name])]) == 0
    assert main([str(runs[name]), "--json"]) == 0
    assert capsys.readouterr().out.startswith(FOLLOWS)


@pytest.fixture
def folder(runs: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(runs["clipped"], tmp_path / "run"))


def _rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))


def _forge(folder: Path, **fields: Any) -> None:
    """A checkpoint whose header was changed by somebody who makes its hash anew."""
    old = load_checkpoint(folder)
    save_checkpoint(folder / "checkpoint.safetensors", Checkpoint(header={**old.header, **fields}, model=old.model,
                                                                  state=old.state, trace=old.trace))  # fmt: skip


def test_bytes_of_weights_and_header_are_hashed(folder: Path) -> None:
    content = (folder / "checkpoint.safetensors").read_bytes()
    (folder / "checkpoint.safetensors").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert {one.claim for one in _wrong(folder)} == {"content of the checkpoint"}
    (folder / "checkpoint.safetensors").write_bytes(content.replace(rb"\"step\":90", rb"\"step\":10"))
    assert "content of the checkpoint" in {one.claim for one in _wrong(folder)}


@pytest.mark.parametrize("field", ["step", "planned_steps", "n", "sampler", "seed", "loss", "run", "data"])
def test_a_forged_header_is_found_even_with_a_new_hash(folder: Path, field: str) -> None:
    old = load_checkpoint(folder).header[field]
    new = {"step": 45, "planned_steps": 45, "n": 2 * old if field == "n" else 0, "seed": 7,
           "sampler": {**old, "clip_norm": 0.5} if field == "sampler" else 0, "data": {"train": "0", "test": "0"},
           "loss": {"name": "x"}, "run": {**old, "epochs": 9.0} if field == "run" else 0}[field]  # fmt: skip
    _forge(folder, **{field: new})
    assert _wrong(folder, reported=True)


def test_a_shortened_history_is_found(folder: Path) -> None:
    """The checkpoint, its hash and the report's name of it are forged; the event is not that of the settings."""

    def shorten(report: dict[str, Any]) -> None:
        report["privacy"]["event"]["inner"][0]["count"] = 9

    _rewrite(folder / "certificates.json", shorten)
    assert {one.claim for one in _wrong(folder, reported=True)} == {"report"}


@pytest.mark.parametrize("cut", [slice(1, None), slice(None, -1)])
def test_rows_cannot_be_taken_out(folder: Path, cut: slice) -> None:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    (folder / "metrics.jsonl").write_text("".join(line + "\n" for line in lines[cut]))
    assert _wrong(folder)


def test_no_number_of_a_row_changes_without_notice(folder: Path) -> None:
    path = folder / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for place in leaves(rows, FREE):
        path.write_text("".join(json.dumps(row) + "\n" for row in moved(rows, place)))
        assert _wrong(folder), place


def test_no_number_of_config_or_result_changes_without_notice(folder: Path) -> None:
    for name in ("config.json", "result.json"):
        path, missed = folder / name, []
        whole = json.loads(path.read_text())
        for place in leaves(whole, FREE):
            path.write_text(json.dumps(moved(whole, place)))
            if not _wrong(folder):
                missed.append(place)
        path.write_text(json.dumps(whole))
        assert missed in ([], [("steps",), ("n",)], [("n",), ("steps",)]), missed


def test_no_number_of_a_report_changes_without_notice(runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """All that surrounds the certificates; `test_certificates` changes these."""
    monkeypatch.setattr(loss, "SECONDS", 0.0)  # the first grid decides
    path = runs["clipped"]
    report, missed = json.loads((path / "certificates.json").read_text()), []
    report["certificates"] = [one for one in report["certificates"] if one["name"] in SOME]
    checked = {name: value for name, value in report.items() if name != "details"}
    for place in leaves(checked, FREE):
        changed = moved(report, place)
        found = [*check_report({**changed, "details": {}}), *check_folder(path, changed)]
        if DOES_NOT not in {one.verdict for one in found}:
            missed.append(place)
    # the interval of a loss, and 1e-14 of a probability
    assert {place[-1] for place in missed} <= {"high", "unbounded_prob"}, missed


def test_rows_are_recounted(runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    header = load_checkpoint(folder).header
    problem = Problem.from_dict(header["problem"])
    train, _ = problem.data()
    network = problem.model(train, generator=torch.Generator().manual_seed(0))
    import recounted

    monkeypatch.setattr(recounted, "DATA", (train.inputs, train.labels.astype(np.int64)))
    monkeypatch.setattr(recounted, "MODEL", network)
    found = check_path(folder, data="recounted:data", model="recounted:model")
    assert [one for one in found if one.subject == "recount"] == [
        Statement("recount", "rows", FOLLOWS), Statement("recount", "errors", FOLLOWS)
    ]  # fmt: skip
    monkeypatch.setattr(recounted, "DATA", (train.inputs[::-1].copy(), train.labels[::-1].astype(np.int64)))
    assert check_path(folder, data="recounted:data")[-1].verdict == FOLLOWS  # the order does not enter
    wrong = train.inputs.copy()
    wrong[3, 0] += 1.0
    monkeypatch.setattr(recounted, "DATA", (wrong, train.labels.astype(np.int64)))
    assert check_path(folder, data="recounted:data")[-1].verdict == DOES_NOT
    monkeypatch.setattr(recounted, "DATA", (train.inputs, train.labels.astype(np.int64)))
    old = load_checkpoint(folder)
    model = {name: -value for name, value in old.model.items()}
    save_checkpoint(folder / "checkpoint.safetensors", Checkpoint(header=old.header, model=model, state=old.state))
    assert check_path(folder, data="recounted:data", model="recounted:model")[-1].verdict == DOES_NOT


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.uint8, np.int64, np.uint64, np.bool_])
def test_hashes_of_rows_are_those_of_the_data_package(kind: Any) -> None:
    rng = np.random.default_rng(1)
    inputs = (rng.uniform(0, 200, size=(700, 3, 5))).astype(kind)
    if kind == np.float64:
        inputs[::2] = np.float32(inputs[::2])
        inputs[5, 0, 0], inputs[7, 0, 0] = np.nan, -0.0
    labels, people = rng.integers(0, 10, 700), rng.integers(0, 40, 700)
    for whose in (None, people):
        assert rows_digest(inputs, labels, whose) == Rows.of(inputs, labels, whose).digest
    assert len(np.unique(row_hashes(labels))) == len(np.unique(labels))


def test_what_cannot_be_read_is_said_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "nothing.json")]) == 2
    (tmp_path / "broken.json").write_text("{")
    assert main([str(tmp_path / "broken.json")]) == 2
    (tmp_path / "old.json").write_text('{"format": "pacdp-certificates/1"}')
    assert main([str(tmp_path / "old.json")]) == 0
    assert "cannot be checked" in capsys.readouterr().out


def test_a_checkpoint_is_read_as_safetensors_reads_it(runs: dict[str, Path]) -> None:
    stored, loaded = read_checkpoint(runs["clipped"] / "checkpoint.safetensors"), load_checkpoint(runs["clipped"])
    assert stored.header == dict(loaded.header)
    for name, tensor in loaded.model.items():
        kind, shape, content = stored.tensors[f"model.{name}"]
        assert np.array_equal(np.frombuffer(content, kind).reshape(shape), tensor.numpy())
