"""Tables of predictions: CSV, Parquet and npz with the columns that docs/predictions.md names.

Texts are read as texts, whole numbers as whole numbers, and nothing else is guessed: a label with a decimal point is
refused.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from pacdp.cli.terminal import word
from pacdp.data.arrays import read_npz
from pacdp.data.unpacking import require_room
from pacdp.predictions.columns import LEFT_OUT, coded

NAMED = ("label", "prediction", "group", "person", "model", "id")
"""Columns of names; each at most once."""
NUMBERS = ("weight",)
_LOSS = re.compile(r"loss(_\w+)?")
_PROBABILITY = re.compile(r"p(0|[1-9]\d*)")
_WHOLE = r"^(0|-?[1-9]\d{0,17})$"
_OTHERWISE = {
    b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip", b"BZh": "bzip2", b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "Zstd", b"PAR1": "Parquet", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16",
    **{b"x" + bytes([level]): "zlib" for level in b"\x01\x5e\x9c\xda"},
}  # fmt: skip
"""What a file holds that begins so, whatever its name says."""
_WHOLES = {"error": 1, "positive": 1, "position": 2**53 - 1}
"""Columns of whole numbers, and the largest of them."""
DAMAGED = (pl.exceptions.PolarsError, pl.exceptions.PanicException, UnicodeDecodeError)
"""Polars panics at some damaged files of Parquet."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """The columns of a file, by their names.

    Attributes:
        named: label, prediction, group, person, model, id, as far as they are there.
        numbers: weight and losses.
        soft: probabilities [rows, classes].
        remarks: what was passed over.
        record: what one of its people is called.
        range_by: who says in which range its losses lie; empty for whoever wrote the table.
    """

    rows: int
    named: dict[str, np.ndarray]
    numbers: dict[str, np.ndarray]
    soft: np.ndarray | None = None
    remarks: tuple[str, ...] = ()
    record: str = "person"
    range_by: str = ""


def read_table(path: Path, ignore: Sequence[str] = (), *, real: bool = False) -> Table:
    """The table in a file, whose labels and predictions are numbers if ``real``.

    Raises:
        ValueError: the file is damaged or empty, or has a column that this does not know.
    """
    readers = {".csv": _csv, ".parquet": _parquet, ".npz": _npz}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise ValueError(
            f"{path} must be one of {', '.join(readers)}, .jsonl, .json or .eval: convert it"
        )
    with _reading(path):
        names, passed, lazy = reader(path, ignore)
        if absent := sorted(set(ignore).difference(names)):
            raise ValueError(f"{path} has no column {absent[0]!r} to ignore: correct --ignore")
        kept = [name for name in names if name not in ignore and (name or not passed)]
        named, numbers, soft = _sorted(path, kept)
        if path.suffix.lower() == ".parquet":
            _require_room(path, lazy, len(kept), named + numbers)
        frame = lazy.select(kept).collect()
        if frame.is_empty():
            raise ValueError(f"{path} holds no rows: write a row for each example")
        numeric = {"label", "prediction"} if real else set[str]()
        names_of = {
            name: (_numbers if name in numeric else _names)(path, frame[name]) for name in named
        }
        for name in {"model", "id"} & {*named}:  # by which rows are paired
            coded(f"{name} of {path}", names_of[name])
        if texts := [name for name in soft if not frame[name].dtype.is_numeric()]:
            raise ValueError(
                f"{path} must have numbers in column {texts[0]!r}, got {frame[texts[0]].dtype}: convert them"
            )
        columns = {name: _numbers(path, frame[name]) for name in numbers + soft}
        table = [columns.pop(name) for name in soft]
        return Table(
            rows=frame.height, named=names_of, numbers=columns,
            soft=np.column_stack(table).astype(np.float64) if table else None, remarks=passed,
        )  # fmt: skip


def read_columns(path: Path, known: Sequence[str]) -> dict[str, np.ndarray]:
    """The columns of a CSV file: whole numbers for error, positive and position, text for group, numbers otherwise.

    Raises:
        ValueError: no such file, a column that is not ``known`` or stands twice, a gap, or no rows.
    """
    with _reading(path):
        written, _, lazy = _csv(path, ())
        names = [name.strip() for name in written]  # spaces may follow commas
        if odd := [name for name in names if name not in known or names.count(name) > 1]:
            raise ValueError(
                f"{path} has a column {odd[0]!r} that is unknown or stands twice: keep {', '.join(known)}"
            )
        frame = lazy.collect().rename(dict(zip(written, names, strict=True)))
        frame = frame.with_columns(pl.col(pl.String).str.strip_chars(" "))
    if frame.is_empty():
        raise ValueError(f"{path} holds no rows: write a row for each example")
    found = dict[str, np.ndarray]()
    for name in names:
        if name == "group":
            group = coded(f"group of {path}", _names(path, frame[name]))
            found[name] = np.array([*map(str, group.names)])[group.codes]
            continue
        found[name] = column = _numbers(path, frame[name])
        if most := _WHOLES.get(name):
            if (odd := (column % 1 != 0) | (column < 0) | (column > most)).any():
                row = int(odd.argmax())
                raise ValueError(
                    f"{path} must have whole numbers from 0 to {most} in column {name!r}, got {column[row]:g} in row "
                    f"{row}"
                )
            found[name] = column.astype(np.int64)
    return found


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Say in a sentence what polars says of a damaged file, and keep from the terminal what Rust writes when it panics.

    It writes there past Python, and polars raises the panic afterwards.
    """
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    except DAMAGED as error:
        panic = isinstance(error, pl.exceptions.PanicException)
        said = "it is damaged" if panic else " ".join(str(error).split("\n")[0].split())[:200]
        raise ValueError(
            f"{path} cannot be read as {path.suffix[1:]} ({said}): write it anew"
        ) from error
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


