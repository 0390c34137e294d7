"""Whoever needs something of an algorithm's settings asks them: no isinstance and no case on their class elsewhere."""

import ast
import re
from pathlib import Path
from typing import get_args

import experiments
import pacdp.loop
from pacdp.algorithms import KINDS
from pacdp.cli.private.config import Method

CLASSES = {one.__name__ for one in (*KINDS, *get_args(Method))}
THEIR_OWN = ("pacdp/algorithms/", "experiments/papers/", "experiments/runs/")
"""The algorithms themselves, and papers, whose figures and tables are about one algorithm or another."""


def switches(source):
    """Lines that ask whether something is of a class of settings."""
    found = []
    for node in ast.walk(ast.parse(source if re.search("|".join(CLASSES), source) else "")):
        asked = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "type"):
            asked = node.args[1:]
        elif isinstance(node, ast.MatchClass):
            asked = [node.cls]
        for one in asked:
            names = {n.id for n in ast.walk(one) if isinstance(n, ast.Name)}
            names |= {n.attr for n in ast.walk(one) if isinstance(n, ast.Attribute)}
            found += [node.lineno] if names & CLASSES else []
    return found


def test_nobody_asks_which_settings_they_are_and_the_loop_names_no_algorithm():
    found = []
    for package in (pacdp, experiments):
        root = Path(next(iter(package.__path__)))
        for path in root.rglob("*.py"):
            where = path.relative_to(root.parent).as_posix()
            if not where.startswith(THEIR_OWN):
                found += [f"{where}:{line}" for line in switches(path.read_text())]
    assert found == []
    assert not set(re.findall(r"\w+", Path(pacdp.loop.__file__).read_text())) & CLASSES
    assert switches("match x:\n    case algorithms.PSGLD(tau=1):\n        isinstance(y, m.P3SGD | int)") == [2, 3]
