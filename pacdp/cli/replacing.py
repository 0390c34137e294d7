"""A report in the place of an earlier one, which is kept; what is no report of certificates is left alone."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pacdp.cli.folder import read_json, write_json


def require_replaceable(path: Path) -> None:
    """Refuse a place for a report that holds something else.

    Raises:
        ValueError: it is a folder, or a file that is no report of certificates.
    """
    if not path.exists():
        return
    try:
        ours = str(read_json(path).get("format", "")).startswith("pacdp-certificates/")
    except (ValueError, OSError):
        ours = False
    if not ours:
        raise ValueError(f"{path} is there and is no report of certificates: give another --out, or move it away")


def write_report(path: Path, report: Mapping[str, Any]) -> None:
    """Write a report; an earlier one that says something else is kept beside it as ``NAME.1``.

    Raises:
        ValueError: see :func:`require_replaceable`.
    """
    require_replaceable(path)
    if path.exists() and _timeless(read_json(path)) != _timeless(report):
        path.replace(path.with_name(f"{path.name}.1"))
    write_json(path, report)


def _timeless(report: Mapping[str, Any]) -> dict[str, Any]:
    """What was found, without when and by which command."""
    return json.loads(json.dumps({**report, "provenance": None}))
