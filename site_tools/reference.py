"""Pages of reference: every public name of the packages, a heading for each room that it lives in."""

import inspect
from types import ModuleType
from typing import Any

import bounds
import pacdp
from bounds import accounting

_INTRODUCED = {
    "bounds": (
        bounds,
        "Inequalities as functions: numbers in, a certificate out. NumPy, SciPy and Numba suffice.",
    ),
    "accounting": (
        accounting,
        "What private steps cost together, as a bracket whose upper end is proved.",
    ),
    "pacdp": (pacdp, "Networks, data and predictions: what is certified, how, and what was found."),
}


def pages() -> dict[str, str]:
    """The page of each package, in Markdown with the marks of mkdocstrings, by its place in the site."""
    return {
        f"reference/{name}.md": _page(package, said)
        for name, (package, said) in _INTRODUCED.items()
    }


def public(package: ModuleType) -> dict[str, Any]:
    """The public names of a package and what they stand for."""
    names = getattr(package, "__all__", None) or [
        name for name in dir(package) if not name.startswith("_")
    ]
    found = {name: getattr(package, name) for name in sorted(names) if not name.startswith("__")}
    return {name: thing for name, thing in found.items() if not inspect.ismodule(thing)}


def _page(package: ModuleType, said: str) -> str:
    rooms: dict[str, list[str]] = {}
    for name, thing in public(package).items():
        rooms.setdefault(getattr(thing, "__module__", package.__name__), []).append(name)
    lines = [f"# {package.__name__}", "", said, ""]
    for room in sorted(rooms):
        if not room.startswith(("bounds", "pacdp")):
            continue
        lines += [f"## {room.partition('._')[0]}", ""]
        for name in rooms[room]:
            lines += [f"::: {room}.{getattr(public(package)[name], '__name__', name)}", ""]
    return "\n".join(lines)
