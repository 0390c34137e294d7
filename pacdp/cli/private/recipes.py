"""Named private runs at three scales, with the sources of their settings.

Knolle et al. (2021), Table 1: MNIST, a five-layer network, epsilon 0.5 at delta 1e-5. Their text gives neither batch
size nor step sizes; those here were found on MNIST, whose tuning is not counted in any epsilon. Wu et al. (2019),
Table 2: patients sampled at rate 0.1, 100 steps, clipping as given, noise scales chosen from a set, (0.1)^½-private
choices. `smoke` runs on scikit-learn's digits in seconds.
"""

from dataclasses import replace

from pacdp.cli.private.config import Budget, PrivateConfig, Sampling
from pacdp.cli.private.methods import METHODS, Method

PEOPLE = ("mnist-writers", "malaria")
_CLIP_NORM = {"p3sgd": 0.5}
"""Of what a person contributes, on images; 1 for others."""
_RATE_ON_FEATURES = {"p3sgd": 3.0}
"""Learning rate of a linear layer on fixed features; 0.2 for others."""


def private_recipe(name: str, *, scale: str, seed: int = 0) -> PrivateConfig:
    """One of ``PRIVATE_RECIPES``."""
    algorithm = max((one for one in METHODS if name.startswith(f"{one}-")), key=len)
    dataset, method = name.removeprefix(f"{algorithm}-"), METHODS[algorithm]
    config = _people(algorithm, dataset) if method.by_person else _examples(method, dataset)
    return replace(_small(config) if scale == "smoke" else config, seed=seed)


def _examples(method: Method, dataset: str) -> PrivateConfig:
    if method.RELEASES_LAST:
        sampling = Sampling(
            sample_rate=1.0, steps=500, clip_norm=method.least_clip_norm, max_physical=10_000
        )
        return PrivateConfig(dataset=dataset, features="fine-gradients", architecture="linear", method=method,
                             sampling=sampling, budget=Budget(epsilon=0.5, delta=1e-5))  # fmt: skip
    return PrivateConfig(dataset=dataset, method=method, sampling=Sampling(sample_rate=0.02, steps=500),
                         budget=Budget(epsilon=0.5, delta=1e-5))  # fmt: skip


def _people(algorithm: str, dataset: str) -> PrivateConfig:
    method, clip_norm = METHODS[algorithm], _CLIP_NORM.get(algorithm, 1.0)
    sampling = Sampling(sample_rate=0.1, steps=100, clip_norm=clip_norm, max_physical=8)
    config = PrivateConfig(
        dataset=dataset, method=method, sampling=sampling, budget=Budget(epsilon=8.0, delta=1e-3)
    )
    if dataset != "malaria":
        return config
    # 161 people are too few for 10⁵ weights: a linear layer on fixed features
    rate = _RATE_ON_FEATURES.get(algorithm, 0.2)
    return replace(config, features="spots", architecture="linear", method=replace(method, learning_rate=rate),
                   sampling=replace(sampling, clip_norm=1.0, max_physical=32))  # fmt: skip


def _small(config: PrivateConfig) -> PrivateConfig:
    sampling = replace(config.sampling, steps=40, sample_rate=0.1)
    budget = replace(config.budget, epsilon=8.0, delta=1e-3)
    if config.method.RELEASES_LAST:
        return replace(config, dataset="digits", features="coarse-gradients", budget=budget, records=4,
                       sampling=replace(sampling, sample_rate=1.0, steps=100))  # fmt: skip
    return replace(config, dataset="digits", features="pixels", architecture="fc", hidden=(32,), sampling=sampling,
                   budget=budget, records=4)  # fmt: skip


PRIVATE_RECIPES = tuple(
    f"{algorithm}-{dataset}"
    for algorithm, method in METHODS.items()
    for dataset in (PEOPLE if method.by_person else ("mnist",))
)
