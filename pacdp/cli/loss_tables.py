"""Small tables for `pacdp control` and `pacdp monitor`: CSV files with a line of column names, read without polars."""

import csv
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

_NUMBERS = "a number"
_WHOLE: dict[str, str] = {
    "error": "0 or 1",
    "positive": "0 or 1",
    "position": "a whole number of at least 0",
}


def read_columns(path: Path, known: Sequence[str]) -> dict[str, np.ndarray]:
    """The columns of a CSV file: whole numbers for error, positive and position, text for group, numbers otherwise.

    Raises:
        ValueError: no such file, a column that is not ``known`` or stands twice, a gap, or no rows.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file, strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} cannot be read as CSV ({error}): write it anew") from error
    names = [name.strip() for name in rows[0]] if rows else []
    if odd := [name for name in names if name not in known or names.count(name) > 1]:
        raise ValueError(
            f"{path} has a column {odd[0]!r} that is unknown or stands twice: keep {', '.join(known)}"
        )
    body = [row for row in rows[1:] if row]
    if not names or not body:
        raise ValueError(
            f"{path} holds no rows: write a line of column names, then a row for each example"
        )
    if short := [number for number, row in enumerate(body, start=1) if len(row) != len(names)]:
        raise ValueError(
            f"{path} must have {len(names)} cells in each row, and has others in row {short[0]}"
        )
    return {
        name: _column(path, name, [row[place].strip() for row in body])
        for place, name in enumerate(names)
    }


def _column(path: Path, name: str, cells: list[str]) -> np.ndarray:
    if name == "group":
        return np.array(
            [_cell(path, name, cell, row, str, "a name") for row, cell in enumerate(cells, start=1)]
        )
    kind, what = (int, _WHOLE[name]) if name in _WHOLE else (float, _NUMBERS)
    found = np.array(
        [_cell(path, name, cell, row, kind, what) for row, cell in enumerate(cells, start=1)]
    )
    if what == "0 or 1" and not np.isin(found, (0, 1)).all():
        raise ValueError(
            f"{path} must have {what} in column {name!r}, got {found[~np.isin(found, (0, 1))][0]}"
        )
    return found


def _cell(path: Path, name: str, cell: str, row: int, kind: Callable[[str], Any], what: str) -> Any:
    try:
        value = kind(cell if kind is not int or len(cell) < 16 else "too long")
    except ValueError:
        value = None
    gap = value is None or value == "" or (isinstance(value, float) and math.isnan(value))
    if gap or (kind is int and cell.startswith("-")):
        raise ValueError(
            f"{path} must have {what} in column {name!r}, got {cell[:40]!r} in row {row}: mend or drop it"
        )
    return value
