"""Tables of predictions: CSV, JSON, Parquet and npz with the columns that docs/predictions.md names.

Texts are read as texts, whole numbers as whole numbers, and nothing else is guessed: a label with a decimal point is
refused, unless all of them are whole.
"""

import codecs
import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bounds._check import json_value
from pacdp.cli.predicting.called import PROBABILITY, called
from pacdp.cli.terminal import refusing, word
from pacdp.data.unpacking import read_npz, require_room, room
from pacdp.predictions.columns import LEFT_OUT, Coded, coded
from pacdp.store.record import record

NAMED = ("label", "prediction", "group", "person", "model", "id")
"""Columns of names; each at most once."""
NUMBERS = ("weight",)
_LOSS = re.compile(r"loss(_\w+)?")
_OF_MODEL = re.compile(r"(?:prediction|y_pred|pred)_(.+)")
_WHOLE = re.compile(r"0|-?[1-9]\d*")
_FLOAT = r"^(0|-?[1-9]\d{0,17})\.0$"
_DECIMAL_COMMA = r"^(-?\d*),([\dEe+-]+)$"
_THOUSANDS = r"^ *-?[1-9]\d{0,2}\.\d{3} *$"
_UNREAD = ("List", "Array", "Struct", "Object", "Int128", "UInt128", "Time", "Duration")
"""Types that NumPy has not, or of which a text shows a part alone."""
_GZIP, _UTF_16 = b"\x1f\x8b", (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_PACKED = (_GZIP, b"\x28\xb5\x2f\xfd", b"x\x01", b"x^", b"x\x9c", b"x\xda")
"""How gzip, Zstd and zlib begin, which polars would unpack to any size."""
_AS_TEXT = "save it as CSV in UTF-8 (in Excel: CSV UTF-8)"
_WHOLES = {"error": 1, "positive": 1, "position": 2**53 - 1}
"""Columns of whole numbers, and the largest of them."""
_TRUTH = {"True": "1", "TRUE": "1", "true": "1", "False": "0", "FALSE": "0", "false": "0"}
"""How Python, R and polars write truth values."""
DAMAGED = (pl.exceptions.PolarsError, pl.exceptions.PanicException, UnicodeError,
           EOFError, gzip.BadGzipFile, zlib.error)  # fmt: skip
"""Polars panics at some damaged files of Parquet."""


@record(eq=False)
class Table:
    """The columns of a file, by their names.

    Attributes:
        named: label, prediction, group, person, model, id, as far as they are there: texts as :class:`Coded`, and model
            and id whatever they are, others as arrays.
        numbers: weight and losses.
        soft: probabilities [rows, classes].
        classes: theirs, where columns name them.
        remarks: what was passed over.
        record: what one of its people is called.
        range_by: who says in which range its losses lie; empty for whoever wrote the table.
    """

    rows: int
    named: dict[str, Any]
    numbers: dict[str, np.ndarray]
    soft: np.ndarray | None = None
    classes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    record: str = "person"
    range_by: str = ""


def read_table(path: Path, ignore: Sequence[str] = (), *, real: bool = False) -> Table:
    """The table in a file, whose labels and predictions are numbers if ``real``.

    Raises:
        ValueError: the file is damaged or empty, or has a column that this does not know.
    """
    readers = {
        ".csv": _csv,
        ".tsv": _csv,
        ".jsonl": _json,
        ".json": _json,
        ".parquet": _parquet,
        ".npz": _npz,
    }
    reader = readers.get(_suffix(path))
    if reader is None:
        raise ValueError(f"{path} must be one of {', '.join(readers)} or .eval: {_AS_TEXT}")
    with _reading(path):
        names, rows, remarks = reader(path, ignore)
        if absent := sorted(set(ignore).difference(names)):
            raise ValueError(f"{path} has no column {absent[0]!r} to ignore: correct --ignore")
        kept = [name for name in names if name not in ignore]
        unnamed = kept[:1] == [""]
        if twice := [name for name in kept if kept.count(name) > 1]:
            raise ValueError(f"{path} has two columns called {twice[0]!r}: rename or drop one")
        here = called(kept)
        there, classes = dict(zip(here.names, kept, strict=True)), here.classes
        models = {name: found[1] for name in kept if (found := _OF_MODEL.fullmatch(name))}
        if len(models) < 2 or {"prediction", "model"} & {*here.names}:
            models = {}
        if len({*models.values()}) < len(models):  # pred_a and y_pred_a are two
            models = {name: name for name in models}
        if shared := [name for name in here.names if models and _LOSS.fullmatch(name)]:
            raise ValueError(
                f"{path} has a column {shared[0]!r} beside predictions of several models, and does not say whose loss "
                f"it is: write a row for each example and model, with a column model, or ignore {', '.join(shared)}"
            )
        read_as = ", ".join(f"{name} as {of}" for name, of in models.items())
        told = {
            f"columns were left out: {', '.join(ignore)}; if one says whose an example is, or which of its answers a "
            "row holds, rows are not independent: give people, as a column person; if one says on which rows the model "
            "was trained, take these out": ignore,
            f"columns were read as predictions of models: {read_as}": models,
        }
        rest = [name for name in here.names[unnamed:] if name not in models]
        own = [*rest, *(("prediction", "model") if models else ())]
        named, numbers, soft = _sorted(path, own, ignore)
        wanted = [*numbers, *soft, *({"label", "prediction"} & {*named} if real else ())]
        frame = rows(kept, [there[name] for name in (*numbers, *soft)])
        for name, kind in frame.schema.items():
            if str(kind).partition("(")[0] in _UNREAD:
                raise ValueError(
                    f"{path} has values of type {kind} in column {name!r}, which are no single text or number: write "
                    "one in each row (of several labels an example, each label is a question of its own), and numbers "
                    "of more than 64 bits as text"
                )
        # as data frames write: a whole number of its own in each row, in whatever order
        if unnamed:
            index = frame[""].drop_nulls().cast(pl.Int64, strict=False)
            if index.has_nulls() or index.n_unique() < len(index):
                raise ValueError(
                    f"{path} has a first column without a name that does not number the rows: name it, such as id, or "
                    "write the table without it (index=False in pandas, row.names=FALSE in R)"
                )
            remarks = [
                *remarks,
                "the first column has no name and numbers the rows: it was passed over",
            ]
        frame = frame.rename({there[name]: name for name in rest})
        if models:  # a row for each example and model
            given = models.items()
            frame = pl.concat(
                frame.select(*rest, prediction=name, model=pl.lit(of)) for name, of in given
            )
        if frame.is_empty():
            raise ValueError(f"{path} holds no rows: write a row for each example")
        columns = {name: _numbers(path, frame[name]) for name in wanted}
        names_of: dict[str, Any] = {
            name: columns[name].to_numpy() if name in columns else _names(path, frame[name])
            for name in named
        }
        for name in {"model", "id"} & {*named}:  # by which rows are paired
            names_of[name] = coded(f"{name} of {path}", names_of[name])
        told[
            "each model's rows were taken in their order, as answers to the same examples: if they were sorted by "
            "label, answer, score or loss, differences between models are false; give ids, as a column id"
        ] = (
            not models
            and "id" not in named
            and len(getattr(names_of.get("model"), "names", "")) > 1
        )
        for name in {"label", "prediction"} & {*wanted}:
            told |= _thousands(frame[name])
        if texts := [name for name in soft if not frame[name].dtype.is_numeric()]:
            raise ValueError(
                f"{path} must have numbers in column {texts[0]!r}, got {frame[texts[0]].dtype}: convert them"
            )
        table = frame.select(soft).cast(pl.Float64).to_numpy() if soft else None
        if table is not None and len(soft) == 1:  # of the second of two classes
            table, labels = np.column_stack([1.0 - table, table]), names_of.get("label", ())
            others = {*map(str, getattr(labels, "names", labels))} - {*classes}
            classes = classes and (*sorted(others), *classes)
        return Table(
            rows=frame.height,
            named=names_of,
            numbers={name: columns[name].to_numpy() for name in numbers},
            soft=table,
            classes=classes,
            remarks=(*remarks, *(said for said, so in told.items() if so), *here.remarks),
        )


def read_columns(path: Path, known: Sequence[str]) -> dict[str, np.ndarray]:
    """The columns of a CSV file: whole numbers for error, positive and position, text for group, numbers otherwise.

    Truth values are 1 and 0 in error and positive.

    Raises:
        ValueError: no such file, a column that is not ``known`` or stands twice, a gap, or no rows.
    """
    with _reading(path):
        written, rows, _ = _csv(path, ())
        names = [name.strip() for name in written]  # spaces may follow commas
        if odd := [name for name in names if name not in known or names.count(name) > 1]:
            raise ValueError(
                f"{path} has a column {odd[0]!r} that is unknown or stands twice: keep {', '.join(known)}"
            )
        frame = rows(written, []).rename(dict(zip(written, names, strict=True)))
        frame = frame.with_columns(pl.col(pl.String).str.strip_chars(" "))
    if frame.is_empty():
        raise ValueError(f"{path} holds no rows: write a row for each example")
    found = dict[str, np.ndarray]()
    for name in names:
        if name == "group":
            group = coded(f"group of {path}", _names(path, frame[name]))
            found[name] = np.array([*map(str, group.names)])[group.codes]
            continue
        column, most = frame[name], _WHOLES.get(name)
        if most == 1 and column.dtype == pl.String:
            column = column.replace(_TRUTH)
        found[name] = column = _numbers(path, column).to_numpy()
        if most:
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
        again = "write it anew"
        if re.search("utf-?8", said, re.IGNORECASE):  # cp1252 of Windows, .xlsx called .csv
            said, again = "it is no text in UTF-8", _AS_TEXT
        if "found more fields" in said:
            said = "a row has more fields than the first line names"
            again = "name each column, or write none that has no name (row.names=FALSE in R)"
        raise ValueError(
            f"{path} cannot be read as {_suffix(path)[1:]} ({said}): {again}"
        ) from error
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


_Rows = Callable[[list[str], list[str]], pl.DataFrame]
"""Reads some columns of a file, of which some are to be numbers."""
_Read = tuple[list[str], _Rows, Sequence[str]]
"""The names of the columns, their reader, and remarks on what was decided for whoever wrote the file."""


def _suffix(path: Path) -> str:
    """What the name says of the content, packed by gzip or not."""
    name = path.name.lower().removesuffix(".gz")
    return Path(name).suffix


def _text(path: Path) -> tuple[bytes, list[str]]:
    """What a file of text holds, in UTF-8, and remarks on what its first bytes decided."""
    content, remarks = path.read_bytes(), list[str]()
    if content.startswith(_GZIP):
        with gzip.open(path) as file:
            content = file.read(room(path) + 1)
        require_room(path, len(content), "unpack it")
        remarks.append("the file begins as gzip does: it was unpacked")
    if content.startswith(_UTF_16):
        content = content.decode("utf-16").encode()
        remarks.append("the file begins with the mark of UTF-16: it was read so")
    content = content.removeprefix(codecs.BOM_UTF8)
    if content.startswith(_PACKED) or b"\x00" in content[: 1 << 20]:
        raise UnicodeError("no UTF-8")
    if not content.strip():
        raise ValueError(
            f"{path} is empty: write a line of column names, then a row for each example"
        )
    return content, remarks


def _json(path: Path, _ignore: Sequence[str]) -> _Read:
    """Records in lines, or in a list."""
    content, remarks = _text(path)
    # a record a line stands under .json too, as datasets.to_json writes it
    lined, text = _suffix(path) == ".jsonl" or content.lstrip().startswith(b"{"), content.decode()
    read = pl.read_ndjson if lined else pl.read_json
    frame = pl.DataFrame()
    with suppress(*DAMAGED):
        frame = read(content, infer_schema_length=None)
    if not _keys_once(content, frame):
        for number, one in enumerate(text.split("\n") if lined else [text], start=1):
            where = f", line {number}" if lined else ""
            with refusing(f"{path} is no JSON{where}", or_else="write it whole, every key once"):
                json_value(one.strip() or "null")  # of a key that stands twice polars keeps one
        frame = read(content, infer_schema_length=None)
    return frame.columns, lambda kept, _: frame.select(kept), remarks


def _keys_once(content: bytes, frame: pl.DataFrame) -> bool:
    """Whether it can be seen by counting that no record has a key twice: each has all keys, and in one spelling."""
    plain = b"\\" not in content and not any(one.is_nested() for one in frame.dtypes)
    whole = not frame.is_empty() and not any(frame.null_count().row(0))
    marks = [b"{", *(f'"{name}"'.encode() for name in frame.columns)]
    return plain and whole and all(content.count(one) == frame.height for one in marks)


def _csv(path: Path, _ignore: Sequence[str]) -> _Read:
    """Columns by their names as they are written (polars would rename one that stands twice), and what parts them: a
    comma, or where there is none a semicolon or a tab; in a .tsv a tab first.
    """
    content, remarks = _text(path)
    head = io.BytesIO(content).readline(1 << 20)
    marks = "\t,;" if _suffix(path) == ".tsv" else ",;\t"
    separator = next((one for one in marks if one.encode() in head), ",")
    row = pl.read_csv(head, separator=separator, has_header=False, infer_schema=False).row(0)
    end = content[len(content.rstrip(b"\r\n")) :]
    # in a single column an empty line is a gap
    empty = max(0, end.count(b"\n") - 1) if separator.encode() in head else 0

    def read(kept: list[str], **types: Any) -> pl.DataFrame:
        # all columns, those to ignore too: a quote or a comma in one of them may take others with it
        frame = pl.read_csv(
            content, separator=separator, infer_schema=False, schema_overrides=types
        )
        if (lines := content.rstrip(b"\r\n").count(b"\n")) != len(frame) - empty:
            said = f"{lines} lines are {len(frame) - empty} rows, since quotes hold line breaks"
            remarks.append(
                f"{said}: a quote that was meant as a letter hides the rows up to the next one"
            )
        return frame.select(kept)[: -empty or None]

    def rows(kept: list[str], numbers: list[str]) -> pl.DataFrame:
        """Texts, and numbers where these must be."""
        with suppress(pl.exceptions.ComputeError):
            if separator != ";":
                return read(kept, **dict.fromkeys(numbers, pl.Float64))
        texts = read(kept)  # of truth values, of decimals with a comma, or of what _numbers names
        if separator == ";":
            texts = texts.with_columns(pl.all().str.replace(_DECIMAL_COMMA, "${1}.${2}"))
        return texts.with_columns(_numbers(path, texts[name]) for name in numbers)

    return [name or "" for name in row], rows, remarks


def _parquet(path: Path, _ignore: Sequence[str]) -> _Read:
    lazy = pl.scan_parquet(path, glob=False)  # a name such as a[1].parquet is that of one file

    def rows(kept: list[str], _: list[str]) -> pl.DataFrame:
        """The columns, unless too much would come out of a packed table."""
        own, no_limit = lazy.select(kept), "write it as .csv, which has no limit"
        require_room(path, own.select(pl.len()).collect().item() * len(kept), no_limit)
        lengths = own.select(pl.selectors.string().str.len_bytes().cast(pl.Int64).sum())
        # a part at a time
        rooms = lengths.collect(engine="streaming").iter_rows()
        require_room(path, sum(map(sum, rooms)), no_limit)
        return own.collect()

    return lazy.collect_schema().names(), rows, ()


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
            f"{path} must hold columns of one value an example, got {odd[0]!r} of shape {arrays[odd[0]].shape}: write "
            ".squeeze(1) of (n, 1) and .argmax(1) of one-hot rows, and call an array [n, classes] of probabilities "
            "'probabilities'"
        )
    return names, lambda kept, _: pl.DataFrame(arrays).select(kept), ()


