"""`pacdp train --chains` killed or stopped: what remains goes on to the same chains, bit for bit."""

import random

import pytest
from cli_tools import QUICK, succeed
from tiny_runs import assert_same_chains

from pacdp.cli.main import main
from tests.file_faults import Fault, carried_out

RECIPE = "sgld-digits2"
LENGTH = ("--epochs", "80", "--records", "5", "--checkpoint-seconds", "0")
LONG = (*QUICK, "--problem.architecture.hidden", "8", *LENGTH)


@pytest.mark.slow
def test_killed_at_any_operation_and_resumed_gives_the_uninterrupted_chains(tmp_path):
    folder, expected, chance = tmp_path / "run", tmp_path / "expected", random.Random(11)
    succeed("train", RECIPE, "--chains", 3, "--out", expected, *LONG)
    arguments = ["train", RECIPE, "--chains", "3", "--resume", "--out", str(folder), *LONG]
    for _ in range(4):
        killed = carried_out(main, (arguments,), root=tmp_path, fault=Fault(at=chance.randrange(10, 70)))
        assert killed.killed, killed
    assert not (folder / "diagnosis.json").exists()
    succeed(*arguments)
    assert_same_chains(folder, expected)