_Read = tuple[list[str], tuple[str, ...], pl.LazyFrame]
"""The names of a file's columns, a remark where the first of them is passed over, and its rows."""


def _csv(path: Path, _ignore: Sequence[str]) -> _Read:
    names = _header(path)
    types: dict[str, Any] = {name: pl.Float64 for name in names if _PROBABILITY.fullmatch(name)}
    lazy = pl.scan_csv(path, infer_schema=False, schema_overrides=types)
    if not types and path.stat().st_size < 1 << 26 and _written_plainly(path):
        types |= dict.fromkeys({*NAMED} & {*names}, pl.Int64)
        with suppress(pl.exceptions.ComputeError):  # some are texts
            whole = pl.read_csv(path, infer_schema=False, schema_overrides=types)
            lazy = whole.lazy()
    if len(names) > 1:  # in a single column an empty line is a gap
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - (1 << 16)))
            tail = file.read()
        empty = tail[len(tail.rstrip(b"\r\n")) :].count(b"\n") - 1
        if empty > 0:
            lazy = lazy.head(lazy.select(pl.len()).collect().item() - empty)
    return names, () if names[0] else _row_numbers(path), lazy


def _written_plainly(path: Path) -> bool:
    """Whether no field begins with a sign, a space or a zero before a digit: numbers read are then those written."""
    byte = np.fromfile(path, np.uint8)
    opens = (byte[:-2] == ord(",")) | (byte[:-2] == ord("\n"))
    odd = np.isin(byte[1:-1], [*b"+- "])
    digit = (byte[2:] >= ord("0")) & (byte[2:] <= ord("9"))
    odd |= (byte[1:-1] == ord("0")) & digit
    return not (opens & odd).any() and not (byte == ord('"')).any()


def _header(path: Path) -> list[str]:
    """The names of the columns, as they are written: polars would rename one that stands twice."""
    with path.open("rb") as file:
        head = file.readline(1 << 20)
    if packed := next((kind for begin, kind in _OTHERWISE.items() if head.startswith(begin)), None):
        raise ValueError(
            f"{path} must be CSV in UTF-8, and it is {packed}: unpack or convert it, or name it so"
        )
    if b"\x00" in head:
        raise ValueError(
            f"{path} must be CSV in UTF-8, and holds zero bytes, as UTF-16 has: convert it"
        )
    if not head.strip():
        raise ValueError(
            f"{path} is empty: write a line of column names, then a row for each example"
        )
    return [name or "" for name in pl.read_csv(head, has_header=False, infer_schema=False).row(0)]


def _row_numbers(path: Path) -> tuple[str, ...]:
    """The remark on a first column without a name, which data frames write: it must number the rows."""
    column = (
        pl.read_csv(path, columns=[0], infer_schema=False)
        .to_series()
        .drop_nulls()
        .cast(pl.Int64, strict=False)
    )
    if not any(column.equals(pl.Series(range(start, start + len(column)))) for start in (0, 1)):
        raise ValueError(
            f"{path} has a first column without a name that does not number the rows: name it, such as id, or "
            "write the table without it (index=False in pandas, row.names=FALSE in R)"
        )
    return ("the first column has no name and numbers the rows: it was passed over",)


