"""Tables of predictions: CSV, Parquet and npz with the columns that docs/predictions.md names.

Texts are read as texts, whole numbers as whole numbers, and nothing else is guessed: a label with a decimal point is
refused. Probabilities are read some rows at a time.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from pacdp.data.arrays import read_npz
from pacdp.data.unpacking import require_plain, require_room
from pacdp.predictions.answers import Answers, from_probabilities, joined
from pacdp.predictions.columns import Coded

NAMED = ("label", "prediction", "group", "person", "model", "id")
"""Columns of names; each at most once."""
NUMBERS = ("weight",)
_LOSS = re.compile(r"loss(_\w+)?")
_PROBABILITY = re.compile(r"p(0|[1-9]\d*)")
_WHOLE = r"^(0|-?[1-9]\d{0,17})$"
_CELLS = 1_000_000
"""How many probabilities are held at once."""
DAMAGED = (pl.exceptions.PolarsError, pl.exceptions.PanicException, UnicodeDecodeError)
"""Polars panics at some damaged files of Parquet."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """The columns of a file, by their names; probabilities are read when they are asked for.

    Attributes:
        named: label, prediction, group, person, model, id, as far as they are there.
        numbers: weight and losses.
        classes: how many columns of probabilities there are.
        chunks: reads these some rows at a time.
    """

    rows: int
    named: dict[str, Coded]
    numbers: dict[str, np.ndarray]
    classes: int = 0
    chunks: Callable[[], Iterator[np.ndarray]] = lambda: iter(())

    def answers(self, labels: np.ndarray) -> Answers:
        """What the probabilities say, row by row."""
        parts, at = list[Answers](), 0
        for chunk in self.chunks():
            parts.append(from_probabilities(chunk, labels[at : at + len(chunk)], first=at))
            at += len(chunk)
        return joined(parts)


def read_table(path: Path, ignore: Sequence[str] = ()) -> Table:
    """The table in a file.

    Raises:
        ValueError: the file is damaged or empty, or has a column that this does not know.
    """
    readers = {".csv": _csv, ".parquet": _parquet, ".npz": _npz}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"{path} must be one of {', '.join(readers)}, .jsonl, .json or .eval: convert it")
    try:
        with _no_panic():
            return reader(path, frozenset(ignore))
    except DAMAGED as error:
        raise _unreadable(path, error) from error


@contextmanager
def _no_panic() -> Iterator[None]:
    """Keep from the terminal what Rust writes there, past Python, when it panics; polars raises it afterwards."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _unreadable(path: Path, error: BaseException) -> ValueError:
    said = " ".join(str(error).split("\n")[0].split())[:200] if isinstance(error, Exception) else "it is damaged"
    return ValueError(f"{path} cannot be read as {path.suffix[1:]} ({said}): write it anew")


def _csv(path: Path, ignore: frozenset[str]) -> Table:
    require_plain(path)
    with path.open("rb") as file:
        head = file.readline(1 << 20)
    if not head.strip():
        raise ValueError(f"{path} is empty: write a line of column names, then a row for each example")
    names = pl.read_csv(head, n_rows=0, infer_schema=False).columns
    names = [name for name in names if name not in ignore]
    named, numbers, soft = _sorted(path, names)
    texts = pl.read_csv(path, columns=[*named, *numbers], infer_schema=False) if named or numbers else pl.DataFrame()
    rows = texts.height if texts.width else pl.scan_csv(path, infer_schema=False).select(pl.len()).collect().item()
    columns = {name: pl.Float64 for name in soft}

    def chunk(at: int, size: int) -> pl.DataFrame:
        return pl.scan_csv(path, schema_overrides=columns, infer_schema_length=0).select(soft).slice(at, size).collect()

    return _table(path, texts, named, numbers, soft, rows, chunk)


def _parquet(path: Path, ignore: frozenset[str]) -> Table:
    lazy = pl.scan_parquet(path)
    names = [name for name in lazy.collect_schema().names() if name not in ignore]
    named, numbers, soft = _sorted(path, names)
    rows = lazy.select(pl.len()).collect().item()
    require_room(path, rows * len(names), "write it as .csv, which has no limit")
    return _table(path, lazy.select([*named, *numbers]).collect(), named, numbers, soft, rows,
                  lambda at, size: lazy.select(soft).slice(at, size).collect())  # fmt: skip


