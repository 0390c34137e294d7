import subprocess
import sys
import time
from dataclasses import replace

import pytest

from experiments import folder as module
from experiments.config import Run, Runtime
from experiments.folder import Folder
from experiments.run import train

HOLD = """
import sys, time
from pathlib import Path
from experiments.folder import Folder
with Folder(Path(sys.argv[1])).lock():
    print("held", flush=True)
    time.sleep(60)
"""


def test_two_processes_are_never_at_work_in_one_folder_and_a_killed_one_lets_go(tmp_path) -> None:
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
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


def test_what_a_killed_writer_left_is_removed(tmp_path) -> None:
    leftover = tmp_path / ".checkpoint.safetensors.123.partial"
    leftover.write_bytes(b"half")
    with Folder(tmp_path).lock():
        assert not leftover.exists()


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


def test_results_that_were_written_since_the_commit_are_no_change_of_the_code(tmp_path, monkeypatch):
    files = {name: tmp_path / name for name in ("experiments/folder.py", "experiments/results/a/table.csv",
                                                "docs/results.md", "pacdp/code.py")}  # fmt: skip
    for file in files.values():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("before")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "."), (*identity, "commit", "-q", "-m", "first")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    monkeypatch.setattr(module, "__file__", str(files["experiments/folder.py"]))
    files["experiments/results/a/table.csv"].write_text("after")
    files["docs/results.md"].write_text("after")
    assert module.provenance(device="cpu", seed=0)["dirty"] is False
    files["pacdp/code.py"].write_text("after")
    assert module.provenance(device="cpu", seed=0)["dirty"] is True