def _sorted(
    path: Path, names: list[str], ignore: Sequence[str]
) -> tuple[list[str], list[str], list[str]]:
    """The columns of names, those of numbers, and those of probabilities in order."""
    named = [name for name in NAMED if name in names]
    numbers = [name for name in names if name in NUMBERS or _LOSS.fullmatch(name)]
    soft = sorted(
        (name for name in names if PROBABILITY.fullmatch(name)), key=lambda name: int(name[1:])
    )
    if unknown := [name for name in names if name not in {*named, *numbers, *soft}]:
        others = " ".join(map(word, [*ignore, *unknown]))
        mend = f"rename it (person, if it says whose a row is), or pass --ignore {others}"
        if "" in unknown:  # which no command line can name
            unknown, mend = [""], "give it a name, or write the table without it"
        raise ValueError(
            f"{path} has a column {unknown[0]!r} that is none of {', '.join(NAMED)}, weight, loss, loss_..., p0, p1, "
            f"...: {mend}"
        )
    missing = [k for k in range(max(2, len(soft))) if f"p{k}" not in soft]
    if soft and missing and soft != ["p1"]:
        raise ValueError(
            f"{path} must have a column p0, p1, ... for every class, and lacks p{missing[0]}: add it"
        )
    return named, numbers, soft


