"""What other packages add to the command: commands of their own, and folders that `plot` and `report` then know.

A package declares an entry point of the group ``pacdp.extensions`` that leads to an :class:`Extension`. The module in
which it stands imports little, since every call of the command reads it.
"""

import functools
import importlib
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


@runtime_checkable
class Folders(Protocol):
    """What a package knows of folders that are no runs; each function answers None to what it does not know."""

    def named(self, name: str, scale: str | None) -> Path | None:
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
    """Those of the packages that are installed."""
    return tuple(found.load() for found in entry_points(group="pacdp.extensions"))


def folders() -> list[Folders]:
    """Of all extensions that have some."""
    return [importlib.import_module(one.folders) for one in extensions() if one.folders]  # pyright: ignore[reportReturnType]
