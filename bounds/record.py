"""Records: frozen dataclasses whose fields are given by name, the one kind of thing that crosses a border here."""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

Made = TypeVar("Made")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def record(kind: type[Made]) -> type[Made]:
    """``kind`` as a frozen dataclass with slots, whose fields are given by name."""
    return dataclass(frozen=True, slots=True, kw_only=True)(kind)
