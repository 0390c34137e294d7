import json
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from tiny_runs import RUNTIME, tiny

from pacdp import load_checkpoint
from pacdp.canonical import digest
from pacdp.cli import folder as module
from pacdp.cli.certifying import plot
from pacdp.cli.config import Run, Runtime
from pacdp.cli.folder import Folder
from pacdp.cli.run import train
from pacdp.files import LIST

HOLD = """
import sys
from pathlib import Path
from pacdp.cli.folder import Folder
with Folder(Path(sys.argv[1])).lock():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_two_processes_are_never_at_work_in_one_folder_and_a_killed_one_lets_go(tmp_path) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(ValueError, match="another process is at work"):
            train(Run(), tmp_path, Runtime())
    finally:
        other.kill()
        other.communicate()
    with Folder(tmp_path).lock():
        pass


def test_what_a_killed_writer_left_is_removed_and_what_looks_like_it_is_not(tmp_path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    leftover = tmp_path / f".checkpoint.safetensors.{process.pid}.partial"
    mine = [tmp_path / name for name in (".tmpfile", ".tmp1a2b3c", ".film.mkv.partial", ".film.mkv.12.partial")]
    for path in (leftover, *mine):
        path.write_bytes(b"half")
    with Folder(tmp_path).lock():
        assert not leftover.exists()
    assert all(path.exists() for path in mine)


THEIRS = ("table.csv", "figure.png", "figure.pdf", "report.html", "certificates.json", ".tmp12", "snapshots/mine.txt")


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_that_pacdp_never_used_keeps_what_is_in_it(tmp_path, force: bool) -> None:
    (tmp_path / "snapshots").mkdir()
    for name in THEIRS:
        (tmp_path / name).write_text("mine")
    train(tiny("sgd"), tmp_path, RUNTIME, force=force)
    train(tiny("sgd"), tmp_path, RUNTIME, force=True)
    assert {(tmp_path / name).read_text() for name in THEIRS} == {"mine"}


@pytest.mark.parametrize("name", ["config.json", "metrics.jsonl", "checkpoint.safetensors", "provenance.json"])
def test_a_file_that_the_run_would_write_and_pacdp_did_not_is_not_overwritten(tmp_path, name: str) -> None:
    for other in {name, "figure.png"}:
        (tmp_path / other).write_text('{"mine": 1}')
    with pytest.raises(ValueError, match=f"{name} was not written by pacdp: move it away"):
        train(tiny("sgd"), tmp_path, RUNTIME, force=True)
    assert {path.name for path in tmp_path.iterdir() if path.name not in (".lock", ".pacdp")} == {name, "figure.png"}
    assert (tmp_path / name).read_text() == '{"mine": 1}'


def test_what_pacdp_wrote_is_removed_by_force_and_a_run_of_an_earlier_version_is_known_by_its_provenance(tmp_path):
    train(tiny("sgd"), tmp_path, RUNTIME)
    plot(Folder(tmp_path))
    (tmp_path / "figure.svg").write_text("mine")
    train(tiny("sgd"), tmp_path, RUNTIME, force=True)
    left = {"config.json", "provenance.json", "metrics.jsonl", "checkpoint.safetensors", "result.json"}
    assert {path.name for path in tmp_path.iterdir() if path.name[0] != "."} == {*left, "figure.svg"}
    (tmp_path / LIST).unlink()
    (tmp_path / "figure.png").write_text("nobody knows whose")
    train(tiny("sgd"), tmp_path, RUNTIME, force=True)
    assert (tmp_path / "figure.png").exists()


def test_force_keeps_the_old_run_until_the_new_one_can_start(tmp_path) -> None:
    folder = Folder(tmp_path)
    folder.result.write_text("{}")
    with pytest.raises(ValueError, match="no-such-folder"):
        train(replace(Run(), problem=replace(Run().problem, dataset="mnist2")), tmp_path,
              Runtime(data_root="no-such-folder"), force=True)  # fmt: skip
    assert folder.finished


def test_rows_end_at_a_line_cut_short(tmp_path) -> None:
    folder = Folder(tmp_path)
    folder.append_row({"step": 1, "time": time.time()})
    with folder.metrics.open("a") as file:
        file.write('{"step": 2, "ti')
    assert [row["step"] for row in folder.rows()] == [1]


def _three_rows(folder: Folder) -> list[str]:
    for step in (5, 10, 15):
        folder.append_row({"step": step, "bounds": {"maurer": 0.1 + step}, "seconds": step / 7})
    return folder.metrics.read_text().splitlines(keepends=True)


def _without_row(lines: list[str]) -> str:
    return lines[0] + lines[2]


DAMAGE = {
    "a number": lambda lines: "".join(lines).replace("10.1", "10.0"),
    "a step": lambda lines: "".join(lines).replace('"step": 10', '"step": 11'),
    "the seconds": lambda lines: "".join(lines).replace("0.71428", "0.71429"),
    "a name": lambda lines: "".join([lines[0], lines[1].replace("maurer", "mauler"), lines[2]]),
    "no JSON": lambda lines: lines[0] + "x" + lines[1] + lines[2],
    "no line break": lambda lines: "".join(lines).replace("\n", " ", 1),
    "an empty line": lambda lines: lines[0] + "\n" + lines[1] + lines[2],
    "a row taken out": _without_row,
    "the first row taken out": lambda lines: lines[1] + lines[2],
    "rows changed places": lambda lines: lines[1] + lines[0] + lines[2],
    "a row twice": lambda lines: lines[0] + lines[0] + lines[1],
    "a hash taken out": lambda lines: lines[0] + json.dumps({"step": 10}) + "\n" + lines[2],
    "another program's row": lambda lines: lines[0] + "[1, 2]\n",
    "a last row that was not cut short": lambda lines: "".join(lines[:2]) + lines[2].replace("15.1", "15.2"),
    "not finite": lambda lines: "".join(lines[:2]) + lines[2].replace("15.1", "NaN"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_rows_that_are_not_what_was_written_are_refused_and_none_is_lost(tmp_path, what: str) -> None:
    folder = Folder(tmp_path)
    damaged = DAMAGE[what](_three_rows(folder))
    folder.metrics.write_text(damaged)
    for use in (folder.rows, lambda: folder.keep_rows(up_to_step=20), lambda: folder.append_row({"step": 20})):
        with pytest.raises(ValueError, match=r"metrics.jsonl is damaged: row \d is not what was written"):
            use()
        assert folder.metrics.read_text() == damaged


def test_each_damaged_byte_of_a_row_that_is_not_the_last_is_found(tmp_path) -> None:
    folder = Folder(tmp_path)
    lines = _three_rows(folder)
    rows, whole = folder.rows(), "".join(lines).encode()
    for where in range(len(lines[0]), len(lines[0]) + len(lines[1])):
        for bit in (0, 3, 7):
            damaged = bytearray(whole)
            damaged[where] ^= 1 << bit
            folder.metrics.write_bytes(bytes(damaged))
            try:
                found = folder.rows()
            except ValueError:
                continue
            assert found == rows, (where, bit)


def test_rows_of_earlier_versions_have_no_hash_and_get_one_when_their_run_goes_on(tmp_path) -> None:
    folder = Folder(tmp_path)
    _three_rows(folder)
    rows, chained = folder.rows(), folder.metrics.read_text()
    folder.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert folder.rows() == rows
    assert folder.content_hashes()["metrics"] is None
    folder.keep_rows(up_to_step=15)
    assert folder.metrics.read_text() == chained


def test_rows_that_are_missing_before_the_checkpoint_are_noticed(tmp_path) -> None:
    folder = Folder(tmp_path)
    lines = _three_rows(folder)
    folder.keep_rows(up_to_step=12, expected=[5, 10])
    assert folder.metrics.read_text() == "".join(lines[:2])
    with pytest.raises(ValueError, match=r"has rows for the steps \[5, 10\], but .* has recorded \[5, 10, 15\]"):
        folder.keep_rows(up_to_step=17, expected=[5, 10, 15])
    assert folder.metrics.read_text() == "".join(lines[:2])


def test_the_result_names_what_it_rests_on(tmp_path) -> None:
    folder = Folder(tmp_path)
    run = tiny("sgd")
    result = train(run, tmp_path, RUNTIME)
    assert result == json.loads(folder.result.read_text())
    header = load_checkpoint(folder.checkpoint).header
    last = json.loads(folder.metrics.read_text().splitlines()[-1])
    expected = {"config": header["config_hash"], "metrics": last["hash"], "checkpoint": header["content_hash"]}
    assert result["rests_on"] == expected
    assert header["config_hash"] == digest(json.loads(folder.config.read_text()))
    assert {key: value for key, value in last.items() if key != "hash"} == result["final"] == folder.rows()[-1]


def test_a_resumed_run_whose_rows_were_damaged_is_refused(tmp_path) -> None:
    """The damage once took all later rows with it, and the run ended with a step that it had not reached."""

    def stop(step, steps, row):
        if row is not None and step > steps / 2:
            raise KeyboardInterrupt

    run = tiny("sgd", records=4)
    with pytest.raises(KeyboardInterrupt):
        train(run, tmp_path, RUNTIME, report=stop)
    metrics = tmp_path / "metrics.jsonl"
    whole = metrics.read_text()
    first = whole[: whole.index("\n") + 1]
    damages = {"is damaged: row 1 is not what": whole.replace("train_loss", "train-loss", 1), "run has recorded": first}
    for said, damaged in damages.items():
        metrics.write_text(damaged)
        with pytest.raises(ValueError, match=said):
            train(run, tmp_path, RUNTIME, resume=True)
        assert metrics.read_text() == damaged
    metrics.write_text(whole)
    assert train(run, tmp_path, RUNTIME, resume=True)["final"]["step"] == 90


def test_results_that_were_written_since_the_commit_are_no_change_of_the_code(tmp_path, monkeypatch):
    files = {name: tmp_path / name for name in ("pacdp/cli/folder.py", "experiments/results/a/table.csv",
                                                "docs/results.md", "pacdp/code.py")}  # fmt: skip
    for file in files.values():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("before")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "."), (*identity, "commit", "-q", "-m", "first")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    monkeypatch.setattr(module, "__file__", str(files["pacdp/cli/folder.py"]))
    files["experiments/results/a/table.csv"].write_text("after")
    files["docs/results.md"].write_text("after")
    assert module.provenance(device="cpu", seed=0)["dirty"] is False
    files["pacdp/code.py"].write_text("after")
    assert module.provenance(device="cpu", seed=0)["dirty"] is True
