"""What holds for all tests: Triton's kernels are interpreted where no GPU is, and processes share the cores.

Triton decides when it is first imported, by whichever test needs it first, whether its own functions are interpreted.
"""

import os

import pytest
import torch

os.environ.setdefault("TRITON_INTERPRET", "0" if torch.cuda.is_available() else "1")


def pytest_configure(config: pytest.Config) -> None:
    """Workers of pytest-xdist share the cores: threads that wait for those of another cost a third of the time."""
    if workers := config.getoption("numprocesses", None):
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))
