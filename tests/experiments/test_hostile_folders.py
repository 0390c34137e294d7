"""Folders of which one file was damaged: every command that reads one succeeds, or says in a sentence why not."""

import shutil
from pathlib import Path

import pytest
from cli_tools import QUICK, one_sentence, pacdp
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.hostile import contents, limited

FILES = (
    "config.json", "provenance.json", "metrics.jsonl", "checkpoint.safetensors", "result.json", "certificates.json",
    ".pacdp",
)  # fmt: skip
COMMANDS = {
    "certify": ("certify",), "verify": ("verify",), "report": ("report",), "plot": ("plot",),
    "resume": ("train", "--resume", "--out"), "force": ("train", "sgld-digits2", *QUICK, "--force", "--out"),
}  # fmt: skip
EXAMPLES = [pytest.param(1, id="few"), pytest.param(500, id="many", marks=pytest.mark.slow)]


@pytest.mark.cases(2)
@pytest.mark.every_case
@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("command", COMMANDS)
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
        folder = Path(shutil.copytree(whole, tmp_path / "run"))
        (folder / name).write_bytes(content)
        capsys.readouterr()
        try:
            with limited(memory=2**30, seconds=60.0):
                status = pacdp(*COMMANDS[command], folder)
        finally:
            shutil.rmtree(folder)
        said = capsys.readouterr()
        assert status in (0, 1, 2)
        if command != "verify" and status:
            assert "recursion" not in one_sentence(said.err)
        assert said.out or said.err

    damage()
