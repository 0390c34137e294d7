"""Fields of a configuration set on the command line."""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TypeVar, get_args

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from pacdp.layers.priors import Prior
from pacdp.schedules import Schedule

Config = TypeVar("Config")
_PLAIN = ConstructorRegistry()


@_PLAIN.primitive_rule
def _plain(field: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
    """A field that in Python may also be a schedule or a law takes a number or a name on the command line."""
    members = get_args(field.type)
    plain = [one for one in members if one not in (Schedule, Prior)]
    if not plain or len(plain) == len(members):
        return None
    kind = PrimitiveTypeInfo.make(reduce(or_, plain), field.markers)
    found = ConstructorRegistry.get_primitive_spec(kind)
    return found if isinstance(found, PrimitiveConstructorSpec) else None


def overridden(config: Config, words: Sequence[str]) -> Config:
    """``config`` with the fields that the words name, such as ``--epochs 5``; ``--help`` lists them and exits."""
    if not words:
        return config
    with _PLAIN:
        return tyro.cli(
            type(config),
            args=words,
            prog="pacdp train RECIPE --fields",
            config=(tyro.conf.AvoidSubcommands,),
            default=config,
        )
