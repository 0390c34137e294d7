"""Folders of which one file was damaged: every command that reads one succeeds, or says in a sentence why not."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest
from cli_tools import QUICK, one_sentence, pacdp
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pacdp.cli.predicting import tables
from tests.hostile import contents, limited
from tests.marks import every_case, parametrize, refusal, slow

FILES = (
    "config.json", "provenance.json", "metrics.jsonl", "checkpoint.safetensors", "result.json", "certificates.json",
    ".pacdp",
)  # fmt: skip
COMMANDS = {
    "certify": ("certify",), "verify": ("verify",), "report": ("report",), "plot": ("plot",),
    "resume": ("train", "--resume", "--out"), "force": ("train", "sgld-digits2", *QUICK, "--force", "--out"),
}  # fmt: skip
EXAMPLES = [pytest.param(1, id="few"), slow(500, id="many")]


@pytest.mark.cases(2)
@every_case("examples", EXAMPLES)
@parametrize("command", COMMANDS)
def test_a_damaged_file_ends_in_a_sentence(runs, tmp_path, capsys, command, examples):
    whole = runs["sgld"]
    damages = {name: contents((whole / name).read_bytes()) for name in FILES}

    @settings(
        max_examples=examples, suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )  # fmt: skip
    @given(st.data())
    def damage(data):
        name = data.draw(st.sampled_from(FILES))
        content = data.draw(damages[name])
        folder = Path(copytree(whole, tmp_path / "run"))
        (folder / name).write_bytes(content)
        capsys.readouterr()
        try:
            with limited(memory=2**30, seconds=60.0):
                status = pacdp(*COMMANDS[command], folder)
        finally:
            shutil.rmtree(folder)
        said = capsys.readouterr()
        assert status in ((0, 1, 2, 3) if command == "verify" else (0, 1, 2))
        if command != "verify" and status:
            assert "recursion" not in one_sentence(said.err)
        assert said.out or said.err

    damage()


@every_case("name", ["[red]x[/red]2", ":x:", "-dash", "a b"])
def test_names_are_told_as_they_are_and_fit_for_a_command_line(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    assert pacdp("train", "sgd-digits2", *QUICK, "--resume", "--out", f"./{name}") == 0
    said = " ".join(capsys.readouterr().err.split("\n"))
    assert f"finished {name};" in said
    assert "a new run begins" in said
    assert shlex.split(said.split("next: ")[1])[2] == (f"./{name}" if name[0] == "-" else name)


def test_ctrl_c_while_the_command_is_loaded_is_a_sentence(tmp_path):
    (tmp_path / "tyro.py").write_text("raise KeyboardInterrupt")
    where = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "pacdp.cli", "data"], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": where},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (130, "pacdp: stopped\n")


def test_a_panic_of_rust_is_not_shown(tmp_path, monkeypatch, capfd):
    def scan(path, **options):
        os.write(2, b"thread '<unnamed>' panicked")
        raise tables.pl.exceptions.PanicException("called `Result::unwrap()`")

    monkeypatch.setattr(tables.pl, "scan_parquet", scan)
    with refusal(r"cannot be read as parquet \(it is damaged\): write it anew"):
        tables.read_table(tmp_path / "a.parquet")
    assert capfd.readouterr().err == ""
