"""One road for every kind of run: from the name of a recipe, or from a folder, to what carries it out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pacdp import Settings, load_checkpoint
from pacdp.certify.gibbs import Progress
from pacdp.cli import certifying, compressing
from pacdp.cli.compressing import Compression
from pacdp.cli.config import Run
from pacdp.cli.folder import Folder
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.private.recipes import PRIVATE_RECIPES, private_recipe
from pacdp.cli.recipes import recipe
from pacdp.cli.run import train
from pacdp.cli.runtime import Runtime, Scale, Training

Config = Run | PrivateConfig | Compression
_KINDS: dict[str | None, type[Config]] = {
    kind.KIND: kind for kind in (Run, PrivateConfig, Compression)
}


def recipe_of(name: str, *, scale: Scale, seed: int = 0) -> Run | PrivateConfig:
    """The run that is trained under that name.

    Raises:
        ValueError: no recipe of that name.
    """
    return (private_recipe if name in PRIVATE_RECIPES else recipe)(name, scale=scale, seed=seed)


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


def carried_out(config: Config, out: Path, how: Training) -> dict[str, Any]:
    """Carry out a run in a folder and return its result, as written to ``result.json``.

    Raises:
        ValueError, RuntimeError: as for the functions of the three kinds.
    """
    match config:
        case PrivateConfig():
            from pacdp.cli.private.run import train_private  # which brings the accountant

            return train_private(config, out, how)
        case Compression():
            return compressing.run(config, out, how)
        case Run():
            return train(config, out, how)


def certified(
    path: Path, runtime: Runtime, *, failure_prob: float | None = None, tried: int = 1, std: float, seed: int,
    effort: Mapping[str, Any], progress: Progress,
) -> dict[str, Any]:  # fmt: skip
    """The report ``pacdp-certificates/2`` of a checkpoint, given by its file or its folder.

    Args:
        failure_prob: by default the run's own, or 0.05.
        std: of Gaussian weights around what a private run released.
        effort: fields of a chain's ``GibbsSettings`` that replace its own.

    Raises:
        CheckpointError, ValueError: as for the functions of the three kinds.
    """
    kind = str(load_checkpoint(path).header.get("kind", "chain"))
    if kind == compressing.KIND:
        return compressing.certified(path, runtime, failure_prob=failure_prob, tried=tried)
    common: dict[str, Any] = {"seed": seed, "progress": progress}
    if kind.startswith("private-run/"):
        from pacdp.cli.private.certify import certify_private  # which brings the accountant

        return certify_private(
            path, runtime, failure_prob=failure_prob or 0.05, std=std, tried=tried, **common
        )
    return certifying.certify(
        path,
        runtime,
        failure_prob=failure_prob,
        effort=effort,
        unlisted=Settings.tried(tried),
        **common,
    )
