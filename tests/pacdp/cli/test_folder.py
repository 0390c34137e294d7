"""A run's folder: one process at a time, nobody else's file overwritten, and rows that are what was written."""

import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from os import listdir
from subprocess import PIPE

import pytest
from cli_tools import QUICK, RUN_FILES, read, start
from tiny_runs import RUNTIME, interrupted, tiny

from pacdp.cli import folder as module
from pacdp.cli.config import Run
from pacdp.cli.figures.run import plot
from pacdp.cli.folder import Folder, write_json, write_report
from pacdp.cli.report import write_report as write_page
from pacdp.cli.run import train
from pacdp.cli.runtime import Training
from pacdp.predictions import certify_predictions
from pacdp.store.files import begin
from tests.marks import every_case, parametrize, refusal

SGD = tiny("sgd")
HOLD = """
import sys
from pathlib import Path
from pacdp.cli.folder import Folder
with Folder(Path(sys.argv[1])).lock():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_two_processes_are_never_at_work_in_one_folder_and_a_killed_one_lets_go(tmp_path):
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], text=True, stdin=PIPE, stdout=PIPE)
    leftover = tmp_path / f".checkpoint.safetensors.{other.pid}.partial"
    mine = [tmp_path / name for name in (".tmpfile", ".tmp1a2b3c", ".film.mkv.partial", ".film.mkv.12.partial")]
    for path in (leftover, *mine):
        path.write_bytes(b"half")
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with refusal("another process is at work"):
            train(Run(), tmp_path, Training())
    finally:
        other.kill()
        other.communicate()
    with Folder(tmp_path).lock():
        assert not leftover.exists(), "what a killed writer left is removed"
    assert all(path.exists() for path in mine), "and what looks like it is not"


@pytest.mark.slow
def test_workers_go_on_with_their_own_runs_on_a_disk_without_flock(tmp_path, monkeypatch):
    """Each worker shows that it lives in the folder that it then locks; so runs were refused for ever."""
    (tmp_path / "sitecustomize.py").write_text(
        "import errno, fcntl\ndef flock(*_): raise OSError(errno.ENOSYS, 'no flock')\nfcntl.flock = flock\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    trained = start("train", "sgd-digits2", "--chains", 2, "--workers", 2, "--out", tmp_path / "run", *QUICK)
    _, err = trained.communicate()
    assert trained.returncode == 0, err
    assert "has no flock" in err


THEIRS = ("table.csv", "figure.png", "figure.pdf", "report.html", "certificates.json", "certificates.json.1", ".tmp12")


@parametrize("force", [False, True])
def test_a_folder_that_pacdp_never_used_keeps_what_is_in_it(tmp_path, force):
    for name in THEIRS:
        (tmp_path / name).write_text("mine")
    train(SGD, tmp_path, replace(RUNTIME, force=force))
    train(SGD, tmp_path, replace(RUNTIME, force=True))
    assert {(tmp_path / name).read_text() for name in THEIRS} == {"mine"}


@every_case("name", ["config.json", "metrics.jsonl", "checkpoint.safetensors", "provenance.json"])
def test_a_file_that_the_run_would_write_and_pacdp_did_not_is_not_overwritten(tmp_path, name):
    for other in (name, "figure.png"):
        (tmp_path / other).write_text('{"mine": 1}')
    with refusal(f"{name} was not written by pacdp: move it away"):
        train(SGD, tmp_path, replace(RUNTIME, force=True))
    assert {path.name for path in tmp_path.iterdir() if path.name not in (".lock", ".pacdp")} == {name, "figure.png"}
    assert (tmp_path / name).read_text() == '{"mine": 1}'


@parametrize("listed", [True, False])
def test_every_earlier_report_is_kept_under_a_free_name_and_leaves_with_its_run(tmp_path, listed):
    mine, folder = tmp_path / "certificates.json.2", Folder(tmp_path)
    mine.write_text("mine")
    if listed:
        begin(tmp_path)
    for k in (1, 2, 2, 3, 4):
        write_report(folder.certificates, {"format": "pacdp-certificates/2", "k": k, "provenance": time.time()})
    names = ("certificates.json.1", "certificates.json.3", "certificates.json.4", "certificates.json")
    assert [read(tmp_path / name)["k"] for name in names] == [1, 2, 3, 4]
    folder.clear()
    assert {path for path in tmp_path.glob("c*")} == {mine, *([] if listed else map(tmp_path.joinpath, names))}
    assert mine.read_text() == "mine"


@every_case(("write", "name"), [(write_page, "report.html"), (plot, "figure.png"), (plot, "figure.pdf")])
def test_a_page_and_a_figure_keep_what_stands_in_their_place(write, name, tmp_path, capsys):
    write_json(tmp_path / "certificates.json", certify_predictions(["a", "b"] * 9, ["a"] * 18).to_dict())
    (tmp_path / name).write_text("mine")
    for _ in range(2):
        write(tmp_path)
    assert sorted(path.name for path in tmp_path.glob(f"{name}*")) == [name, f"{name}.1"]
    assert (tmp_path / f"{name}.1").read_text() == "mine"
    assert f"kept as {name}.1" in " ".join(capsys.readouterr().err.split())


def test_a_diagnosis_of_somebody_else_s_is_seen_before_chains_are_trained(tmp_path, refused):
    (tmp_path / "diagnosis.json").write_text('{"patient": 1}')
    assert "is no report of diagnosis" in refused("train", "sgd-digits2", "--chains", 2, "--out", tmp_path, *QUICK)
    assert listdir(tmp_path) == ["diagnosis.json"]


def test_what_pacdp_wrote_is_removed_by_force_and_a_run_of_an_earlier_version_is_refused_by_name(copied, refused):
    folder = copied("sgd")
    plot(folder)
    (folder / "figure.svg").write_text("mine")
    train(SGD, folder, replace(RUNTIME, force=True))
    assert {path.name for path in folder.iterdir() if path.name[0] != "."} == {*RUN_FILES, "figure.svg"}
    config = read(folder / "config.json")
    write_json(folder / "config.json", {name: config[name] for name in config if name not in ("format", "kind")})
    made_by = rf"pacdp {read(folder / 'provenance.json')['versions']['pacdp']} \(commit"
    for arguments in (("train", "--resume", "--out"), ("certify",)):
        (folder / "result.json").unlink(missing_ok=True)
        assert re.search(made_by, refused(*arguments, folder))


# rows


@pytest.fixture
def folder(tmp_path):
    """A folder with three rows."""
    made = Folder(tmp_path)
    made.keep_rows(up_to_step=-1)
    for step in (5, 10, 15):
        made.append_row({"step": step, "bounds": {"maurer": 0.1 + step}, "seconds": step / 7})
    return made


def _lines(folder):
    return folder.metrics.read_text().splitlines(keepends=True)


DAMAGE = {
    "a row taken out": lambda one, two, three: one + three,
    "the first row taken out": lambda one, two, three: two + three,
    "rows changed places": lambda one, two, three: two + one + three,
    "a hash taken out": lambda one, two, three: one + '{"step": 10}\n' + three,
    "a last row that was not cut short": lambda one, two, three: one + two + three.replace("15.1", "15.2"),
    "not finite": lambda one, two, three: one + two + three.replace("15.1", "NaN"),
}


@every_case("what", DAMAGE)
def test_rows_that_are_not_what_was_written_are_refused_and_none_is_lost(folder, what):
    damaged = DAMAGE[what](*_lines(folder))
    folder.metrics.write_text(damaged)
    for use in (folder.rows, lambda: folder.keep_rows(up_to_step=20), lambda: folder.append_row({"step": 20})):
        with refusal(r"metrics.jsonl is damaged: row \d is not what was written"):
            use()
        assert folder.metrics.read_text() == damaged


def test_a_resumed_run_whose_rows_were_damaged_is_refused(tmp_path):
    """The damage once took all later rows with it, and the run ended with a step that it had not reached."""
    run, metrics = tiny("sgd", records=4), tmp_path / "metrics.jsonl"
    interrupted(run, tmp_path, after=60)
    whole = metrics.read_text()
    first = whole[: whole.index("\n") + 1]
    damages = {"is damaged: row 1 is not what": whole.replace("train_loss", "train-loss", 1), "run has recorded": first}
    for said, damaged in damages.items():
        metrics.write_text(damaged)
        with refusal(said):
            train(run, tmp_path, replace(RUNTIME, resume=True))
        assert metrics.read_text() == damaged
    metrics.write_text(whole)
    assert train(run, tmp_path, replace(RUNTIME, resume=True))["final"]["step"] == 90


def test_the_commit_is_that_of_the_code_and_results_written_since_are_no_change_of_it(tmp_path, monkeypatch):
    code, result = tmp_path / "pacdp" / "cli" / "folder.py", tmp_path / "docs" / "results.md"
    installed = tmp_path / ".venv" / "site-packages" / "pacdp" / "cli" / "folder.py"
    for file in (code, result, installed):
        file.parent.mkdir(parents=True)
        file.write_text("before")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "."), (*identity, "commit", "-q", "-m", "first")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    monkeypatch.setattr(module, "__file__", str(code))
    monkeypatch.setattr(module, "_git", module._git.__wrapped__)  # which is asked once elsewhere
    for file in (result, code):
        file.write_text("after")
        assert module.provenance(device="cpu", seed=0)["dirty"] is (file == code)
    assert module.provenance(device="cpu", seed=0)["commit"]
    monkeypatch.setattr(module, "__file__", str(installed))  # in an environment within a project of somebody's own
    assert module.provenance(device="cpu", seed=0)["commit"] is None


def test_a_run_whose_files_would_not_fit_is_refused_before_it_starts(tmp_path, monkeypatch):
    free = type("Usage", (), {"free": 2_000_000})
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: free)
    train(SGD, tmp_path / "fits", RUNTIME)
    free.free = 1_000_000
    with refusal("has 1 MB free, the run needs .* MB: make room"):
        train(SGD, tmp_path / "large", RUNTIME)
    assert not (tmp_path / "large").exists()
