"""Runs that are killed, stopped or diverge: what remains goes on to the same weights, bit for bit."""

import multiprocessing
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from cli_tools import QUICK, RUN_FILES, one_sentence, pacdp, read, rows, start, tensors

from experiments.cli import main
from experiments.config import Run, Runtime
from experiments.run import train
from experiments.serial import from_dict
from pacdp import load_trained

RECIPE = "entropy-sgld-digits2"
LENGTH = ("--epochs", "60", "--records", "4", "--checkpoint-seconds", "0.02", *QUICK[4:])
LONGER = ("--epochs", "600", "--records", "100", "--checkpoint-seconds", "0.1", *QUICK[4:])


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    assert pacdp("train", RECIPE, "--out", folder, *LENGTH) == 0
    return folder


@pytest.fixture(scope="module")
def processes():
    """Starts processes that have imported everything already, so that a kill meets training and not an import."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["experiments.commands_runs", "sklearn.datasets"])
    return context


def _wait_for(come: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not come():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.002)


def _identity(path: Path) -> int | None:
    """A number that changes when the file is replaced, as it is when a run is opened."""
    return path.stat().st_ino if path.exists() else None


def _assert_same_run(folder: Path, expected: Path) -> None:
    assert tensors(folder) == tensors(expected)
    assert rows(folder) == rows(expected)
    steps = [row["step"] for row in rows(folder)]
    assert steps == sorted(set(steps))
    assert read(folder / "config.json") == read(expected / "config.json")
    assert read(folder / "result.json").keys() == read(expected / "result.json").keys()


def test_killed_at_any_moment_and_resumed_gives_the_uninterrupted_run(uninterrupted, processes, tmp_path):
    folder, chance = tmp_path / "run", random.Random(7)
    arguments = ["train", RECIPE, "--resume", "--out", str(folder), *LENGTH]
    whole = read(uninterrupted / "result.json")["final"]["seconds"]
    met = []
    for attempt in range(8):
        opened = _identity(folder / "metrics.jsonl")
        process = processes.Process(target=main, args=(arguments,))
        process.start()
        if attempt == 0:
            _wait_for(folder.exists)  # as early as it goes: the folder is there, its files may not be
        else:
            _wait_for(lambda opened=opened: _identity(folder / "metrics.jsonl") != opened)
            time.sleep(0.3 * whole * chance.random())
        process.kill()
        process.join()
        finished = (folder / "result.json").exists()
        met.append(load_trained(folder).state.step if (folder / "checkpoint.safetensors").exists() else -1)
        if finished:
            break
    assert pacdp("train", RECIPE, "--resume", "--out", folder, *LENGTH) == (1 if finished else 0)
    assert len(met) >= 4, "killed at least three times before it could end"
    assert met == sorted(met), "no checkpoint was lost"
    _assert_same_run(folder, uninterrupted)


def test_real_process_killed_before_its_first_record(tmp_path):
    folder = tmp_path / "run"
    arguments = ("train", RECIPE, "--resume", "--out", folder, *LENGTH)
    process = start(*arguments)
    _wait_for((folder / "provenance.json").exists)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (folder / "result.json").exists()
    assert pacdp(*arguments) == 0
    assert {path.name for path in folder.iterdir() if not path.name.startswith(".")} == RUN_FILES
    assert [row["step"] for row in rows(folder)] == [34, 68, 101, 135]


def test_control_c_exits_130_and_leaves_a_resumable_run(tmp_path):
    folder = tmp_path / "run"
    process = start("train", RECIPE, "--out", folder, *LONGER)
    _wait_for(lambda: (folder / "metrics.jsonl").exists() and len(rows(folder)) >= 2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert "--resume" in err.splitlines()[-1]
    assert not (folder / "result.json").exists()
    stopped = load_trained(folder).state.step
    assert 0 < stopped < 1347


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
