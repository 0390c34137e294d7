"""Runs that are killed, stopped or diverge: what remains goes on to the same weights, bit for bit."""

import torch
from cli_tools import QUICK, read, rows, succeed, tensors
from tiny_runs import interrupted

from pacdp import load_trained
from pacdp.cli.config import Run
from pacdp.cli.folder import Folder
from pacdp.cli.main import main
from tests.file_faults import Fault, carried_out
from tests.marks import made_once

RECIPE = "entropy-sgld-digits2"
LENGTH = ("--epochs", "24", "--records", "4", "--checkpoint-seconds", "0", *QUICK[4:])
"""A checkpoint after every few steps, so that what is done to files is the same each time."""


@made_once
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    succeed("train", RECIPE, "--out", folder, *LENGTH)
    return folder


def _assert_same_run(folder, expected):
    assert (tensors(folder), rows(folder)) == (tensors(expected), rows(expected))
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
    interrupted(Folder(uninterrupted).config_of(Run), folder, after=27)
    text = (uninterrupted / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(text[:3]) + text[3][:40])
    succeed(*_again(folder))
    _assert_same_run(folder, uninterrupted)


def test_divergence_stops_names_the_step_and_keeps_the_last_good_checkpoint(tmp_path, refused):
    rising = ("--sampler.decay", "-1", "--epochs", "20", "--records", "20")
    said = refused("train", "sgld-digits2", "--out", tmp_path, *QUICK, *rising, alone=False)
    kept = load_trained(tmp_path)
    assert "NaN or infinite" in said
    assert 0 < kept.state.step < int(said.split("step ")[1].split(":")[0])
    assert torch.isfinite(kept.weights).all()
    assert rows(tmp_path)[-1]["step"] == kept.state.step
    assert not (tmp_path / "result.json").exists()
    succeed("certify", tmp_path, "--threads", 1)
