"""What holds for all tests: three cases of every function are run, Triton's kernels are interpreted where no GPU is,
processes share the cores, and hypothesis tries the same examples each time, however long one takes.

Triton decides when it is first imported, by whichever test needs it first, whether its own functions are interpreted.
"""

import gc
import os
import sys
from contextlib import nullcontext

import pytest
import torch
from hypothesis import settings

from tests.shared_runs import (  # noqa: F401 - fixtures for all folders
    compressed,
    copied,
    counted,
    exported,
    few_passes,
    private_runs,
    runs,
    trained,
    written,
)

os.environ.setdefault("TRITON_INTERPRET", "0" if torch.cuda.is_available() else "1")
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None, max_examples=30)
settings.register_profile("every case", settings.get_profile("repeatable"), max_examples=100)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _float32_on_gpus(request):
    """Tests on a GPU compare numbers of 23 bits: by torch's default convolutions there keep 10."""
    if not request.node.get_closest_marker("cuda"):
        yield
        return
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    matmul.allow_tf32 = cudnn.allow_tf32 = False
    yield
    matmul.allow_tf32, cudnn.allow_tf32 = before


@pytest.fixture(autouse=True)
def _types_are_checked_unless_wrong_ones_are_handed_over(request):
    """``tests.typed``, where it is loaded, would refuse values of wrong types before pacdp does."""
    typed = sys.modules.get("tests.typed")
    if typed:
        typed.next_test()
    wrong = request.node.get_closest_marker("wrong_types")
    with typed.unchecked() if typed and wrong else nullcontext():
        yield


def pytest_addoption(parser):
    """How many cases of a function are run."""
    parser.addoption(
        "--cases", type=int, default=3, metavar="N",
        help="run at most N parameter cases of a test function, evenly spread (default 3; 0 runs every case)",
    )  # fmt: skip


@pytest.fixture(scope="session")
def whole(request):
    """Whether every case is run: a test of few repetitions then makes all of them."""
    return not request.config.getoption("cases")


def spread(cases, of):
    """Places of at most ``cases`` of so many cases, evenly spread from the first to the last."""
    if not cases or of <= cases:
        return set(range(of))
    return {round(k * (of - 1) / max(1, cases - 1)) for k in range(cases)}


def _most(item, cases):
    """How many cases of an item's function are run where ``cases`` were asked for; 0 stands for all."""
    if item.get_closest_marker("every_case"):
        return 0
    few = item.get_closest_marker("cases")
    return min(cases, few.args[0]) if few else cases


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """At most three cases of a function are run, but for those whose cases are the point (``every_case``)."""
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    cases = config.getoption("cases")
    kept = {own[place] for own in functions.values() for place in spread(_most(own[0], cases), len(own))}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def pytest_collection_finish():
    """What was imported and collected lives to the end: the collector of garbage need not look through it again."""
    gc.freeze()


def pytest_sessionfinish():
    """At the end all of it is cleared away, and no library calls it a leak."""
    gc.unfreeze()


def pytest_itemcollected(item):
    """What compiles functions by torch, and all that runs on a GPU may: it warns of itself, and cannot compile the
    checks of types.
    """
    if item.get_closest_marker("cuda") or item.get_closest_marker("compiles"):
        item.add_marker(pytest.mark.wrong_types)
        item.add_marker(pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning"))


def pytest_configure(config):
    """Workers of pytest-xdist share the cores: threads that wait for those of another cost a third of the time."""
    if not config.getoption("cases"):
        settings.load_profile("every case")
    if workers := config.getoption("numprocesses", None):
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // workers)))
