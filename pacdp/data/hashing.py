"""A 64-bit hash for each row of an array: equal rows always agree, different ones with probability 2**-64.

It is BLAKE2b of 8 bytes over the row's little-endian bytes, personalised by their dtype and width; a pair of hashes has
that of their 16 bytes. Among n rows some two different ones agree with probability about n**2/2**65, 1e-10 for 60,000.

Anybody can compute the hashes, look whether a record that they have is among them, and make different rows that agree,
in some 2**32 tries.

The values decide, not their format: a row that float32 holds exactly is hashed as float32, so that the same numbers as
uint8, float32 and float64 agree (bytes and bytes/255 are other numbers), and so do 0.0 and -0.0, and NaNs of all bits.
Other rows are hashed as float64, int64 or uint64. The shape of a row does not enter: [28, 28] and [784] agree.
"""

import copy
import hashlib
import math
import pickle
import unicodedata
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from jaxtyping import Shaped, UInt64

from pacdp.data.errors import DataError

WHOLE, HALF, SINGLE, DOUBLE, BRAIN = 1, 2, 3, 4, 5
_EXACT = 2**53  # double precision holds whole numbers below it
_FEW, _SOME = 64, 4096  # rows, and numbers of them, that say in which precision all are
_TELLING = ("builtins", "datetime", "decimal", "numpy", "pandas")
"""Where classes are from whose texts say all of a value."""
FINER = (0, WHOLE, BRAIN, HALF, SINGLE, DOUBLE)
"""What precisions are called, the coarsest first: a few rows of a finer one may look like a coarser one."""
Hashes = UInt64[np.ndarray, " n"]
"""A hash for each of n rows."""
Matrix = Shaped[np.ndarray, "_ _"]
_CHUNK = 1 << 18  # numbers at a time: 2 MB as float64, which a core's cache holds


