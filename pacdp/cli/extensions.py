"""What the studies of papers add to the command: commands of their own, and folders that `plot` and `report` then know.

The studies lie in the folder ``experiments`` of a checkout and are no part of what is installed, so that no package
called ``experiments`` stands in the way of a user's own; they are found where they lie beside this package, in its
checkout. Their module of the extension imports little, since every call of the command reads it.
"""

import functools
import importlib
import importlib.util
from pathlib import Path
from typing import Any


@functools.cache
def extension() -> Any:
    """The module in the checkout that this package lies in, if ``import experiments`` finds the folder in it, or None.

    Its ``COMMANDS`` say where classes stand, by the words that call them.
    """
    own = Path(__file__).parents[2] / "experiments"
    spec = importlib.util.find_spec("experiments")
    found = [Path(each) for each in (spec and spec.submodule_search_locations) or ()]
    files = (own / "extension.py", own.parent / "pyproject.toml")
    there = found == [own] and all(map(Path.is_file, files))
    return importlib.import_module("experiments.extension") if there else None


def studies(place: Path | None = None) -> Any:
    """The module that knows folders of studies, or None; it is not asked about a ``place`` that is a run.

    Its functions ``named`` (the folder that a name stands for), ``plot`` (draws a folder's figures; returns where) and
    ``page`` (the HTML of the page about a folder) answer None to what it does not know.
    """
    run = place is not None and (place / "config.json").is_file()
    return None if run or not extension() else importlib.import_module(extension().FOLDERS)
