"""One text for equal JSON values, and its hash: what records on disk name each other by.

The text has sorted keys, no spaces and ASCII letters only; an integer and a float of equal value are different texts.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any

JOINED_LATER = MappingProxyType({"left out at its default": True})
"""Metadata of a plain field, with a default, that joined a record later: while it has its default it is left out of the
record's JSON, so that the JSON and the hashes of earlier records stay what they were."""


def left_out(record: Any) -> set[str]:
    """Names of the fields of a dataclass that its JSON leaves out."""
    return {
        f.name
        for f in fields(record)
        if f.metadata == JOINED_LATER and getattr(record, f.name) == f.default
    }


def described(value: Any, *, steps: int = 0) -> Any:
    """A record as JSON values: its kind and its fields, without those that joined later and have their default.

    A schedule that is no record is given by its values at the first ``steps`` steps; where there are none it stays
    what it is, which no JSON has.
    """
    if is_dataclass(value):
        names = [one.name for one in fields(value) if one.name not in left_out(value)]
        parts = {name: described(getattr(value, name), steps=steps) for name in names}
        return {"kind": type(value).__name__, **parts}
    if isinstance(value, list | tuple):
        return [described(one, steps=steps) for one in value]
    if isinstance(value, Real) and not isinstance(value, int | float):  # as NumPy has them
        return int(value) if isinstance(value, Integral) else float(value)
    if steps and callable(value):
        schedule: Any = value
        return {"kind": "schedule", "values": [float(schedule(t)) for t in range(steps)]}
    return value


def canonical(values: Any) -> str:
    """The canonical JSON text of ``values``.

    Raises:
        ValueError: a value that JSON does not have, such as NaN, infinity or an object of Python.
    """
    try:
        return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"expected JSON values only, got {type(values).__name__}: {error}"
        ) from error


def parsed(text: str) -> Any:
    """The value that a line of JSON holds; None where it holds none, or one that nests too deep or has a key twice."""
    from bounds._check import json_value  # NumPy and SciPy come with it, which help does without

    try:
        return json_value(text)
    except ValueError:
        return None


def digest(values: Any, *, after: str = "") -> str:
    """SHA-256, in hex digits, of the text ``after`` followed by the canonical JSON of ``values``.

    ``after`` is the hash of the record before this one, where records form a chain.
    """
    return hashlib.sha256((after + canonical(values)).encode()).hexdigest()


def chained(values: Mapping[str, Any], *, after: str) -> dict[str, Any]:
    """``values`` with a ``hash`` that covers them and, through ``after``, every record before them."""
    return {**values, "hash": digest(dict(values), after=after)}


def follows(record: Any, *, after: str) -> bool:
    """Whether ``record`` is one that :func:`chained` made after the record of hash ``after``."""
    if not isinstance(record, Mapping) or "hash" not in record:
        return False
    try:
        return record["hash"] == digest(
            {key: value for key, value in record.items() if key != "hash"}, after=after
        )
    except ValueError:
        return False