def row_hashes(values: Any, *, name: str = "values") -> Hashes:
    """The hash of each row ``values[i]``, whatever shape a row has.

    Args:
        values: a NumPy array or a tensor, [n, ...], of booleans, integers, real or complex numbers.
        name: what the values are, for the error's sentence.

    Raises:
        DataError: no numbers, no rows, or nothing in a row.
    """
    rows = _matrix(values, name)
    places = slice(None)
    if rows.shape[1] == 1:  # labels and people are few values, many times
        distinct, places = np.unique(rows[:, 0], return_inverse=True, equal_nan=False)
        rows = distinct[:, None]
    hashes = np.empty(len(rows), dtype=np.uint64)
    step = max(1, _CHUNK // rows.shape[1])
    for start in range(0, len(rows), step):
        hashes[start : start + step] = _value_hashes(rows[start : start + step])
    return hashes[places]


def pair_hashes(first: Hashes, second: Hashes) -> Hashes:
    """One hash for each pair of hashes; the order within a pair counts."""
    return _hashes(np.stack([first, second], axis=1), "pair")


def require_no_mask(values: Any, name: str) -> None:
    """Refuse a masked array, of which torch and NumPy take what lies under the mask; raises DataError."""
    if np.ma.isMaskedArray(values):
        raise DataError(
            f"{name} are a masked array, whose gaps would count as numbers: fill them in"
        )


def table_hashes(values: Any, *, name: str = "values") -> Hashes:
    """The hash of each row of a table as estimators take it, whatever form the same table comes in.

    Numbers agree to the 24 bits of single precision, whole ones exactly, and with their texts, as truth values do;
    texts without case and outer spaces, however their letters are composed, bytes too; dates with their texts, whatever
    their zone; a gap is a gap, be it NaN, None or empty; lists, sets and dicts agree if what they hold does; and
    objects of other kinds if they are pickled alike, but for what their cached properties keep.

    Args:
        values: an array, tensor, data frame, sparse matrix or list, [n] or [n, ...]; rows of a list may have lengths of
            their own.
        name: what the values are, for the error's sentence.

    Raises:
        DataError: no rows, nothing in a row, a masked array, or an object that neither says what it is nor is pickled.
    """
    require_no_mask(values, name)
    if hasattr(values, "tocsr"):
        rows, step = values.tocsr(), max(1, _CHUNK // max(1, values.shape[1]))
        parts = [
            table_hashes(rows[at : at + step].toarray()) for at in range(0, rows.shape[0], step)
        ]
        return np.concatenate(parts)
    try:
        array = _of_frame(values) if hasattr(values, "to_numpy") else array_of(values, name)
    except DataError:
        if not isinstance(values, list | tuple):
            raise
        array = np.fromiter(values, dtype=object, count=len(values))  # of rows of several lengths
    if array.dtype.kind in "mM":  # of which nanoseconds would be whole numbers
        array = array.astype(f"{array.dtype.kind}8[us]")
    if not array.size or array.dtype.kind == "c":
        return row_hashes(array, name=name)
    rows = numbers = array.reshape(len(array), -1)
    if (
        rows.shape[1] == 1 and rows.dtype.kind == "O"
    ):  # words of documents, say, as many as there are
        cells = [one.tolist() if hasattr(one, "tolist") else one for one in rows[:, 0]]
        if any(isinstance(one, list | tuple) for one in cells):
            return np.concatenate([table_hashes(_row_of(one), name=name) for one in cells])
    if array.dtype.kind in "biuf":
        limit = np.float64(_EXACT)  # which no narrower number rounds
        plain = ~((rows >= limit) | (rows <= -limit))
    else:  # numbers are numbers, whatever holds them
        found = [_number_of(cell) for cell in rows.ravel().tolist()]
        told = [None if one is None or abs(one) >= _EXACT else float(one) for one in found]
        plain = np.array([one is not None for one in told]).reshape(rows.shape)
        numbers = np.array(told, dtype=np.float64).reshape(rows.shape)
    whole = plain.all(axis=1)  # by row: how one is known hangs on no other
    if whole.all():
        return row_hashes(_in_single(numbers.astype(np.float64)), name=name)
    hashes = np.empty(len(rows), dtype=np.uint64)
    if whole.any():
        hashes[whole] = row_hashes(_in_single(numbers[whole].astype(np.float64)), name=name)
    texts = list(map(_said, rows[~whole].ravel().tolist()))
    different, places = np.unique(texts, return_inverse=True)
    digests = [hashlib.blake2b(one.encode(), digest_size=8).digest() for one in different.tolist()]
    words = np.frombuffer(b"".join(digests), dtype="<i8")[places].reshape(-1, rows.shape[1])
    hashes[~whole] = row_hashes(words, name=name)
    return hashes


def _of_frame(frame: Any) -> Shaped[np.ndarray, "..."]:
    """A data frame as an array: of polars, which makes numbers of times beside numbers, or fails, cell by cell."""
    kinds = {*frame.schema.values()} if hasattr(frame, "iter_columns") else set[Any]()
    if len(kinds) < 2 or not any(one.is_temporal() for one in kinds):
        return frame.to_numpy()
    columns = [np.fromiter(one, dtype=object, count=len(one)) for one in frame.iter_columns()]
    return np.stack(columns, axis=1)


def _row_of(cell: Any) -> Shaped[np.ndarray, "1 ..."]:
    """A table of one row: that which a list holds, where a cell is one, as if it had been a row of a table."""
    if isinstance(cell, list | tuple) and len(cell):
        plain = [one.tolist() if hasattr(one, "tolist") else one for one in cell]
        return np.array(plain, dtype=object)[None]
    return np.array([[None if isinstance(cell, list | tuple) else cell]], dtype=object)


def precision_of(values: Any, *, name: str = "values") -> int:
    """What some rows hold: whole numbers alone, fractions of a half precision, of single, or of neither.

    No row of one kind has the hash of the same data in another, as bytes and bytes / 255 are. The rows are spread over
    all, and steps through them meet every column, since one alone may hold fractions.
    """
    few = array_of(values[:: max(1, len(values) // _FEW)], name)
    width, few = math.prod(few.shape[1:]), few.reshape(-1)
    step = -(-few.size // _SOME) or 1
    while math.gcd(step, width) > 1:
        step += 1
    few = few[::step]
    if few.dtype.kind not in "fc" or np.array_equal(np.rint(few), few, equal_nan=True):
        return WHOLE
    if few.dtype == np.float64 and not np.array_equal(_in_single(few), few, equal_nan=True):
        return DOUBLE
    if few.dtype.kind == "c":
        return SINGLE
    if not (few.astype(np.float32).view(np.uint32) & 0xFFFF).any():
        return BRAIN  # of bfloat16, which float16 mostly holds too
    with np.errstate(over="ignore"):
        half = np.array_equal(few.astype(np.float16), few, equal_nan=True)
    return HALF if half else SINGLE


def _in_single(numbers: Any) -> Any:
    """Numbers to the bits of single precision; whole ones as they are."""
    with np.errstate(over="ignore"):
        return np.where(numbers == np.rint(numbers), numbers, np.float64(np.float32(numbers)))


def _number_of(cell: Any) -> Any:
    """A number, that which a text or a decimal is, or NaN for a gap; None where a cell is no number."""
    if isinstance(cell, Real):
        return cell
    if hasattr(cell, "__len__") and not isinstance(cell, str | bytes):
        return None
    text = _plain(cell)
    try:
        number = float({"true": 1, "false": 0}.get(text, text or "nan"))
    except ValueError:
        return None
    return None if abs(number) >= _EXACT else number


def _said(cell: Any) -> str:
    """A cell as a text, the same for all forms of a value."""
    known = _number_of(cell)
    if known is not None and not abs(known) >= _EXACT:
        return str(float(_in_single(float(known))))
    text = _plain(cell)
    for number in (int, float):
        with suppress(ValueError, OverflowError):
            return str(int(number(text)))
    with suppress(ValueError):
        text = str(datetime.fromisoformat(text.upper()).replace(tzinfo=None))
    return text


def _plain(cell: Any) -> str:
    """A text without case and outer spaces; nothing for a gap."""
    if isinstance(cell, dict | set | frozenset):  # whatever order it was made in
        cell = sorted(map(_said, cell.items() if isinstance(cell, dict) else cell))
    cell = cell.tolist() if hasattr(cell, "tolist") else cell  # of which a text is cut short
    if isinstance(cell, list | tuple):
        return f"[{', '.join(map(_said, cell))}]"
    cell = cell.decode(errors="replace") if isinstance(cell, bytes) else cell
    text = " ".join(str(cell).split())
    telling = type(cell).__module__.partition(".")[0] in _TELLING and " at 0x" not in text
    if not (telling or isinstance(cell, str)):  # but where it lies, or what it is called
        try:
            text = pickle.dumps(_uncached(cell)).hex()
        except (pickle.PickleError, AttributeError, TypeError) as error:
            raise DataError(
                f"inputs must be numbers, texts or what pickle takes, so that equal ones are known, got "
                f"{type(cell).__name__} ({error}): give what the estimator makes of them"
            ) from error
    text = unicodedata.normalize("NFKC", text).casefold()
    return "" if text in ("nan", "none", "<na>", "nat") else text


def _uncached(cell: Any) -> Any:
    """An object without what its cached properties have worked out, since whoever asks first decides about that."""
    own = getattr(cell, "__dict__", {})
    kept = [name for name in own if isinstance(getattr(type(cell), name, None), cached_property)]
    made = copy.copy(cell) if kept else cell
    for name in kept:
        del made.__dict__[name]
    return made


def array_of(values: Any, name: str) -> Shaped[np.ndarray, "..."]:
    """A tensor or an array as an array; bfloat16 and floats of 8 bits, which NumPy lacks, as float32.

    Raises:
        DataError: it cannot be one.
    """
    try:
        if hasattr(values, "detach"):  # a tensor, without importing torch here
            values = values.detach().cpu()
            lacking = "bfloat16" in str(values.dtype) or "float8" in str(values.dtype)
            values = values.float() if lacking else values
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError):
        raise DataError(
            f"{name} must be a dense array or tensor, got {type(values).__name__}; convert them."
        ) from None


def _matrix(values: Any, name: str) -> Matrix:
    array = array_of(values, name)
    if array.dtype.kind not in "biufc":
        raise DataError(f"{name} must hold numbers, got an array of {array.dtype}; convert them.")
    if array.ndim == 0 or array.size == 0:
        raise DataError(
            f"{name} must hold at least one row of at least one number, got shape {array.shape}."
        )
    if array.dtype.kind == "c":
        array = np.stack([np.real(array), np.imag(array)], axis=-1)
    return array.reshape(len(array), -1)


def _value_hashes(rows: Matrix) -> UInt64[np.ndarray, "_"]:
    """As float32 where that is exact (NaN is NaN), else as float64, int64 or uint64."""
    if rows.dtype == np.float32:
        return _word_hashes(rows)
    rows = rows.astype({"f": np.float64, "u": np.uint64}.get(rows.dtype.kind, np.int64))
    with np.errstate(over="ignore", invalid="ignore"):
        single = rows.astype(np.float32)
        exact = ((single.astype(rows.dtype) == rows) | (rows != rows)).all(axis=1)
    hashes = _word_hashes(single)
    if not exact.all():
        hashes[~exact] = _word_hashes(rows[~exact])
    return hashes


def _word_hashes(rows: Matrix) -> UInt64[np.ndarray, "_"]:
    """Of one zero and one NaN: the bits of 0/0 are others than those of a gap that was read from a file."""
    words = rows + rows.dtype.type(0)  # -0.0 becomes 0.0
    if words.dtype.kind == "f":
        words[np.isnan(words)] = np.nan
    return _hashes(words, f"{rows.dtype.str}{rows.shape[1]}")


def _hashes(rows: Matrix, kind: str) -> UInt64[np.ndarray, "_"]:
    """BLAKE2b of each row's bytes."""
    content = np.ascontiguousarray(rows, dtype=rows.dtype.newbyteorder("<")).data.cast("B")
    width, mark = len(content) // max(1, len(rows)), kind.encode()
    digests = [
        hashlib.blake2b(content[at : at + width], digest_size=8, person=mark).digest()
        for at in range(0, len(content), width)
    ]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)