def _names(path: Path, column: pl.Series) -> NDArray[Any] | Coded:
    """A column of names: whole numbers where all are written as such, else texts or what the file has."""
    if column.dtype == pl.Boolean or (column.dtype.is_numeric() and not column.dtype.is_decimal()):
        return column.to_numpy()
    column = column.cast(pl.String)  # decimals too, as databases write whole numbers
    if column.null_count():
        return column.to_numpy()
    plain = column.str.strip_chars(" ")  # which may follow commas
    if _WHOLE.fullmatch(plain[0]):
        whole = plain.cast(pl.Int64, strict=False)
        if not whole.null_count() and (whole.cast(pl.String) == plain).all():
            return whole.to_numpy()
    names = column.unique().sort()
    if column.name in ("label", "prediction"):
        # texts of numbers, one of them with a decimal point; codes such as 00 or 1e2 have none
        if names.str.contains(
            _FLOAT
        ).all():  # as pandas writes whole numbers of a column that had a gap
            return column.str.head(-2).cast(pl.Int64).to_numpy()
        numbers = names.cast(pl.Float64, strict=False).is_finite().fill_null(value=False)
        if numbers.all() and names.str.contains(".", literal=True).any():
            row = int(column.str.contains(".", literal=True).arg_max() or 0)
            raise ValueError(
                f"{path} must have whole numbers or text in column {column.name!r}, got {column[row]} in row "
                f"{row}: nothing is truncated here; write class numbers without a decimal point, "
                "and give real numbers with --range LOW HIGH"
            )
    codes = column.cast(pl.Enum(names)).to_physical().to_numpy()
    return Coded(tuple(names), codes.astype(np.int64))


def _thousands(column: pl.Series) -> dict[str, bool]:
    """What is to be said of real numbers each mark of which may part thousands."""
    if column.dtype != pl.String:
        return {}
    marked = column.filter(column.str.contains(".", literal=True))
    if marked.is_empty() or not marked.str.contains(_THOUSANDS).all():
        return {}
    said = f"numbers such as {marked[0]} in column {column.name!r} were read with three decimals"
    return {f"{said}: if the mark parts thousands, write them without": True}


def _numbers(path: Path, column: pl.Series) -> pl.Series:
    truths = column.dtype == pl.String and not column.null_count()
    if truths and _LOSS.fullmatch(column.name) and column.is_in([*_TRUTH]).all():  # errors
        return column.replace(_TRUTH).cast(pl.Int8).cast(pl.Boolean)
    found = column.cast(pl.Float64, strict=False)
    if found.null_count() or found.is_nan().any():
        row = int((found.is_null() | found.is_nan()).arg_max() or 0)
        raise ValueError(
            f"{path} must have numbers in column {column.name!r}, got {column[row]!r} in row {row}: fill it in, for "
            f"{LEFT_OUT}"
        )
    return found if column.dtype == pl.String or column.dtype.is_decimal() else column