def _parquet(path: Path, _ignore: Sequence[str]) -> _Read:
    lazy = pl.scan_parquet(path)
    return lazy.collect_schema().names(), (), lazy


def _require_room(path: Path, lazy: pl.LazyFrame, columns: int, texts: list[str]) -> None:
    """Refuse a packed table of which too much would come out."""
    no_limit = "write it as .csv, which has no limit"
    require_room(path, lazy.select(pl.len()).collect().item() * columns, no_limit)
    lengths = lazy.select(pl.col(texts)).select(
        pl.selectors.string().str.len_bytes().cast(pl.Int64).sum()
    )
    # a part at a time
    require_room(path, sum(map(sum, lengths.collect(engine="streaming").iter_rows())), no_limit)


def _npz(path: Path, ignore: Sequence[str]) -> _Read:
    arrays = read_npz(path, ignore=ignore)
    table = arrays.pop("probabilities", None)
    names = [*ignore, *arrays]
    if table is not None:
        if table.ndim != 2 or not table.shape[1]:
            raise ValueError(
                f"{path} must hold probabilities [n, classes], got shape {table.shape}: one row each"
            )
        names += [f"p{k}" for k in range(table.shape[1])]
        arrays |= zip(names[-table.shape[1] :], table.T, strict=True)
    if odd := [name for name, array in arrays.items() if array.ndim != 1]:
        raise ValueError(
            f"{path} must hold columns, got {odd[0]!r} of shape {arrays[odd[0]].shape}: flatten it, or call an array "
            "[n, classes] of probabilities 'probabilities'"
        )
    return names, (), pl.LazyFrame(arrays)


def _sorted(path: Path, names: list[str]) -> tuple[list[str], list[str], list[str]]:
    """The columns of names, those of numbers, and those of probabilities in order."""
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{path} has two columns called {twice[0]!r}: rename or drop one")
    named = [name for name in NAMED if name in names]
    numbers = [name for name in names if name in NUMBERS or _LOSS.fullmatch(name)]
    soft = sorted(
        (name for name in names if _PROBABILITY.fullmatch(name)), key=lambda name: int(name[1:])
    )
    if unknown := [name for name in names if name not in {*named, *numbers, *soft}]:
        raise ValueError(
            f"{path} has a column {unknown[0]!r} that is none of {', '.join(NAMED)}, weight, loss, loss_..., p0, p1, "
            f"...: rename it, or pass --ignore {word(unknown[0])}"
        )
    if missing := [k for k, name in enumerate(soft) if name != f"p{k}"]:
        raise ValueError(
            f"{path} must have a column p0, p1, ... for every class, and lacks p{missing[0]}: add it"
        )
    return named, numbers, soft


def _names(path: Path, column: pl.Series) -> np.ndarray:
    """A column of names: whole numbers where all are written as such, else texts or what the file has."""
    kind = column.dtype
    if not (kind.is_numeric() or kind == pl.Boolean):
        column = column.cast(pl.String)
        if not column.null_count() and column.str.contains(_WHOLE).all():
            column = column.cast(pl.Int64)
        elif column.name in ("label", "prediction"):
            # texts of numbers, one of them with a decimal point; codes such as 00 or 1e2 have none
            numbers = column.cast(pl.Float64, strict=False).is_finite().fill_null(value=False)
            decimals = column.str.contains(".", literal=True)
            if decimals.any() and numbers.all():
                row = int(decimals.arg_max() or 0)
                raise ValueError(
                    f"{path} must have whole numbers or text in column {column.name!r}, got {column[row]} in row "
                    f"{row}: nothing is truncated here; write class numbers without a decimal point"
                )
    return column.to_numpy()


def _numbers(path: Path, column: pl.Series) -> np.ndarray:
    found = column.cast(pl.Float64, strict=False)
    odd = found.is_null() | found.is_nan()
    if odd.any():
        row = int(odd.arg_max() or 0)
        raise ValueError(
            f"{path} must have numbers in column {column.name!r}, got {column[row]!r} in row {row}: fill it in, for "
            f"{LEFT_OUT}"
        )
    return (found if column.dtype.is_float() or column.dtype == pl.String else column).to_numpy()
