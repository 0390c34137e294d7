"""Runs that are killed, stopped or diverge: what remains goes on to the same weights, bit for bit."""

import random
import shutil
from pathlib import Path

import pytest
import torch
from cli_tools import QUICK, RUN_FILES, one_sentence, pacdp, read, rows, tensors
from tiny_runs import interrupted

from pacdp import load_trained
from pacdp.cli.config import Run
from pacdp.cli.main import main
from pacdp.cli.serial import from_dict
from tests.file_faults import Fault, carried_out

RECIPE = "entropy-sgld-digits2"
LENGTH = ("--epochs", "60", "--records", "4", "--checkpoint-seconds", "0", *QUICK[4:])
"""A checkpoint after every few steps, so that what is done to files is the same each time."""


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    assert pacdp("train", RECIPE, "--out", folder, *LENGTH) == 0
    return folder


def _assert_same_run(folder: Path, expected: Path) -> None:
    assert tensors(folder) == tensors(expected)
    assert rows(folder) == rows(expected)
    steps = [row["step"] for row in rows(folder)]
    assert steps == sorted(set(steps))
    assert read(folder / "config.json") == read(expected / "config.json")
    assert read(folder / "result.json").keys() == read(expected / "result.json").keys()


def _again(folder: Path) -> list[str]:
    return ["train", RECIPE, "--resume", "--out", str(folder), *LENGTH]


def test_killed_at_any_operation_and_resumed_gives_the_uninterrupted_run(uninterrupted, tmp_path):
    folder, chance, met = tmp_path / "run", random.Random(7), []
    for at in (2, 45, *(chance.randrange(6, 28) for _ in range(4))):
        assert carried_out(main, (_again(folder),), root=tmp_path, fault=Fault(at=at)).killed
        met.append(load_trained(folder).state.step if (folder / "checkpoint.safetensors").exists() else -1)
    assert not (folder / "result.json").exists()
    assert met == sorted(met), "no checkpoint was lost"
    assert met[0] < 0 < met[-1]
    assert pacdp(*_again(folder)) == 0
    _assert_same_run(folder, uninterrupted)


def test_killed_before_its_first_checkpoint(uninterrupted, tmp_path):
    folder = tmp_path / "run"
    whole = carried_out(main, (_again(folder),), root=tmp_path)
    first = whole.operations.index("replace run/checkpoint.safetensors")
    shutil.rmtree(folder)
    folder.mkdir()
    assert carried_out(main, (_again(folder),), root=tmp_path, fault=Fault(at=first + 1)).killed
    assert not (folder / "checkpoint.safetensors").exists()
    assert pacdp(*_again(folder)) == 0
    assert {path.name for path in folder.iterdir() if not path.name.startswith(".")} == RUN_FILES
    assert [row["step"] for row in rows(folder)] == [34, 68, 101, 135]
    _assert_same_run(folder, uninterrupted)


def test_control_c_exits_130_and_leaves_a_run_that_is_resumed_without_its_recipe(uninterrupted, tmp_path):
    folder = tmp_path / "run"
    stopped = carried_out(main, (_again(folder),), root=tmp_path, fault=Fault(at=70, kind="stop"))
    assert (stopped.exitcode, stopped.out) == (130, "")
    assert "Traceback" not in stopped.err
    assert "--resume" in stopped.err.splitlines()[-1]
    assert not (folder / "result.json").exists()
    assert 0 < load_trained(folder).state.step < 135
    assert pacdp("train", "--resume", "--out", folder, "--threads", 1) == 0
    _assert_same_run(folder, uninterrupted)


def test_a_row_beyond_the_checkpoint_is_not_repeated_and_a_torn_one_is_dropped(uninterrupted, tmp_path):
    """As if the power failed between the row and its checkpoint, and in the middle of the next row."""
    folder = tmp_path / "run"
    interrupted(from_dict(Run, read(uninterrupted / "config.json")), folder, after=68)
    text = (uninterrupted / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(text[:3]) + text[3][:40])
    assert pacdp(*_again(folder)) == 0
    _assert_same_run(folder, uninterrupted)


def test_another_configuration_is_not_resumed(copied, refused):
    folder = copied("sgd")
    (folder / "result.json").unlink()
    before = tensors(folder)
    for change in (("--seed", 1), ("--sampler.step-size", 0.2), ("--epochs", 3)):
        said = refused("train", "sgd-digits2", "--resume", "--out", folder, *QUICK, *change)
        assert "another configuration" in said
    refused("train", "sgld-digits2", "--resume", "--out", folder, *QUICK)
    assert tensors(folder) == before
    assert not (folder / "result.json").exists()


@pytest.mark.parametrize(
    ("recipe_name", "options", "at_once"),
    [
        ("sgd-digits2", ("--sampler.step-size", "1e30", "--epochs", "20"), True),
        ("sgd-digits2", ("--sampler.step-size", "1e30", "--epochs", "0.1", "--records", "4"), True),
        ("sgld-digits2", ("--sampler.decay", "-1", "--epochs", "20", "--records", "20"), False),
    ],
)
def test_divergence_stops_names_the_step_and_keeps_the_last_good_checkpoint(
    recipe_name, options, at_once, tmp_path, capsys
):
    folder = tmp_path / "run"
    assert pacdp("train", recipe_name, "--out", folder, *QUICK, *options) == 1
    said = one_sentence(capsys.readouterr().err.strip().splitlines()[-1])
    named = int(said.split("step ")[1].split(":")[0])
    assert "NaN or infinite" in said
    kept = load_trained(folder)
    assert 0 <= kept.state.step < named
    assert (kept.state.step == 0) is at_once
    assert torch.isfinite(kept.weights).all()
    assert [row["step"] for row in rows(folder)][-1:] in ([], [kept.state.step])
    assert not (folder / "result.json").exists()
    assert pacdp("certify", folder, "--threads", 1) == 0
