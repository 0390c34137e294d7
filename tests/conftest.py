"""What holds for all tests: Triton's kernels are interpreted where no GPU is, processes share the cores, and hypothesis
tries the same examples each time, however long one takes.

Triton decides when it is first imported, by whichever test needs it first, whether its own functions are interpreted.
"""

import os
from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

os.environ.setdefault("TRITON_INTERPRET", "0" if torch.cuda.is_available() else "1")
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _float32_on_gpus(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests on a GPU compare numbers of 23 bits: by torch's default convolutions there keep 10."""
    if not request.node.get_closest_marker("cuda"):
        yield
        return
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32 = cudnn.allow_tf32 = False
    yield
    matmul.allow_tf32, cudnn.allow_tf32 = before


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What compiles functions by torch, and all that runs on a GPU may: it warns of itself, and cannot compile the
    checks of types.
    """
    for item in items:
        if item.get_closest_marker("cuda") or item.get_closest_marker("compiles"):
            item.add_marker(pytest.mark.wrong_types)
            item.add_marker(pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning"))


def pytest_configure(config: pytest.Config) -> None:
    """Workers of pytest-xdist share the cores: threads that wait for those of another cost a third of the time."""
    if workers := config.getoption("numprocesses", None):
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))
