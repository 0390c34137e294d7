"""Named private runs at three scales, with the sources of their settings.

Knolle et al. (2021), Table 1: MNIST, a five-layer network, epsilon 0.5 at delta 1e-5. Their text gives neither batch
size nor step sizes; those here were found on MNIST, whose tuning is not counted in any epsilon. Wu et al. (2019),
Table 2: patients sampled at rate 0.1, 100 steps, clipping as given, noise scales chosen from a set, (0.1)^½-private
choices. `smoke` runs on scikit-learn's digits in seconds. The numbers stand in ``recipes.json``.
"""

from pacdp.cli.private.config import PrivateConfig
from pacdp.cli.private.methods import METHODS
from pacdp.cli.recipes import TABLES, merged
from pacdp.cli.serial import from_dict, to_dict

PEOPLE = ("mnist-writers", "malaria")


def private_recipe(name: str, *, scale: str, seed: int = 0) -> PrivateConfig:
    """One of ``PRIVATE_RECIPES``."""
    algorithm = max((one for one in METHODS if name.startswith(f"{one}-")), key=len)
    dataset, method = name.removeprefix(f"{algorithm}-"), METHODS[algorithm]
    known = TABLES["private"]
    parts = (
        to_dict(PrivateConfig(dataset=dataset, method=method, seed=seed)),
        known["people" if method.by_person else "examples"],
        known["last"] if method.RELEASES_LAST else {},
        known["at"].get(name, {}),
        known["smoke"] if scale == "smoke" else {},
        known["smoke of last"] if scale == "smoke" and method.RELEASES_LAST else {},
    )
    return from_dict(PrivateConfig, merged(*parts))


PRIVATE_RECIPES = tuple(
    f"{algorithm}-{dataset}"
    for algorithm, method in METHODS.items()
    for dataset in (PEOPLE if method.by_person else ("mnist",))
)
