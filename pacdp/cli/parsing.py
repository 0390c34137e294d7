"""What command lines say beside tyro: fields of a configuration, and the nearest of what there is."""

import difflib
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_
from typing import TypeVar, get_args

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

Config = TypeVar("Config")
_PLAIN = ConstructorRegistry()


@_PLAIN.primitive_rule
def _plain(field: PrimitiveTypeInfo) -> PrimitiveConstructorSpec | None:
    """A field that in Python may also be a schedule or a law takes a number or a name on the command line."""
    from pacdp.layers.priors import Prior
    from pacdp.schedules import Schedule

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


def require_failure_prob(given: float | None) -> None:
    """Refuse a --failure-prob that is no probability."""
    if given is not None and not 0.0 < given < 1.0:
        raise ValueError(
            f"--failure-prob must lie strictly between 0 and 1, got {given}: 0.05 is customary"
        )


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown word: what was meant, or what there is."""
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {near[0]}?" if near else f"choose one of {', '.join(known)}"
