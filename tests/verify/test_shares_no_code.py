"""The checker shares no code with what it checks."""

import ast
import subprocess
import sys
from pathlib import Path

import pacdp.verify

FOLDER = Path(pacdp.verify.__file__).parent
ALLOWED = {*sys.stdlib_module_names, "numpy", "flint"}


def test_imports():
    for path in FOLDER.rglob("*.py"):
        torch = {"torch"} if path.name in ("examples.py", "recount.py", "replay.py", "rerun.py") else set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                whole = isinstance(node, ast.ImportFrom)
                assert not (whole and node.level)
                for name in [node.module] if whole else [one.name for one in node.names]:
                    assert name.split(".")[0] in ALLOWED | torch or name.startswith("pacdp.verify"), (path.name, name)


def test_it_runs_without_the_rest():
    """Under another name for the package around it, so that neither `pacdp` nor `bounds` nor torch is imported."""
    program = (
        "import sys, types; package = types.ModuleType('pacdp'); package.__path__ = [sys.argv[1]]; "
        "sys.modules['pacdp'] = package; import pacdp.verify.report; "
        "print(sorted({'bounds', 'torch', 'pacdp.certify', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(FOLDER.parent)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]", done.stderr
