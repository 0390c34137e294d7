"""From a recipe, or the folder of a run, to the audit of its mechanism on made-up data of the same shape."""

from pathlib import Path

import numpy as np
import torch

from pacdp.audit.chains import audit_chain
from pacdp.audit.checks import MechanismAudit
from pacdp.audit.mechanism import audit_mechanism, made_up, units_for
from pacdp.chains import SecretKeys
from pacdp.cli.commands.audit import Audit
from pacdp.cli.compressing import Compression
from pacdp.cli.config import TABLES, Run
from pacdp.cli.folder import Folder
from pacdp.cli.kinds import config_in, overridden, recipe_of
from pacdp.cli.private.algorithms import Public, mechanism, network
from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.runtime import Scale
from pacdp.data import Dataset
from pacdp.features.named import seen_through
from pacdp.losses import cross_entropies
from pacdp.models import build

_BACKBONE = 1280


def configuration(target: str, *, scale: Scale, rest: list[str]) -> PrivateConfig | Run:
    """The configuration of that name, or that the folder holds; ``rest`` sets fields of it.

    Raises:
        ValueError: neither a recipe nor the folder of a run whose steps are private.
    """
    path = Path(target)
    if path.is_dir() and not Folder(path).config.is_file():
        raise ValueError(
            f"{target} is a folder without a run's config.json (an exported one has none): give that of the run itself"
        )
    made = recipe_of(target, scale=scale) if not path.is_dir() else config_in(path)
    if isinstance(made, Compression):
        raise ValueError(f"{target} holds a compression, which promises nothing of its steps")
    return overridden(made, rest)


def audit(config: PrivateConfig | Run, asked: Audit) -> MechanismAudit:
    """Audit the mechanism that the configuration describes; see :func:`pacdp.audit.mechanism.audit_mechanism`.

    Raises:
        ValueError: a data set of unknown shape, an algorithm that promises nothing, or what the audit refuses.
    """
    dataset = config.problem.dataset if isinstance(config, Run) else config.dataset
    known = TABLES["data"].get(dataset)
    if known is None:
        raise ValueError(
            f"the shape of data set {dataset!r} is not known here: use pacdp.private.audit_mechanism in Python"
        )
    features = (config.problem if isinstance(config, Run) else config).features
    shape, classes = tuple(known["shape"]), known["classes"]
    if features == "backbone":
        shape = (_BACKBONE,)
    elif features not in ("", "pixels"):
        blank = np.zeros((1, *shape), dtype=np.float32), np.zeros(1, dtype=np.int64)
        shape = seen_through(Dataset(dataset, *blank, classes), features).inputs.shape[1:]
    if isinstance(config, Run):
        problem, settings = config.problem, config.sampler
        if settings.clip_norm is None:
            raise ValueError(
                f"{config.algorithm} promises nothing of its steps: audit a private recipe, or set a clip_norm"
            )
        generator = torch.Generator().manual_seed(config.seed)
        module = build(
            problem.architecture, input_shape=shape, classes=classes, generator=generator
        )
        keys = None if config.reproducible else SecretKeys.drawn([config.chain])
        return audit_chain(settings, module, loss=problem.loss(classes), shape=shape, classes=classes, seed=asked.seed,
                           keys=keys, failure_prob=asked.failure_prob)  # fmt: skip
    public = Public(input_shape=shape, classes=classes, size=float(known["n"]))
    units, by_person = units_for(config.sampling.sample_rate) + 1, config.method.by_person
    data, people = made_up(shape, classes=classes, units=units, people=by_person, seed=asked.seed)
    return audit_mechanism(
        config.method, network(config, public, device="cpu"), data, mechanism=mechanism(config, public),
        loss=cross_entropies, people=people, steps=asked.steps or None, failure_prob=asked.failure_prob,
        canaries=asked.canaries, generator=np.random.default_rng(asked.seed),
    )  # fmt: skip
