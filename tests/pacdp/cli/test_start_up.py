"""Starting a command imports what the command needs, and no more: counted in modules, which no busy machine changes."""

import os
import subprocess
import sys
from pathlib import Path

from pacdp.cli.main import COMMANDS
from tests.marks import at_most, parametrize, slow

ROOT = Path(__file__).parents[3]
SCRIPT = """
import atexit, sys
atexit.register(lambda: print("loaded", *sys.modules, file=sys.stderr))
"""
COMMAND = "from pacdp.cli.main import main; main(sys.argv[1:])"
LEARNS = {"torch", "sklearn", "safetensors"}
DRAWS = {"matplotlib", "polars", "jinja2"}
NEVER = set((
    "opacus sympy arviz_stats scipy.stats scipy.signal scipy.optimize dask distributed pytest pooch "
    "requests cryptography"
).split())  # fmt: skip
"""What takes long, and is needed by those alone who use it."""
LIGHT = {*LEARNS, *DRAWS, *NEVER, "joblib"}
"""Of commands that learn and draw nothing."""
SHOW = ("--show", "--threads", "1")
STARTS = {
    ("--help",): {*LIGHT, "numpy", "scipy", "numba", "bounds"},
    tuple(
        "privacy --noise-multiplier 1 --sample-rate 0.1 --steps 9 --delta 1e-5 --adjacency add-remove".split()
    ): LIGHT,
    ("train", "sgld-mnist2", *SHOW): LIGHT - LEARNS,
    ("train", "dp-sgd-mnist", *SHOW): {*DRAWS, *NEVER},
    ("certify", "--predictions", "x", "--help"): {*LIGHT, "numba", "bounds"},
    ("experiment", "list"): {*LIGHT, "numba", "bounds"},
    **{(name, "--help"): {*LIGHT, "numba", "bounds"} for name in COMMANDS},
    ("bound", "maurer", "--risk", "0.02", "--kl-nats", "3000", "--n", "60000"): LIGHT,
}  # fmt: skip


def _loaded(code, *arguments):
    done = subprocess.run([sys.executable, "-c", SCRIPT + code, *arguments], capture_output=True, text=True,
                          cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)  # fmt: skip
    (names,) = (line for line in done.stderr.splitlines() if line.startswith("loaded "))
    assert done.returncode in (0, 3), done.stderr
    return set(names.split())


@at_most(2, "words", STARTS, ids=" ".join)
def test_a_command_imports_nothing_that_it_does_not_need(words):
    assert sorted(_loaded(COMMAND, *words) & STARTS[words]) == []


@parametrize("command", ["verify", "report", slow("plot")])
def test_a_finished_run_is_shown_and_checked_without_what_trains(command, copied):
    assert sorted(_loaded(COMMAND, command, str(copied("sgd"))) & LEARNS) == []


@parametrize(
    ("code", "never"),
    [
        ("import pacdp", {*LEARNS, *DRAWS, *NEVER, "numpy", "bounds"}),
        ("import pacdp; pacdp.certify_predictions([0, 1, 1], [0, 1, 0])", {*LEARNS, *DRAWS, "pacdp.certify"}),
        slow("import pacdp.cli.sweep.kinds, pacdp.cli.private.run", {*DRAWS, *NEVER, "tyro"}),
    ],
)
def test_python_imports_nothing_that_it_does_not_need(code, never):
    assert sorted(_loaded(code) & never) == []
