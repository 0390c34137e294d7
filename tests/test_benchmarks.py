"""How benchmarks measure."""

import sys
from dataclasses import replace

import pytest
import torch

from benchmarks import cold_start, gpu
from pacdp.step.mechanism import MODES
from tests.marks import parametrize


@pytest.mark.slow
@parametrize(("name", "most"), [("fc(100)", 26), ("conv", 32)])
def test_a_first_use_compiles_few_functions_and_a_second_one_none(name, most, tmp_path):
    """What a cold start costs is about a quarter of a second a function; nothing depends on the clock here."""
    cold = cold_start.start(name, tmp_path, synthetic=4096)
    warm = cold_start.start(name, tmp_path, synthetic=4096)
    assert 5 < cold["compiled"] <= most
    assert warm["compiled"] == 0


def test_a_gpu_is_timed_with_the_bits_that_the_command_keeps(monkeypatch):
    seen = []
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    monkeypatch.setattr(sys, "argv", ["gpu", "--dry-run"])
    monkeypatch.setattr(gpu, "parts", lambda sizes: seen.append(torch.backends.cudnn.allow_tf32) or ())
    monkeypatch.setattr(gpu, "publish", lambda *args, **options: None)
    gpu.main()
    assert seen == [False]


def test_what_a_gpu_is_to_be_timed_by_runs_without_one():
    """The whole command of ``make bench-gpu``, at a size that says nothing of speed."""
    found = dict(gpu.parts(replace(gpu.DRY, networks=("fc(100)",), examples=40, chains=(2,))))
    assert {name for name in found if "seconds" not in name} == {
        "chains", "update", "Monte Carlo", "private steps", "differences from the CPU",
    }  # fmt: skip
    assert len(found["chains"]) == len(gpu.METHODS)
    assert all(row["chain-steps a second"] > 0 for row in found["chains"].values())
    assert set(found["differences from the CPU"]["fc(100)"].values()) == {0.0}
    assert {name.split(", ")[1] for name in found["private steps"]} == set(MODES)
