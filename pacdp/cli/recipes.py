"""Named runs at four scales: `smoke` (seconds, embedded digits), `cpu` (two cores), `gpu` (minutes of one GPU: steps as
for `cpu`, networks as for `paper`, light tracking), `paper` (the paper's settings, hours of a GPU).

Their numbers stand in ``recipes.json``, beside those of private runs and of compressions.

The paper is Dziugaite and Roy (2018), "Entropy-SGD optimizes the prior of a PAC-Bayes bound": two-class MNIST,
tau = sqrt(n), beta = 1, batches of 128, L = 20. Its outer base learning rate, 0.006, needs tens of thousands of epochs
to move; the smaller scales use a larger one, said in their configuration. The clipped recipes' settings were
found by comparing about a dozen on MNIST; no certificate of theirs pays for that choice. Their noise comes from the
operating system; that of studies comes from their seeds, so that their tables can be made again.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pacdp.algorithms import SGHMC
from pacdp.cli.config import Run
from pacdp.cli.runtime import Scale
from pacdp.cli.serial import Values, from_dict, to_dict
from pacdp.models import Architecture
from pacdp.problem import Problem

TABLES: Values = json.loads(Path(__file__).with_name("recipes.json").read_text())
SIZES: dict[str, int] = {name: row["n"] for name, row in TABLES["data"].items() if "network" in row}
_FEATURES = "langevin-features"
CLIPPED = ("entropy-sgd-clipped", "entropy-sgld-clipped")
"""Their inner steps are private mechanisms: certificates need no stationarity. The privacy that they spend is the same,
and the outer noise of the second, at beta = 1, drowns most of what it learns."""


def merged(*tables: Mapping[str, Any]) -> Values:
    """Tables of values, of which later ones win; what two have of a table is merged, unless the later names a kind."""
    whole: Values = {}
    for table in tables:
        for name, value in table.items():
            both = isinstance(value, dict) and isinstance(whole.get(name), dict)
            if name != "about":
                whole[name] = merged(whole[name], value) if both and "kind" not in value else value
    return whole


def tau_of(thermal_noise: float) -> float:
    """Inverse temperature whose thermal noise √(2/τ) is the given one."""
    return 2.0 / thermal_noise**2


def run(
    algorithm: str,
    dataset: str,
    *,
    scale: Scale,
    tau: float | None = None,
    random_labels: float = 0.0,
    seed: int = 0,
) -> Run:
    """One run of one algorithm; ``tau`` None means the private setting √n."""
    known, data = TABLES["chain"], TABLES["data"][dataset]
    parts = (
        known["scale"][scale],
        {"sampler": merged(known["algorithm"][algorithm]), "seed": seed},
        known["at"].get(scale, {}).get(algorithm, {}),
    )
    made = from_dict(Run, merged(to_dict(Run()), *parts))
    numbers: Values = {"batch_size": data["batch_size"]}
    if algorithm != "sgd":
        numbers["tau"] = math.sqrt(data["n"]) if tau is None else tau
    small = scale in ("smoke", "cpu")
    network = Architecture(hidden=(100,)) if small else Architecture(name=data["network"])
    problem = Problem(
        dataset=dataset, architecture=network, random_labels=random_labels, label_seed=seed
    )
    return replace(made, problem=problem, sampler=replace(made.sampler, **numbers))


def trajectory(dataset: str, *, scale: Scale, seed: int = 0) -> Run:
    """A linear layer on fixed features, every record in every step, certified by the norms that it kept.

    The schedule is fixed beforehand. A few dozen were compared on MNIST, for which ``pacdp certify --tried`` pays.
    """
    features = "coarse-gradients" if dataset.startswith("digits") else "fine-gradients"
    settings = SGHMC(tau=1000.0, step_size=3.0, friction=0.2, cooling=0.5, base_std=30.0, batch_size=SIZES[dataset],
                     keep_norms=True, every_record=True)  # fmt: skip
    problem = Problem(
        dataset=dataset, architecture=Architecture(hidden=()), max_loss=8.0, features=features
    )
    epochs = 20.0 if scale == "smoke" else 200.0
    return Run(problem=problem, sampler=settings, epochs=epochs, records=2, seed=seed)


def recipe(name: str, *, scale: Scale, seed: int = 0) -> Run:
    """One of ``RECIPES``; a run that promises privacy draws its noise from the operating system."""
    algorithm, _, dataset = name.rpartition("-")
    if algorithm == _FEATURES:
        return trajectory(dataset, scale=scale, seed=seed)
    made = run(algorithm, dataset, scale=scale, seed=seed)
    return replace(made, reproducible=not made.promising)


RECIPES = tuple(
    f"{algorithm}-{dataset}"
    for algorithm in (*TABLES["chain"]["algorithm"], _FEATURES)
    for dataset in SIZES
)
