"""`pacdp train --chains` killed or stopped: what remains goes on to the same chains, bit for bit."""

import random
import shutil

import pytest
from cli_tools import QUICK, read, rows, succeed
from tiny_runs import RUNTIME, assert_same_chains, chain_folders

from pacdp import load_checkpoint
from pacdp.cli.config import Run
from pacdp.cli.main import main
from pacdp.cli.run import train_together
from pacdp.cli.serial import from_dict
from tests.file_faults import Fault, carried_out

RECIPE = "sgld-digits2"
LENGTH = ("--epochs", "80", "--records", "5", "--checkpoint-seconds", "0")
LONG = (*QUICK, "--problem.architecture.hidden", "8", *LENGTH)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted") / "run"
    succeed("train", RECIPE, "--chains", 3, "--out", folder, *LONG)
    return folder


def test_killed_at_any_operation_and_resumed_gives_the_uninterrupted_chains(uninterrupted, tmp_path):
    folder, chance = tmp_path / "run", random.Random(11)
    arguments = ["train", RECIPE, "--chains", "3", "--resume", "--out", str(folder), *LONG]
    for _ in range(4):
        killed = carried_out(main, (arguments,), root=tmp_path, fault=Fault(at=chance.randrange(10, 70)))
        assert killed.killed, killed
    assert not (folder / "diagnosis.json").exists()
    succeed(*arguments)
    assert_same_chains(folder, uninterrupted)


def test_chains_that_stand_at_different_steps_go_on_to_the_same_end(uninterrupted, tmp_path):
    folder = tmp_path / "run"
    outs = [folder / one.name for one in chain_folders(uninterrupted)]
    runs = [from_dict(Run, read(one / "config.json")) for one in chain_folders(uninterrupted)]

    def stop_at(record):
        def stop(step, steps, row):
            if row is not None and len(rows(outs[0])) == record:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train_together(runs, outs, RUNTIME, resume=True, report=stop)

    stop_at(1)
    older = shutil.copytree(outs[1], tmp_path / "older")
    stop_at(3)
    shutil.rmtree(outs[1])
    older.rename(outs[1])
    shutil.rmtree(outs[2])
    assert load_checkpoint(outs[1]).header["step"] < load_checkpoint(outs[0]).header["step"]
    succeed("train", RECIPE, "--chains", 3, "--resume", "--out", folder, *LONG)
    assert_same_chains(folder, uninterrupted)
