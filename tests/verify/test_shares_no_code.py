"""The checker shares no code with what it checks, and stays short enough to be read."""

import ast
import subprocess
import sys
from pathlib import Path

import pacdp.verify

FOLDER = Path(pacdp.verify.__file__).parent
ALLOWED = {*sys.stdlib_module_names, "numpy", "flint"}


def test_imports() -> None:
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [one.name for one in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0
                names = [node.module or ""]
            for name in names:
                allowed = name.split(".")[0] in ALLOWED or name.startswith("pacdp.verify")
                assert allowed or (name == "torch" and path.name in ("recount.py", "replay.py", "rerun.py")), (
                    path.name,
                    name,
                )


def test_it_runs_without_the_rest() -> None:
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


def test_size() -> None:
    """Lines that are neither blank, nor comments, nor in docstrings."""
    count = 0
    for path in FOLDER.glob("*.py"):
        tree = ast.parse(path.read_text())
        docs = {
            line
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            count += bool(line.strip()) and not line.strip().startswith("#") and number not in docs
    assert count <= 1940
