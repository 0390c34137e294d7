"""Records: frozen dataclasses whose fields are given by name, the one kind of thing that crosses a border here."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform, overload

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
