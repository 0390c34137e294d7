"""Tables of predictions: CSV, Parquet and npz with the columns that docs/predictions.md names.

Texts are read as texts, whole numbers as whole numbers, and nothing else is guessed: a label with a decimal point is
refused. Probabilities are read some rows at a time.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from pacdp.cli.terminal import word
from pacdp.data.arrays import read_npz
from pacdp.data.unpacking import require_room
from pacdp.predictions.answers import Answers, from_probabilities, joined
from pacdp.predictions.columns import LEFT_OUT, Coded

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
        remarks: what was passed over.
    """

    rows: int
    named: dict[str, Coded]
    numbers: dict[str, np.ndarray]
    classes: int = 0
    chunks: Callable[[], Iterator[np.ndarray]] = lambda: iter(())
    remarks: tuple[str, ...] = ()

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
        raise ValueError(
            f"{path} must be one of {', '.join(readers)}, .jsonl, .json or .eval: convert it"
        )
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
    said = (
        " ".join(str(error).split("\n")[0].split())[:200]
        if isinstance(error, Exception)
        else "it is damaged"
    )
    return ValueError(f"{path} cannot be read as {path.suffix[1:]} ({said}): write it anew")


def _csv(path: Path, ignore: frozenset[str]) -> Table:
    names = _header(path)
    remarks = ()
    if not names[0]:
        ignore, remarks = ignore | {""}, _row_numbers(path)
    columns = len(names)
    names = _left(path, names, ignore)
    named, numbers, soft = _sorted(path, names)
    texts = (
        pl.read_csv(path, columns=[*named, *numbers], infer_schema=False)
        if named or numbers
        else pl.DataFrame()
    )
    rows = (
        texts.height
        if texts.width
        else pl.scan_csv(path, infer_schema=False).select(pl.len()).collect().item()
    )
    if columns > 1:  # in a single column an empty line is a gap
        rows -= _empty_lines_at_the_end(path)
    types = dict.fromkeys(soft, pl.Float64)

    def chunk(at: int, size: int) -> pl.DataFrame:
        lazy = pl.scan_csv(path, schema_overrides=types, infer_schema_length=0)
        return lazy.select(soft).slice(at, min(size, rows - at)).collect()

    return replace(
        _table(path, texts.head(rows), named, numbers, soft, rows, chunk), remarks=remarks
    )


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


def _empty_lines_at_the_end(path: Path) -> int:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - (1 << 16)))
        tail = file.read()
    return max(0, tail[len(tail.rstrip(b"\r\n")) :].count(b"\n") - 1)


def _parquet(path: Path, ignore: frozenset[str]) -> Table:
    lazy, no_limit = pl.scan_parquet(path), "write it as .csv, which has no limit"
    names = _left(path, lazy.collect_schema().names(), ignore)
    named, numbers, soft = _sorted(path, names)
    rows = lazy.select(pl.len()).collect().item()
    require_room(path, rows * len(names), no_limit)
    lengths = lazy.select(pl.col(named + numbers)).select(
        pl.selectors.string().str.len_bytes().cast(pl.Int64).sum()
    )
    texts = lengths.collect(engine="streaming")  # a part at a time
    require_room(path, sum(map(sum, texts.iter_rows())), no_limit)
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
            raise ValueError(
                f"{path} must hold 'probabilities' or {soft[0]!r} and so on, got both: drop one of them"
            )
        if table.ndim != 2:
            raise ValueError(
                f"{path} must hold probabilities [n, classes], got shape {table.shape}: one row each"
            )
        sizes["probabilities"] = len(table)
    if len(set(sizes.values())) > 1:
        said = ", ".join(f"{size} in {name!r}" for name, size in sizes.items())
        raise ValueError(
            f"{path} must hold arrays of one length, got {said}: write all rows of each"
        )
    frame = pl.DataFrame({name: arrays[name] for name in (*named, *numbers)})
    matrix = np.column_stack([arrays[name] for name in soft]) if soft else table
    found = _table(
        path, frame, named, numbers, [], next(iter(sizes.values()), 0), lambda _at, _size: frame
    )
    if matrix is None:
        return found
    return Table(rows=found.rows, named=found.named, numbers=found.numbers, classes=matrix.shape[1],
                 chunks=lambda: iter([matrix]))  # fmt: skip


def _left(path: Path, names: list[str], ignore: frozenset[str]) -> list[str]:
    """The columns without those to ignore, each of which must be there."""
    if absent := sorted(ignore.difference(names)):
        raise ValueError(f"{path} has no column {absent[0]!r} to ignore: correct --ignore")
    return [name for name in names if name not in ignore]


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
    """A column of names: whole numbers where all are written as such, else texts; a gap is the empty text."""
    if column.dtype.is_float():
        column = column.fill_nan(None)
    if column.null_count():
        column = column.cast(pl.String).fill_null("")
    if column.dtype == pl.String and column.str.contains(_WHOLE).all():
        column = column.cast(pl.Int64)
    if column.dtype.is_float() or (column.name in ("label", "prediction") and _all_numbers(column)):
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


def _all_numbers(column: pl.Series) -> bool:
    """Whether these are texts of numbers, one of them with a decimal point; codes such as 00 or 1e2 have none."""
    if column.dtype != pl.String or not column.str.contains(".", literal=True).any():
        return False
    return bool(column.cast(pl.Float64, strict=False).is_finite().fill_null(value=False).all())


def _numbers(path: Path, column: pl.Series) -> np.ndarray:
    found = column.cast(pl.Float64, strict=False)
    odd = found.is_null() | found.is_nan()
    if odd.any():
        row = int(odd.arg_max() or 0)
        raise ValueError(
            f"{path} must have numbers in column {column.name!r}, got {column[row]!r} in row {row} of the table: "
            f"fill it in, for {LEFT_OUT}"
        )
    return (found if column.dtype.is_float() or column.dtype == pl.String else column).to_numpy()


def _probabilities(path: Path, frame: pl.DataFrame, at: int) -> np.ndarray:
    for column in frame:
        if not column.dtype.is_numeric() or column.null_count():
            gap = int(column.is_null().arg_max() or 0)
            raise ValueError(
                f"{path} must have numbers in column {column.name!r}, got none in row {at + gap} of the table: fill it "
                f"in, for {LEFT_OUT}"
            )
    return frame.to_numpy().astype(np.float64, copy=False)
