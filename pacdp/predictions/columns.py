"""Columns as they come from any framework, checked: names of classes, groups and people, losses and probabilities.

Nothing is cut, filled in or rounded to fit: what does not fit is refused with the place where it stands.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from os.path import commonprefix
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pacdp.errors import UNKNOWN

PEOPLE = (
    *("person_id", "people", "patient", "patient_id", "patientid", "mrn", "participant"),
    *("subject", "subject_id", "user", "user_id"),
)
"""What whose an example is is called, beside "person"."""
Name = str | int | bool
Codes = NDArray[np.int64]
Floats = NDArray[np.float64]
Losses = NDArray[np.float64] | NDArray[np.bool_]
"""Real-valued losses in [0, 1], or errors."""
_GAPS = frozenset(
    "#N/A|#N/A N/A|#NA|-1.#IND|-1.#QNAN|-NaN|-nan|1.#IND|1.#QNAN|<NA>|N/A|NA|NULL|NaN|NaT|None|n/a|nan|null|".split(
        "|"
    )
)
"""Texts that stand for no value: those that pandas takes for none and writes for none, and the empty text."""
NOT_KNOWN = ("?", ".")
"""What stands for a missing value in files of UCI and of SAS: no name of a person, and of a class one to look at."""

UNLABELLED = (-1, -100, "-1", "-100")
"""What stands for a label that nobody gave, as in scikit-learn and in torch's losses."""


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A column of names: row i has the name ``names[codes[i]]``.

    Attributes:
        names: each once, in order, all of one type.
        codes: int64 [n].
    """

    names: tuple[Name, ...]
    codes: Codes

    @property
    def n(self) -> int:
        """How many rows."""
        return int(self.codes.size)

    def __getitem__(self, rows: Any) -> "Coded":
        """The column on some rows, with the names that stand there."""
        codes = self.codes[rows]
        there = np.bincount(codes, minlength=len(self.names)) > 0
        return Coded(tuple(compress(self.names, there)), (there.cumsum() - 1)[codes])

    @property
    def kind(self) -> str:
        """What the names are, in words."""
        return {bool: "truth values", str: "text"}.get(type(self.names[0]), "whole numbers")


def coded(name: str, values: Any, *, known: Collection[Name] = ()) -> Coded:
    """A column of whole numbers, texts or truth values.

    Args:
        known: names that the caller gave, which are no gaps even if they are written like one: a class called "NA".

    Raises:
        ValueError: no rows, more than one axis, a gap, numbers that are not whole, or names of several types.
    """
    found = values if isinstance(values, Coded) else _coded(name, values)
    for place, one in enumerate(map(str, found.names) if found.kind == "text" else ()):
        if one.strip() in _GAPS and one not in known:
            row = int(np.argmax(found.codes == place))
            raise ValueError(_gap(name, row, one))
        if isinstance(one, str) and one.endswith("\0"):
            raise ValueError(
                f"{name} must not end in a NUL character, which arrays cut off, got {one!r}: leave it out"
            )
    for one in (*UNKNOWN, *NOT_KNOWN) if name == "people" else ():
        if one in found.names:
            row = int(np.argmax(found.codes == found.names.index(one)))
            raise ValueError(_gap(name, row, str(one)))
    return found


def _coded(name: str, values: Any) -> Coded:
    array = _array(name, values)
    if array.dtype.kind in "OT":  # of texts of any length gaps may be anything
        own = np.str_ | np.integer | np.bool_  # what NumPy calls text, whole number and truth value
        rows = [one.item() if isinstance(one, own) else one for one in array.tolist()]
        kinds = {type(one) for one in rows}
        require_no_gaps(name, rows)
        if kinds == {str}:  # whose lengths may differ too much for an array of one width
            names = sorted(set(rows))
            places = {one: place for place, one in enumerate(names)}
            return Coded(tuple(names), np.array([places[one] for one in rows], np.int64))
        if len(kinds) > 1 or not kinds <= {bool, int}:
            said = " and ".join(sorted(kind.__name__ for kind in kinds))
            raise ValueError(
                f"{name} must be whole numbers or text, got {said}: convert them to one of these"
            )
        try:
            array = array.astype(kinds.pop())
        except OverflowError as error:
            raise ValueError(
                f"{name} must be whole numbers of 64 bits, got larger ones: pass them as text"
            ) from error
    if array.dtype.kind == "f":
        if (gaps := np.flatnonzero(np.isnan(array))).size:
            raise ValueError(_gap(name, int(gaps[0])))
        real = "; if they are real, pass within=(least, largest) with the predictions to certify, and a regressor to "
        real += "train to pacdp.CertifiedRegressor"
        raise ValueError(
            f"{name} must be whole numbers or text, got {array.dtype}: nothing is truncated here; if they are whole, "
            f"pass {name}.astype(int) yourself{real * name.startswith(('labels', 'predictions'))}"
        )
    if array.dtype.kind not in "UTiub":
        raise ValueError(
            f"{name} must be whole numbers or text, got {array.dtype}: convert them to names of classes"
        )
    if array.dtype.kind == "u" and int(array.max()) >= 2**63:
        raise ValueError(
            f"{name} must be whole numbers below 2**63, got {int(array.max())}: pass them as text"
        )
    if array.dtype.kind in "iu" and 0 <= array.min() <= array.max() < 4 * array.size:
        there = np.bincount(array) > 0  # sorts nothing
        return Coded(tuple(np.flatnonzero(there).tolist()), (there.cumsum() - 1)[array])
    names, codes = np.unique(array, return_inverse=True)
    return Coded(tuple(names.tolist()), codes.ravel().astype(np.int64))


def losses(name: str, values: Any) -> Losses:
    """A column of losses in [0, 1]: of truth values where these or whole numbers were given, else of real numbers.

    Raises:
        ValueError: no rows, more than one axis, a gap, a number outside [0, 1], or a name of ours.
    """
    mend = "divide by the largest loss that is possible, which must be known without these examples"
    found, kind = _numbers(name, values, "fiub", "convert them to losses", "[0, 1]", mend)
    require_own_name(name, counted=kind != "f")
    return found if kind == "f" else found == 1.0


def is_whole(values: Any) -> bool:
    """Whether a column is one of whole numbers, which may be larger elsewhere, and not of truth values."""
    return np.asarray(values).dtype.kind in "iu"


_OURS = (
    "0-1 risk", "zero-one", "ece", "mce", "half the brier risk", "brier risk", "calibration error", "recall of",
    "precision of", "specificity of", "false-alarm rate of", "accuracy", "weighted", "largest gap",
    "error on class", "error in group", "share of errors among", "share of people with", "mean set size", "auc",
    "1 - auc", "empirical risk", "absolute error over", "squared error over"
)  # fmt: skip
"""What names of quantities of ours begin with."""


def require_own_name(name: str, *, counted: bool) -> None:
    """Refuse a loss by the name of another quantity, as which it would be read; "error" where it is no error.

    Raises:
        ValueError: it has one.
    """
    plain = " ".join(name.replace("_", " ").split()).casefold() + " "
    ours = any(plain.startswith(f"{one} ") for one in (*_OURS, *(() if counted else ("error",))))
    if ours or " of a new " in plain:
        raise ValueError(
            f"a loss must have a name of its own, got {name!r}, which is that of another quantity: rename it"
        )


def weights(values: Any) -> Floats:
    """Weights in (0, 1].

    Raises:
        ValueError: as for losses, or a weight of 0.
    """
    mend = (
        "divide by the largest weight that is possible, which must be known without these examples, and drop examples "
        "of weight 0"
    )
    return _numbers("weights", values, "fiu", "pass one number an example", "(0, 1]", mend)[0]


def reals(name: str, values: Any) -> Floats:
    """A column of finite real numbers.

    Raises:
        ValueError: no rows, more than one axis, a gap, or no numbers.
    """
    array = _array(name, values)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name} must be numbers, got {array.dtype}: convert them")
    found = array.astype(np.float64)
    if (gap := np.flatnonzero(~np.isfinite(found))).size:
        raise ValueError(_gap(name, int(gap[0])))
    return found


def _numbers(
    name: str, values: Any, kinds: str, convert: str, interval: str, mend: str
) -> tuple[Floats, str]:
    """A column of real numbers in an interval from 0 to 1, and the kind that they had."""
    array = _array(name, values)
    if array.dtype.kind not in kinds:
        raise ValueError(f"{name} must be numbers in {interval}, got {array.dtype}: {convert}")
    found = array.astype(np.float64)
    if (gap := np.flatnonzero(np.isnan(found))).size:
        raise ValueError(_gap(name, int(gap[0])))
    inside = (found > 0.0 if interval.startswith("(") else found >= 0.0) & (found <= 1.0)
    if (out := np.flatnonzero(~inside)).size:
        row = int(out[0])
        raise ValueError(
            f"{name} must lie in {interval}, got {float(found[row])!r} in row {row}: {mend}"
        )
    return found, array.dtype.kind


def require_one_order(**columns: Any) -> None:
    """Refuse columns of data frames that name the same rows in another order, since all are taken by place.

    Raises:
        ValueError: two columns do; the sentence names both.
    """
    known = dict[str, Any]()
    for name, values in columns.items():
        ahead = [values]
        for column in ahead:  # by model, and losses by name too
            ahead += column.values() if isinstance(column, Mapping) else ()
            index: Any = getattr(column, "index", None)
            if not hasattr(index, "equals"):  # of data frames
                continue
            for other, before in known.items():
                if not index.equals(before) and sorted(map(str, index)) == sorted(map(str, before)):
                    raise ValueError(
                        f"{other} and {name} name the same rows in another order, and columns are taken by place: sort "
                        f"both alike, or pass {name}.to_numpy() where the places are right"
                    )
            known[name] = index


def require_class_order(name: str, table: Any, classes: Sequence[Name]) -> None:
    """Refuse a data frame whose columns are called as the classes are and stand in another order.

    What all names begin with, as p1 and p0 do, tells none from another, and is left out.

    Raises:
        ValueError: as said.
    """
    called, wanted = (
        [str(one) for one in names] for names in (getattr(table, "columns", ()), classes)
    )
    ours, theirs = (
        [one.removeprefix(commonprefix(names)) for one in names]  # noqa: RUF071 - of letters
        for names in (called, wanted)
    )
    if ours != theirs and sorted(ours) == sorted(theirs):
        raise ValueError(
            f"{name} must have its columns in the order of the classes, {', '.join(wanted[:9])}, got "
            f"{', '.join(called[:9])}: columns are taken by place, so pass them in that order"
        )


def require_rows(n: int, **columns: int | None) -> None:
    """Refuse columns that have another number of rows than the labels."""
    for name, rows in columns.items():
        if rows is not None and rows != n:
            raise ValueError(
                f"{name} must have one row for each of the {n} examples, got {rows}: pass both in full"
            )


def placed(name: str, values: Coded, classes: tuple[Name, ...], where: str) -> Codes:
    """The place of every row's name among the classes.

    Raises:
        ValueError: names of another type, or one that is no class.
    """
    of_classes = Coded(classes, np.zeros(0, np.int64)).kind
    if values.kind != of_classes:
        raise ValueError(
            f"{name} must be {of_classes} like {where}, got {values.kind}: give both the same names of classes"
        )
    known = {one: place for place, one in enumerate(classes)}
    if strange := [one for one in values.names if one not in known]:
        raise ValueError(
            f"{name} must name classes that {where} have, got {strange[0]!r}: correct the name, or pass classes=[...] "
            "with every class that there is"
        )
    return np.array([known[one] for one in values.names], np.int64)[values.codes]


def class_names(classes: Sequence[Name]) -> tuple[Name, ...]:
    """The names of all classes, in the order of the columns of probabilities.

    Raises:
        ValueError: fewer than two, a repeat, or names of several types.
    """
    if isinstance(classes, str | bytes):
        raise ValueError(
            f"classes must be a list of names, got the text {classes!r}: pass [{classes!r}, ...]"
        )
    if isinstance(classes, set | frozenset | Mapping):
        raise ValueError(
            f"classes must be a list of names, got a {type(classes).__name__}, whose order says nothing of columns: "
            "list them in that of the columns"
        )
    found = coded("classes", list(classes), known=classes)
    if len(found.names) < 2 or len(found.names) < found.n:
        raise ValueError(
            f"classes must be at least two different names, got {list(classes)!r}: list each class once"
        )
    return tuple(found.names[code] for code in found.codes)


def _array(name: str, values: Any) -> NDArray[Any]:
    """The values as an array of one axis and at least one row."""
    if np.ma.is_masked(values):
        raise ValueError(_gap(name, int(np.argmax(np.ma.getmaskarray(values)))))
    if isinstance(values, list | tuple):
        kinds = {type(one) for one in values}
        if any(issubclass(kind, str) for kind in kinds) or {bool} < kinds <= {bool, int, float}:
            # which NumPy would make alike
            plain = (str(one) if isinstance(one, str) else one for one in values)
            values = np.fromiter(plain, dtype=object, count=len(values))
    try:
        array = np.asarray(values)
    except Exception as error:  # a stranger's column may raise anything
        raise ValueError(
            f"{name} must be one value for each example, got none of that kind ({error})"
        ) from error
    if array.ndim != 1:
        said = "a single value" if array.ndim == 0 else f"an array of shape {array.shape}"
        raise ValueError(
            f"{name} must be one value for each example, got {said}: pass one column, as .squeeze(1) of (n, 1) and "
            ".argmax(1) of one-hot rows are"
        )
    if array.size == 0:
        raise ValueError(
            f"{name} must have at least one row, got none: pass the examples that you predicted"
        )
    return array


def require_no_gaps(name: str, rows: Sequence[Any]) -> None:
    """Refuse objects among which one stands for none, as NA of data frames does; raises ValueError."""
    for row, one in enumerate(rows):
        if _missing(one):
            raise ValueError(_gap(name, row))


def _missing(one: Any) -> bool:
    """Whether a value that is no text stands for none: None, NaN, and what data frames have for it."""
    return one is None or (not isinstance(one, str) and str(one) in ("nan", "<NA>", "NaT"))


LEFT_OUT = "rows that fail are no random part of all, and without them another law is certified"


def _gap(name: str, row: int, written: str = "") -> str:
    said = f"{written!r}" if written.strip() else "none"
    told = (
        " (a name that is written so needs another spelling, or a place among classes)"
        if written.strip()
        else ""
    )
    return f"{name} must have no gaps, got {said} in row {row}: fill it in, for {LEFT_OUT}{told}"
