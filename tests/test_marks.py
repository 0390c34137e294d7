"""Tests that need a GPU are set up to pass on one, seen without it."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
FILES = [path.relative_to(ROOT) for path in sorted(ROOT.glob("tests/**/test_*.py")) if "mark.cuda" in path.read_text()]


def test_tests_on_a_gpu_run_without_the_checks_of_types_which_torch_cannot_compile():
    files = [str(path) for path in FILES if path.name != Path(__file__).name]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "cuda and not wrong_types", *files]
    said = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert said.returncode == 5, said.stdout  # nothing is left
    assert "test_cuda.py" in " ".join(files)


@pytest.mark.compiles
def test_what_compiles_is_marked_as_what_runs_without_the_checks_of_types(request):
    assert request.node.get_closest_marker("wrong_types")


@pytest.mark.cuda
def test_tests_on_a_gpu_compare_numbers_of_23_bits():
    assert not torch.backends.cudnn.allow_tf32
    assert not torch.backends.cuda.matmul.allow_tf32
