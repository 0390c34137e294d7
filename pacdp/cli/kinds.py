"""One road for every kind of run: from the name of a recipe, or from a folder, to what carries it out.

On the way the command line may set fields of its configuration.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, TypeVar, get_args

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from pacdp import load_checkpoint
from pacdp.cli import certifying, compressing
from pacdp.cli.compressing import Compression
from pacdp.cli.config import RECIPES, Run, recipe
from pacdp.cli.folder import Folder
from pacdp.cli.private.config import PRIVATE_RECIPES, PrivateConfig, private_recipe
from pacdp.cli.run import train
from pacdp.cli.runtime import Certifying, Runtime, Scale, Training
from pacdp.cli.serial import Values
from pacdp.cli.terminal import nearest
from pacdp.layers.priors import Prior
from pacdp.schedules import Schedule

Config = Run | PrivateConfig | Compression
_KINDS: dict[str | None, type[Config]] = {
    kind.KIND: kind for kind in (Run, PrivateConfig, Compression)
}
Fielded = TypeVar("Fielded")
_PLAIN = ConstructorRegistry()


def recipes(*, compressed: bool = False) -> Mapping[str, Callable[..., Config]]:
    """Every named run, with what makes it of a scale and a seed."""
    if compressed:
        return dict.fromkeys(compressing.RECIPES, compressing.recipe)
    return {**dict.fromkeys(RECIPES, recipe), **dict.fromkeys(PRIVATE_RECIPES, private_recipe)}


def recipe_of(name: str, *, scale: Scale, seed: int = 0, compressed: bool = False) -> Any:
    """The configuration of that name.

    Raises:
        ValueError: no recipe of that name.
    """
    known = recipes(compressed=compressed)
    if name not in known:
        raise ValueError(f"no recipe is called {name!r}: {nearest(name, sorted(known))}")
    return known[name](name, scale=scale, seed=seed)


def config_in(path: Path) -> Config:
    """The configuration of the run that a folder holds.

    Raises:
        ValueError: it holds none, or one of a study or of another version.
    """
    folder = Folder(path)
    kind = _KINDS.get(folder.kind)
    if kind is None:
        raise ValueError(f"{folder.config} is missing, or of a study: give the folder of a run")
    return folder.config_of(kind)


def carried_out(config: Config, out: Path, how: Training) -> Values:
    """Carry out a run in a folder and return its result, as written to ``result.json``.

    Raises:
        ValueError, RuntimeError: as for the functions of the three kinds.
    """
    if isinstance(config, PrivateConfig):
        from pacdp.cli.private.run import train_private  # which brings the accountant

        return train_private(config, out, how)
    return train(config, out, how) if isinstance(config, Run) else compressing.run(config, out, how)


def certified(path: Path, runtime: Runtime, how: Certifying) -> Values:
    """The report ``pacdp-certificates/2`` of a checkpoint, given by its file or its folder.

    Raises:
        CheckpointError, ValueError: as for the functions of the three kinds.
    """
    kind = str(load_checkpoint(path).header.get("kind"))
    if kind.startswith("private-run/"):
        from pacdp.cli.private.certify import certify_private  # which brings the accountant

        return certify_private(path, runtime, how)
    made = compressing.certified if kind == compressing.KIND else certifying.certify
    return made(path, runtime, how)


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


def overridden(config: Fielded, words: Sequence[str]) -> Fielded:
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
