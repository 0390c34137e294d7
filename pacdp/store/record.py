"""The plain frozen records that travel between the rooms of pacdp, and values by their names.

The decorator is that of :mod:`bounds.record`, for which help of a command would have to import all of ``bounds``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform, overload

Values = dict[str, Any]
"""Values by their names: a JSON object, or what a function is called with."""
Kind = TypeVar("Kind")


@overload
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def record(kind: type[Kind], /) -> type[Kind]: ...


@overload
@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def record(*, eq: bool) -> Callable[[type[Kind]], type[Kind]]: ...


def record(kind: Any = None, /, *, eq: bool = True) -> Any:
    """A frozen dataclass with slots, whose fields are given by name.

    Without ``eq`` two of them are equal only where they are the same one, as suits a record of arrays.
    """
    made = dataclass(frozen=True, slots=True, kw_only=True, eq=eq)
    return made if kind is None else made(kind)
