"""The cache of compiled loops: an edit of what a loop takes in from another file is seen."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import numba

import pacdp
from pacdp.random import kernels
from tests.marks import parametrize

PACKAGE = Path(pacdp.__file__).parent
SHARED = """
import numba

@numba.njit(inline="always")
def shared(x):
    return x + {number}
"""
LOOPS = """
import pathlib, sys
import numba
from pacdp.random import kernels
from shared import shared

here = pathlib.Path(__file__).parent
under = here / "cache" / kernels.fingerprint([here / "shared.py"])

@kernels.kernel(under)
def ours(x):
    return shared(x)

@kernels.kernel(here / "cache" / "one folder")
def plain(x):
    return shared(x)

print(ours(1), plain(1), sum(ours.stats.cache_hits.values()))
"""


def answers(folder):
    path = os.pathsep.join([str(folder), str(PACKAGE.parent)])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}  # Python goes by whole seconds
    found = subprocess.run(
        [sys.executable, "loops.py"], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return [int(word) for word in found.stdout.split()]


def test_an_edit_of_what_is_taken_in_is_seen(tmp_path):
    """And Numba's own index does not see it, which is why the folder depends on the contents."""
    (tmp_path / "loops.py").write_text(LOOPS)
    for number, expected in ((10, [11, 11, 0]), (20, [21, 11, 0]), (10, [11, 11, 1])):
        (tmp_path / "shared.py").write_text(SHARED.format(number=number))
        assert answers(tmp_path) == expected


def kernel_files():
    return [path for path in sorted(PACKAGE.rglob("*.py")) if "@kernel(" in path.read_text(encoding="utf-8")]


@parametrize("path", kernel_files(), ids=lambda path: path.stem)
def test_loops_take_something_in_from_hashed_files_alone(path):
    """Names that a file of loops imports from the package are compiled code of a hashed file, or used by Python."""
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    module = __import__(name, fromlist=["_"])
    hashed = {file.resolve() for file in kernels.sources()}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pacdp")):
            continue
        for alias in node.names:
            value = getattr(module, alias.asname or alias.name)
            compiled = isinstance(value, numba.core.dispatcher.Dispatcher | numba.core.extending._Intrinsic)
            if compiled or isinstance(value, int | float | tuple):
                assert PACKAGE.parent.joinpath(*node.module.split(".")).with_suffix(".py").resolve() in hashed
