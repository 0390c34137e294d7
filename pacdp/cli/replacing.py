"""A report takes the place of an earlier one, which is kept; what is no report is left alone."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pacdp.cli.folder import read_json, write_json
from pacdp.cli.terminal import messages
from pacdp.store.files import keep_beside, write_keeping


def require_replaceable(path: Path, report: str = "certificates") -> None:
    """Refuse a place for a report that holds something else.

    Args:
        report: what the report is about, "certificates" or "diagnosis", as its format says.

    Raises:
        ValueError: it is a folder, or a file that is no such report.
    """
    if not os.path.lexists(path):
        return
    try:
        ours = str(read_json(path).get("format", "")).startswith(f"pacdp-{report}/")
    except (ValueError, OSError):
        ours = False
    if not ours:
        raise ValueError(
            f"{path} is there and is no report of {report}: give another --out, or move it away"
        )


def write_report(path: Path, report: Mapping[str, Any]) -> None:
    """Write a report; an earlier one that says something else is kept, see :func:`pacdp.store.files.keep_beside`.

    Raises:
        ValueError: see :func:`require_replaceable`.
    """
    require_replaceable(path)
    if path.exists():  # without when it was found, and by which command
        timeless = ({**each, "provenance": None} for each in (read_json(path), report))
        earlier, now = (json.loads(json.dumps(each)) for each in timeless)
        if earlier != now:
            keep_beside(path)
    write_json(path, report)


def write_telling(path: Path, content: bytes) -> None:
    """Write a page or a figure, and say where another file that stood there is kept now.

    Raises:
        ValueError, OSError: see :func:`pacdp.store.files.write_keeping`.
    """
    if kept := write_keeping(path, content):
        messages.print(f"another {path.name} stood in {path.parent}: it is kept as {kept.name}")
