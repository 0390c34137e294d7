"""Tests that need a GPU are set up to pass on one, seen without it."""

import pytest
import torch


@pytest.mark.compiles
def test_what_compiles_runs_without_the_checks_of_types_which_torch_cannot_compile(request):
    assert request.node.get_closest_marker("wrong_types")


@pytest.mark.cuda
def test_tests_on_a_gpu_compare_numbers_of_23_bits_and_run_without_the_checks_of_types(request):
    assert not torch.backends.cudnn.allow_tf32
    assert not torch.backends.cuda.matmul.allow_tf32
    assert request.node.get_closest_marker("wrong_types")
