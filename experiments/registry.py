"""All sections in the order of the page, and all studies by name."""

import ast
import functools
import importlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.study import Section, Study

RESULTS, PAGE = Path("experiments/results"), Path("docs/results.md")
PAPERS: tuple[str, ...] = ("dziugaite_roy", "random_labels", "knolle", "zhang_bu", "p3sgd")
OURS: tuple[str, ...] = ("certificates", "all_data", "gibbs_heads", "small_samples", "calibration_frontier",
                         "temperature_map", "gibbs", "private_priors")  # fmt: skip
"""Modules of `experiments.papers` and of `experiments.ours`, in the order in which a reader meets them."""
_MODULES = [*(f"papers.{name}" for name in PAPERS), *(f"ours.{name}" for name in OURS)]


@functools.cache
def sections() -> "dict[str, Section]":
    """By the name of the module that makes it."""
    return {name: importlib.import_module(f"experiments.{name}").SECTION for name in _MODULES}


def titles() -> dict[str, tuple[str, str]]:
    """Title and paper of every study by its name, read off the files: to import them takes seconds."""
    found: dict[str, tuple[str, str]] = {}
    for name in _MODULES:
        text = Path(__file__).parent.joinpath(*name.split(".")).with_suffix(".py").read_text(encoding="utf-8")
        for call in ast.walk(ast.parse(text)):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "Study":
                said = {one.arg: one.value.value for one in call.keywords if isinstance(one.value, ast.Constant)}
                found[str(said["name"])] = str(said["title"]), str(said["paper"])
    return found


@functools.cache
def studies() -> "dict[str, Study]":
    """Every study by its name.

    Raises:
        ValueError: two studies have one name.
    """
    found = [study for section in sections().values() for study in section.studies]
    by_name = {study.name: study for study in found}
    if len(by_name) < len(found):
        raise ValueError("two studies have one name: their results would lie in one folder")
    return by_name
