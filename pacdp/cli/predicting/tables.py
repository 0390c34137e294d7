"""Tables of predictions: CSV, Parquet and npz with the columns that docs/predictions.md names.

Texts are read as texts, whole numbers as whole numbers, and nothing else is guessed: a label with a decimal point is
refused. Probabilities are read some rows at a time.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from pacdp.cli.terminal import word
from pacdp.data.arrays import read_npz
from pacdp.data.unpacking import require_room
from pacdp.predictions.answers import Answers, from_probabilities, joined
from pacdp.predictions.columns import LEFT_OUT, Coded, coded

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
_WHOLES = {
    "error": (1, "0 or 1"), "positive": (1, "0 or 1"), "position": (2**53 - 1, "a whole number of at least 0"),
}  # fmt: skip
"""Columns of whole numbers: the largest of them, and what they are."""
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
        soft: the columns of probabilities, in order.
        lazy: the file's rows, of which probabilities are read some at a time.
        remarks: what was passed over.
        record: what one of its people is called.
        range_by: who says in which range its losses lie; empty for whoever wrote the table.
    """

    path: Path
    rows: int
    named: dict[str, Coded]
    numbers: dict[str, np.ndarray]
    soft: list[str] = field(default_factory=list[str])
    lazy: pl.LazyFrame = field(default_factory=pl.LazyFrame)
    remarks: tuple[str, ...] = ()
    record: str = "person"
    range_by: str = ""

    def answers(self, labels: np.ndarray) -> Answers:
        """What the probabilities say, row by row."""
        parts = list[Answers]()
        size = max(1, _CELLS // max(1, len(self.soft)))
        for at in range(0, self.rows, size):
            with _reading(self.path):
                frame = self.lazy.select(self.soft).slice(at, size).collect()
            if texts := [one.name for one in frame if not one.dtype.is_numeric()]:
                raise ValueError(
                    f"{self.path} must have numbers in column {texts[0]!r}, got {frame[texts[0]].dtype}: convert them"
                )
            rows = np.column_stack([_numbers(self.path, one, at) for one in frame]).astype(
                np.float64
            )
            parts.append(from_probabilities(rows, labels[at : at + size], first=at))
        return joined(parts)


def read_table(path: Path, ignore: Sequence[str] = ()) -> Table:
    """The table in a file.

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
        rows = lazy.select(pl.len()).collect().item()
        if rows == 0:
            raise ValueError(f"{path} holds no rows: write a row for each example")
        if path.suffix.lower() == ".parquet":
            _require_room(path, lazy, rows * len(kept), named + numbers)
        frame = lazy.select(named + numbers).collect()
        names_of = {name: _names(path, frame[name]) for name in named}
        for name in {"model", "id"} & {*named}:  # by which rows are paired
            coded(f"{name} of {path}", names_of[name])
        return Table(
            path=path, rows=rows, named=names_of,
            numbers={name: _numbers(path, frame[name]) for name in numbers}, soft=soft, lazy=lazy, remarks=passed,
        )  # fmt: skip


def read_columns(path: Path, known: Sequence[str]) -> dict[str, np.ndarray]:
    """The columns of a CSV file: whole numbers for error, positive and position, text for group, numbers otherwise.

    Raises:
        ValueError: no such file, a column that is not ``known`` or stands twice, a gap, or no rows.
    """
    with _reading(path):
        names, _, lazy = _csv(path, ())
        if odd := [name for name in names if name not in known or names.count(name) > 1]:
            raise ValueError(
                f"{path} has a column {odd[0]!r} that is unknown or stands twice: keep {', '.join(known)}"
            )
        frame = lazy.collect()
    if frame.is_empty():
        raise ValueError(f"{path} holds no rows: write a row for each example")
    found = dict[str, np.ndarray]()
    for name in names:
        if name == "group":
            group = coded(f"group of {path}", _names(path, frame[name]))
            found[name] = np.array([str(one) for one in group.names])[group.codes]
            continue
        found[name] = column = _numbers(path, frame[name])
        if name in _WHOLES:
            most, said = _WHOLES[name]
            if (odd := (column % 1 != 0) | (column < 0) | (column > most)).any():
                row = int(odd.argmax())
                raise ValueError(
                    f"{path} must have {said} in column {name!r}, got {column[row]:g} in row {row}"
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
    types = {name: pl.Float64 for name in names if _PROBABILITY.fullmatch(name)}
    lazy = pl.scan_csv(path, infer_schema=False, schema_overrides=types)
    if len(names) > 1:  # in a single column an empty line is a gap
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - (1 << 16)))
            tail = file.read()
        empty = tail[len(tail.rstrip(b"\r\n")) :].count(b"\n") - 1
        if empty > 0:
            lazy = lazy.head(lazy.select(pl.len()).collect().item() - empty)
    return names, () if names[0] else _row_numbers(path), lazy


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


def _require_room(path: Path, lazy: pl.LazyFrame, cells: int, columns: list[str]) -> None:
    """Refuse a packed table of which too much would come out."""
    no_limit = "write it as .csv, which has no limit"
    require_room(path, cells, no_limit)
    lengths = lazy.select(pl.col(columns)).select(
        pl.selectors.string().str.len_bytes().cast(pl.Int64).sum()
    )
    texts = lengths.collect(engine="streaming")  # a part at a time
    require_room(path, sum(map(sum, texts.iter_rows())), no_limit)


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


def _names(path: Path, column: pl.Series) -> Coded:
    """A column of names: whole numbers where all are written as such, else texts; a gap is the empty text."""
    if column.dtype.is_float():
        column = column.fill_nan(None)
    if column.null_count():
        column = column.cast(pl.String).fill_null("")
    if column.dtype == pl.String and column.str.contains(_WHOLE).all():
        column = column.cast(pl.Int64)
    decimals = column.dtype.is_float()
    if column.dtype == pl.String and column.name in ("label", "prediction"):
        # texts of numbers, one of them with a decimal point; codes such as 00 or 1e2 have none
        numbers = column.cast(pl.Float64, strict=False).is_finite().fill_null(value=False)
        decimals = column.str.contains(".", literal=True).any() and numbers.all()
    if decimals:
        written = column.cast(pl.String)
        row = int(written.str.contains(".", literal=True).arg_max() or 0)
        raise ValueError(
            f"{path} must have whole numbers or text in column {column.name!r}, got {written[row]} in row {row}: "
            "nothing is truncated here; write class numbers without a decimal point"
        )
    if column.dtype.is_integer():
        column = column.cast(pl.Int64)
    elif column.dtype != pl.Boolean:
        column = column.cast(pl.String)
    names = column.unique().sort()
    codes = column.rank("dense").cast(pl.Int64).to_numpy() - 1
    return Coded(tuple(names.to_list()), np.ascontiguousarray(codes))


def _numbers(path: Path, column: pl.Series, first: int = 0) -> np.ndarray:
    found = column.cast(pl.Float64, strict=False)
    odd = found.is_null() | found.is_nan()
    if odd.any():
        row = int(odd.arg_max() or 0)
        raise ValueError(
            f"{path} must have numbers in column {column.name!r}, got {column[row]!r} in row {first + row}: fill it "
            f"in, for {LEFT_OUT}"
        )
    return (found if column.dtype.is_float() or column.dtype == pl.String else column).to_numpy()
