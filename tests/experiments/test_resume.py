"""Runs that are killed, stopped or diverge: what remains goes on to the same weights, bit for bit."""

import random
from pathlib import Path

import pytest
import torch
from cli_tools import QUICK, RUN_FILES, one_sentence, pacdp, read, rows, tensors

from pacdp import load_trained
from pacdp.cli.config import Run, Runtime
from pacdp.cli.main import main
from pacdp.cli.run import train
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


def test_killed_at_any_operation_and_resumed_gives_the_uninterrupted_run(uninterrupted, tmp_path):
    folder, chance, met = tmp_path / "run", random.Random(7), []
    arguments = ["train", RECIPE, "--resume", "--out", str(folder), *LENGTH]
    for at in (2, 45, *(chance.randrange(6, 28) for _ in range(4))):
        assert carried_out(main, (arguments,), root=tmp_path, fault=Fault(at=at)).killed
        met.append(load_trained(folder).state.step if (folder / "checkpoint.safetensors").exists() else -1)
    assert not (folder / "result.json").exists()
    assert met == sorted(met), "no checkpoint was lost"
    assert met[0] < 0 < met[-1]
    assert pacdp(*arguments) == 0
    _assert_same_run(folder, uninterrupted)


def test_killed_before_its_first_checkpoint(uninterrupted, tmp_path):
    folder = tmp_path / "run"
    arguments = ["train", RECIPE, "--resume", "--out", str(folder), *LENGTH]
    whole = carried_out(main, (arguments,), root=tmp_path)
    assert whole.exitcode == 0
    first = whole.operations.index("replace run/checkpoint.safetensors")
    for path in folder.iterdir():
        path.unlink()
    assert carried_out(main, (arguments,), root=tmp_path, fault=Fault(at=first + 1)).killed
    assert not (folder / "checkpoint.safetensors").exists()
    assert pacdp(*arguments) == 0
    assert {path.name for path in folder.iterdir() if not path.name.startswith(".")} == RUN_FILES
    assert [row["step"] for row in rows(folder)] == [34, 68, 101, 135]
    _assert_same_run(folder, uninterrupted)


def test_control_c_exits_130_and_leaves_a_resumable_run(uninterrupted, tmp_path):
    folder = tmp_path / "run"
    arguments = ["train", RECIPE, "--out", str(folder), *LENGTH]
    stopped = carried_out(main, (arguments,), root=tmp_path, fault=Fault(at=70, kind="stop"))
    assert (stopped.exitcode, stopped.out) == (130, "")
    assert "Traceback" not in stopped.err
    assert "--resume" in stopped.err.splitlines()[-1]
    assert not (folder / "result.json").exists()
    assert 0 < load_trained(folder).state.step < 135
    assert pacdp(*arguments, "--resume") == 0
    _assert_same_run(folder, uninterrupted)


def test_resume_without_a_recipe_takes_the_folder_s(uninterrupted, tmp_path):
    def stop(step, steps, row):
        if step >= steps / 2:
            raise KeyboardInterrupt

    config = read(uninterrupted / "config.json")
    with pytest.raises(KeyboardInterrupt):
        train(from_dict(Run, config), tmp_path / "run", Runtime(threads=1), report=stop)
    assert pacdp("train", "--resume", "--out", tmp_path / "run", "--threads", 1) == 0
    _assert_same_run(tmp_path / "run", uninterrupted)


def test_a_row_beyond_the_checkpoint_is_not_repeated_and_a_torn_one_is_dropped(uninterrupted, tmp_path):
    """As if the power failed between the row and its checkpoint, and in the middle of the next row."""
    folder = tmp_path / "run"
    arguments = ("train", RECIPE, "--out", folder, *LENGTH)

    def stop(step, steps, row):
        if row is not None and len(rows(folder)) == 2:
            raise KeyboardInterrupt

    config = from_dict(Run, read(uninterrupted / "config.json"))
    with pytest.raises(KeyboardInterrupt):
        train(config, folder, Runtime(threads=1), report=stop)
    text = (uninterrupted / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(text[:3]) + text[3][:40])
    assert pacdp(*arguments, "--resume") == 0
    _assert_same_run(folder, uninterrupted)


def test_another_configuration_or_device_is_not_resumed(copied, capsys):
    folder = copied("sgd")
    (folder / "result.json").unlink()
    before = tensors(folder)
    for change in (("--seed", 1), ("--sampler.step-size", 0.2), ("--epochs", 3)):
        assert pacdp("train", "sgd-digits2", "--resume", "--out", folder, *QUICK, *change) == 1
        assert "another configuration" in one_sentence(capsys.readouterr().err)
    assert pacdp("train", "sgld-digits2", "--resume", "--out", folder, *QUICK) == 1
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