def _npz(path: Path, ignore: frozenset[str]) -> Table:
    arrays = read_npz(path, ignore=ignore)
    table = arrays.pop("probabilities", None)
    named, numbers, soft = _sorted(path, list(arrays))
    if odd := [name for name, array in arrays.items() if array.ndim != 1]:
        raise ValueError(
            f"{path} must hold columns, got {odd[0]!r} of shape {arrays[odd[0]].shape}: flatten it, or call an array "
            "[n, classes] of probabilities 'probabilities'"
        )
    sizes = {name: len(array) for name, array in arrays.items()}
    if table is not None:
        if soft:
            raise ValueError(f"{path} must hold 'probabilities' or {soft[0]!r} and so on, got both: drop one of them")
        if table.ndim != 2:
            raise ValueError(f"{path} must hold probabilities [n, classes], got shape {table.shape}: one row each")
        sizes["probabilities"] = len(table)
    if len(set(sizes.values())) > 1:
        said = ", ".join(f"{size} in {name!r}" for name, size in sizes.items())
        raise ValueError(f"{path} must hold arrays of one length, got {said}: write all rows of each")
    frame = pl.DataFrame({name: arrays[name] for name in (*named, *numbers)})
    matrix = np.column_stack([arrays[name] for name in soft]) if soft else table
    found = _table(path, frame, named, numbers, [], next(iter(sizes.values()), 0), lambda _at, _size: frame)
    if matrix is None:
        return found
    return Table(rows=found.rows, named=found.named, numbers=found.numbers, classes=matrix.shape[1],
                 chunks=lambda: iter([matrix]))  # fmt: skip


def _sorted(path: Path, names: list[str]) -> tuple[list[str], list[str], list[str]]:
    """The columns of names, those of numbers, and those of probabilities in order."""
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{path} has two columns called {twice[0]!r}: rename or drop one")
    named = [name for name in NAMED if name in names]
    numbers = [name for name in names if name in NUMBERS or _LOSS.fullmatch(name)]
    soft = sorted((name for name in names if _PROBABILITY.fullmatch(name)), key=lambda name: int(name[1:]))
    if unknown := [name for name in names if name not in {*named, *numbers, *soft}]:
        raise ValueError(
            f"{path} has a column {unknown[0]!r} that is none of {', '.join(NAMED)}, weight, loss, loss_..., p0, p1, "
            f"...: rename it, or pass --ignore {unknown[0]}"
        )
    if missing := [k for k, name in enumerate(soft) if name != f"p{k}"]:
        raise ValueError(f"{path} must have a column p0, p1, ... for every class, and lacks p{missing[0]}: add it")
    return named, numbers, soft


def _table(
    path: Path,
    frame: pl.DataFrame,
    named: list[str],
    numbers: list[str],
    soft: list[str],
    rows: int,
    chunk: Callable[[int, int], pl.DataFrame],
) -> Table:
    if rows == 0:
        raise ValueError(f"{path} holds no rows: write a row for each example")
    size = max(1, _CELLS // max(1, len(soft)))

    def chunks() -> Iterator[np.ndarray]:
        for at in range(0, rows, size):
            try:
                with _no_panic():
                    frame = chunk(at, size)
            except DAMAGED as error:
                raise _unreadable(path, error) from error
            yield _probabilities(path, frame, at)

    return Table(
        rows=rows, named={name: _names(path, frame[name]) for name in named},
        numbers={name: _numbers(path, frame[name]) for name in numbers}, classes=len(soft), chunks=chunks,
    )  # fmt: skip


def _names(path: Path, column: pl.Series) -> Coded:
    """A column of names: whole numbers where all are written as such, else texts."""
    name = column.name
    gaps = column.is_null() | (column == "") if column.dtype == pl.String else column.is_null()
    if gaps.any():
        row = int(gaps.arg_max() or 0)
        raise ValueError(f"{path} has a gap in column {name!r}, in row {row} of the table: fill it in, or drop the row")
    if column.dtype == pl.String:
        if column.str.contains(_WHOLE).all():
            column = column.cast(pl.Int64)
        elif name in ("label", "prediction") and column.cast(pl.Float64, strict=False).is_not_null().all():
            column = column.cast(pl.Float64)
    if column.dtype.is_float():
        raise ValueError(
            f"{path} must have whole numbers or text in column {name!r}, got {column[0]!r}: nothing is truncated here; "
            "write class numbers without a decimal point"
        )
    if column.dtype.is_integer():
        column = column.cast(pl.Int64)
    elif column.dtype != pl.Boolean:
        column = column.cast(pl.String)
    names = column.unique().sort()
    codes = column.rank("dense").cast(pl.Int64).to_numpy() - 1
    return Coded(tuple(names.to_list()), np.ascontiguousarray(codes))


def _numbers(path: Path, column: pl.Series) -> np.ndarray:
    found = column.cast(pl.Float64, strict=False)
    odd = found.is_null() | found.is_nan()
    if odd.any():
        row = int(odd.arg_max() or 0)
        raise ValueError(
            f"{path} must have numbers in column {column.name!r}, got {column[row]!r} in row {row} of the table: "
            "fill it in, or drop the row"
        )
    return found.to_numpy()


def _probabilities(path: Path, frame: pl.DataFrame, at: int) -> np.ndarray:
    for column in frame:
        if not column.dtype.is_numeric() or column.null_count():
            gap = int(column.is_null().arg_max() or 0)
            raise ValueError(
                f"{path} must have numbers in column {column.name!r}, got none in row {at + gap} of the table: fill it "
                "in, or drop the row"
            )
    return frame.to_numpy().astype(np.float64, copy=False)
