"""``import bounds`` needs no deep-learning library, no plots and no command line."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("torch", "opacus", "matplotlib", "polars", "tyro", "rich")
SCRIPT = f"""
import sys
for name in {HEAVY!r}:
    sys.modules[name] = None  # an import of it is an ImportError
import bounds
made = bounds.maurer(risk=0.02, kl_nats=10.0, n=1000, failure_prob=0.05)
assert 0.02 < made.value < 1.0
assert bounds.Certificate.from_json(made.to_json()) == made
loaded = {{name.split(".")[0] for name, module in sys.modules.items() if module is not None}}
print(sorted(loaded & set({HEAVY!r})))
"""


NOWHERE = """
from numba.core import caching
def unwritable(self):
    raise PermissionError
caching._CacheLocator.ensure_cache_path = unwritable
"""
USES = {
    "a ufunc": "from bounds import binary_kl_upper as f; assert 0.1 < f(0.1, 0.1) < 0.4",
    "a loop": "import numpy as np, bounds.exchangeability as b; b.played(np.zeros(1), lambda _: np.ones((9, 1)), 9)",
    "kernels of pacdp": "import pacdp._loss_kernels",
}


def child(script):
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2]
    )


@pytest.mark.parametrize("use", USES)
def test_nothing_needs_a_place_for_compiled_code(use):
    done = child(NOWHERE + USES[use])
    assert (done.returncode, done.stderr) == (0, "")


def test_bounds_work_without_the_heavy_libraries():
    done = child(SCRIPT)
    assert done.stderr == ""
    assert done.stdout.strip() == "[]"
