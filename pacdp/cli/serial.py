"""Configurations as JSON and back, by the types of their fields.

A configuration is a frozen dataclass of plain values, tuples of them, and such records in turn. Every record becomes
an object of all its fields; where a field may hold one of several records, the object says under "kind" which: the
class's name. Plain values are left as they are, 1 an integer and 1.0 not: what was read must write the same JSON,
whose hashes are keys. A plain field that joined a record later is declared by :func:`later` and left out
while it has its default, so that the JSON and the keys of earlier configurations stay what they were.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from pacdp.store.canonical import JOINED_LATER as JOINED_LATER
from pacdp.store.canonical import left_out
from pacdp.store.record import Values as Values
from pacdp.store.record import record as record

Config = TypeVar("Config")


def later(default: Any) -> Any:
    """A plain field that joined a record later: while it has its default it is left out of the record's JSON."""
    return field(default=default, metadata=JOINED_LATER)


def to_dict(config: Any, hint: Any = None) -> Any:
    """JSON values only; of a record's field, whose type is ``hint``, the record within or the plain value."""
    records, record = _records(hint or type(config)), is_dataclass(config)
    if not records if record else callable(config):
        raise ValueError(f"{config!r} can be given in Python alone: JSON takes a plain value")
    if not record:
        return config
    hints = get_type_hints(type(config))
    kind = {"kind": type(config).__name__} if len(records) > 1 else {}
    written = [one.name for one in fields(config) if one.name not in left_out(config)]
    return kind | {name: to_dict(getattr(config, name), hints[name]) for name in written}


def from_dict(kind: type[Config] | UnionType, values: Mapping[str, Any]) -> Config:
    """The inverse of :func:`to_dict`. A plain value may be missing where it has a default; records and tuples may not.

    Of one of several kinds of record the value itself says which it is.

    Raises:
        ValueError: a part is missing, unknown or out of range.
    """
    try:
        return _read(values, kind)
    except TypeError as error:
        words = f"this is not the configuration of a run of this version ({' or '.join(_records(kind))})"
        raise ValueError(f"{words}: {error}") from error


def digest(config: Any, *, digits: int = 10) -> str:
    """Hex digits of the configuration's JSON, for the name of its folder."""
    return hashlib.sha256(json.dumps(to_dict(config), sort_keys=True).encode()).hexdigest()[:digits]


def _read(value: Any, hint: Any) -> Any:
    records = _records(hint)
    if get_origin(hint) is tuple:  # lists within are tuples of tuples
        return tuple(_read(each, hint) if isinstance(each, list) else each for each in value)
    if not records or (value is None and NoneType in get_args(hint)):
        return value
    if not isinstance(value, Mapping):
        raise TypeError(f"expected the fields of {' or '.join(records)}, got {value!r}")
    given = dict(value)
    name = given.pop("kind", None) if len(records) > 1 else next(iter(records))
    if name not in list(records):
        raise TypeError(f"expected the kind {' or '.join(records)}, got {name!r}")
    hints = get_type_hints(records[name])
    for part, kind in hints.items():
        if part not in given and (_records(kind) or get_origin(kind) is tuple):
            raise TypeError(f"{name} has no {part!r}")
    return records[name](**{part: _read(inner, hints.get(part)) for part, inner in given.items()})


def _records(hint: Any) -> dict[str, type]:
    """The records that a field of this type may hold, by name."""
    return {
        one.__name__: one
        for one in (hint, *get_args(hint))
        if isinstance(one, type) and is_dataclass(one)
    }
