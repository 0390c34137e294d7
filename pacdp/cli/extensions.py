"""What other packages add to the command: commands of their own, and folders that `plot` and `report` then know.

A package declares an entry point of the group ``pacdp.extensions`` that leads to an :class:`Extension`. The module in
which it stands imports little, since every call of the command reads it. The studies of papers lie in the folder
``experiments`` of a checkout and are no part of what is installed, so that no package called ``experiments`` stands in
the way of a user's own; they are found where they lie beside this package, in its checkout.
"""

import functools
import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable


class Entry(NamedTuple):
    """Where a command stands, and the first sentence of its help."""

    module: str
    name: str
    headline: str

    def load(self) -> Any:
        """The command's class."""
        return getattr(importlib.import_module(self.module), self.name)


_STUDIES = "experiments.extension:EXTENSION"


@runtime_checkable
class Folders(Protocol):
    """What a package knows of folders that are no runs; each function answers None to what it does not know."""

    def named(self, name: str) -> Path | None:
        """The folder that a name stands for."""
        ...

    def plot(self, folder: Path) -> list[Path] | None:
        """Draw the figures of a folder into it; returns where."""
        ...

    def page(self, folder: Path) -> str | None:
        """The HTML of the page about a folder."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """What a package adds."""

    commands: Mapping[str, Entry] = field(default_factory=dict)
    """By the words that call them."""
    folders: str | None = None
    """The name of a module with the functions of :class:`Folders`."""


@functools.cache
def extensions() -> tuple[Extension, ...]:
    """Those of the packages that are installed, and the studies of the checkout that this package lies in."""
    found: list[Extension] = [
        one.load() for one in entry_points(group="pacdp.extensions") if one.value != _STUDIES
    ]
    if _in_a_checkout():
        found.append(importlib.import_module(_STUDIES.split(":")[0]).EXTENSION)
    return tuple(found)


def _in_a_checkout() -> bool:
    """Whether ``import experiments`` finds the folder that lies beside this package in a checkout."""
    root = Path(__file__).parents[2]
    spec = importlib.util.find_spec("experiments")
    if (
        spec is None
        or not (root / "pyproject.toml").is_file()
        or not (root / "experiments/extension.py").is_file()
    ):
        return False
    return [Path(each) for each in spec.submodule_search_locations or ()] == [root / "experiments"]


def folders(place: Path | None = None) -> list[Folders]:
    """What all extensions know of folders; none is asked about a ``place`` that is a run, whatever else lies in it."""
    if place is not None and (place / "config.json").is_file():
        return []
    return [importlib.import_module(one.folders) for one in extensions() if one.folders]  # pyright: ignore[reportReturnType]
