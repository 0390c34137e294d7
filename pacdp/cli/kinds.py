"""One road for every kind of run: from the name of a recipe, or from a folder, to what carries it out."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pacdp import load_checkpoint
from pacdp.cli import certifying, compressing, compression_recipes
from pacdp.cli.compressing import Compression
from pacdp.cli.config import Run
from pacdp.cli.folder import Folder
from pacdp.cli.parsing import nearest
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.private.recipes import PRIVATE_RECIPES, private_recipe
from pacdp.cli.recipes import RECIPES, recipe
from pacdp.cli.run import train
from pacdp.cli.runtime import Certifying, Runtime, Scale, Training
from pacdp.cli.serial import Values

Config = Run | PrivateConfig | Compression
_KINDS: dict[str | None, type[Config]] = {
    kind.KIND: kind for kind in (Run, PrivateConfig, Compression)
}


def recipes(*, compressed: bool = False) -> Mapping[str, Callable[..., Config]]:
    """Every named run, with what makes it of a scale and a seed."""
    if compressed:
        return dict.fromkeys(compression_recipes.RECIPES, compression_recipes.recipe)
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
