"""``import bounds`` needs no deep-learning library, no plots and no command line."""

import subprocess
import sys
from pathlib import Path

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


def test_bounds_work_without_the_heavy_libraries():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2]
    )
    assert done.stderr == ""
    assert done.stdout.strip() == "[]"
