"""Runs that are killed, stopped or diverge: what remains goes on to the same weights, bit for bit."""

import pytest
import torch
from cli_tools import QUICK, read, rows, succeed, tensors
from tiny_runs import interrupted

from pacdp import load_trained
from pacdp.cli.config import Run
from pacdp.cli.main import main
from pacdp.cli.serial import from_dict
from tests.file_faults import Fault, carried_out

RECIPE = "entropy-sgld-digits2"
LENGTH = ("--epochs", "24", "--records", "4", "--checkpoint-seconds", "0", *QUICK[4:])
"""A checkpoint after every few steps, so that what is done to files is the same each time."""


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    succeed("train", RECIPE, "--out", folder, *LENGTH)
    return folder


def _assert_same_run(folder, expected):
    assert (tensors(folder), rows(folder)) == (tensors(expected), rows(expected))
    steps = [row["step"] for row in rows(folder)]
    assert steps == sorted(set(steps))
    assert read(folder / "config.json") == read(expected / "config.json")
    assert read(folder / "result.json").keys() == read(expected / "result.json").keys()


def _again(folder):
    return ["train", RECIPE, "--resume", "--out", str(folder), *LENGTH]


def test_control_c_exits_130_and_leaves_a_run_that_is_resumed_without_its_recipe(uninterrupted, tmp_path):
    folder, whole = tmp_path / "run", tmp_path / "whole"
    late = len(carried_out(main, (_again(whole),), root=whole).operations) * 3 // 4
    stopped = carried_out(main, (_again(folder),), root=folder, fault=Fault(at=late, kind="stop"))
    assert (stopped.exitcode, stopped.out) == (130, "")
    assert "Traceback" not in stopped.err
    assert "--resume" in stopped.err.splitlines()[-1]
    assert not (folder / "result.json").exists()
    assert 0 < load_trained(folder).state.step < 54
    succeed("train", "--resume", "--out", folder, "--threads", 1)
    _assert_same_run(folder, uninterrupted)


def test_a_row_beyond_the_checkpoint_is_not_repeated_and_a_torn_one_is_dropped(uninterrupted, tmp_path):
    """As if the power failed between the row and its checkpoint, and in the middle of the next row."""
    folder = tmp_path / "run"
    interrupted(from_dict(Run, read(uninterrupted / "config.json")), folder, after=27)
    text = (uninterrupted / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(text[:3]) + text[3][:40])
    succeed(*_again(folder))
    _assert_same_run(folder, uninterrupted)


@pytest.mark.parametrize(
    ("recipe_name", "options", "at_once"),
    [
        ("sgd-digits2", ("--sampler.step-size", "1e30", "--epochs", "0.1", "--records", "4"), True),
        ("sgld-digits2", ("--sampler.decay", "-1", "--epochs", "20", "--records", "20"), False),
    ],
)
def test_divergence_stops_names_the_step_and_keeps_the_last_good_checkpoint(
    recipe_name, options, at_once, tmp_path, refused
):
    said = refused("train", recipe_name, "--out", tmp_path, *QUICK, *options, alone=False)
    kept = load_trained(tmp_path)
    assert "NaN or infinite" in said
    step = kept.state.step
    assert 0 <= step < int(said.split("step ")[1].split(":")[0])
    assert (step == 0) is at_once
    assert torch.isfinite(kept.weights).all()
    assert [row["step"] for row in rows(tmp_path)][-1:] in ([], [step])
    assert not (tmp_path / "result.json").exists()
    succeed("certify", tmp_path, "--threads", 1)
