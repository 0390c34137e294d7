"""Named runs at four scales: `smoke` (seconds, embedded digits), `cpu` (two cores), `gpu` (minutes of one GPU: steps as
for `cpu`, networks as for `paper`, light tracking), `paper` (the paper's settings, hours of a GPU).

The paper is Dziugaite and Roy (2018), "Entropy-SGD optimizes the prior of a PAC-Bayes bound": two-class MNIST,
tau = sqrt(n), beta = 1, batches of 128, L = 20. Its outer base learning rate, 0.006, needs tens of thousands of epochs
to move; the smaller scales use a larger one, said in their configuration. The clipped recipes' settings were
found by comparing about a dozen on MNIST; no certificate of theirs pays for that choice. Their noise comes from the
operating system; that of studies comes from their seeds, so that their tables can be made again.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from pacdp.algorithms import SGD, SGHMC, SGLD, EntropySGD, Settings
from pacdp.certify.gibbs import GibbsSettings
from pacdp.cli.config import Run
from pacdp.cli.parsing import nearest
from pacdp.cli.runtime import Scale
from pacdp.models import Architecture
from pacdp.problem import Problem

SIZES = {"digits": 1437, "digits2": 1437, "mnist": 60_000, "mnist2": 60_000}
ALGORITHMS = ("sgd", "sgld", "entropy-sgd", "entropy-sgld")
CLIPPED = ("entropy-sgd-clipped", "entropy-sgld-clipped")
"""Their inner steps are private mechanisms: certificates need no stationarity. The privacy that they spend is the same,
and the outer noise of the second, at beta = 1, drowns most of what it learns."""


def tau_of(thermal_noise: float) -> float:
    """Inverse temperature whose thermal noise √(2/τ) is the given one."""
    return 2.0 / thermal_noise**2


def sampler(algorithm: str, *, scale: Scale, dataset: str, tau: float | None = None) -> Settings:
    """The settings of an algorithm on a data set; ``tau`` None means the private setting √n."""
    tau = math.sqrt(SIZES[dataset]) if tau is None else tau
    batch_size = 32 if dataset.startswith("digits") else 128
    match algorithm, scale:
        case "sgd", _:
            return SGD(step_size=0.1, momentum=0.9, batch_size=batch_size)
        case "sgld", "paper":
            return SGLD(tau=tau, step_size=0.006 / 2, decay=0.6, batch_size=batch_size)
        case "sgld", _:
            return SGLD(tau=tau, step_size=0.2, batch_size=batch_size)
        case "entropy-sgd", "paper":
            return EntropySGD(tau=tau, beta=None, batch_size=batch_size)
        case "entropy-sgd", _:
            return EntropySGD(
                tau=tau, beta=None, outer_step_size=2.0, outer_decay=0.0, batch_size=batch_size
            )
        case "entropy-sgld", "paper":
            return EntropySGD(tau=tau, batch_size=batch_size)
        case "entropy-sgld", _:
            return EntropySGD(tau=tau, outer_step_size=2.0, batch_size=batch_size)
        case (
            "entropy-sgd-clipped",
            _,
        ):  # μ averages about ten inner steps of equal size, each from near the centre
            return EntropySGD(tau=tau, beta=None, outer_step_size=2.0, outer_decay=0.0, inner_decay=0.0, alpha=0.1,
                              batch_size=batch_size, clip_norm=1.0)  # fmt: skip
        case "entropy-sgld-clipped", _:
            return EntropySGD(tau=tau, outer_step_size=2.0, batch_size=batch_size, clip_norm=1.0)
        case _:
            raise ValueError(
                f"expected an algorithm among {', '.join(ALGORITHMS + CLIPPED)}, got {algorithm!r}"
            )


def run(
    algorithm: str,
    dataset: str,
    *,
    scale: Scale,
    tau: float | None = None,
    random_labels: float = 0.0,
    seed: int = 0,
) -> Run:
    """One run of one algorithm."""
    settings = sampler(algorithm, scale=scale, dataset=dataset, tau=tau)
    if scale == "smoke":
        architecture, epochs, records = Architecture(hidden=(100,)), 40.0, 4
        track = GibbsSettings(epochs=4.0, prior_draws=10, test_draws=10)
        certify = GibbsSettings(epochs=40.0, prior_draws=100, test_draws=40)
    elif scale == "cpu":
        architecture, epochs, records = Architecture(hidden=(100,)), 150.0, 15
        if algorithm in CLIPPED:  # beyond, the noise of the steps undoes what they learn
            epochs, records = 10.0, 10
        track = GibbsSettings(epochs=1.0, prior_draws=5, test_draws=5)
        certify = GibbsSettings(epochs=20.0, prior_draws=100, test_draws=100)
    elif scale == "gpu":
        architecture = Architecture(name="conv" if dataset.startswith("mnist") else "fc1024")
        epochs, records = 200.0, 10
        track = GibbsSettings(epochs=2.0, prior_draws=5, test_draws=20)
        certify = GibbsSettings(epochs=20.0, prior_draws=100, test_draws=100)
    else:
        architecture = Architecture(name="conv" if dataset.startswith("mnist") else "fc1024")
        epochs, records = 2000.0, 20
        track = GibbsSettings(epochs=20.0, alpha=0.005, prior_draws=20, test_draws=20)
        certify = GibbsSettings(
            epochs=1000.0, alpha=0.005, step_floor=0.0, prior_draws=1000, test_draws=400
        )
    problem = Problem(
        dataset=dataset, architecture=architecture, random_labels=random_labels, label_seed=seed
    )
    return Run(problem=problem, sampler=settings, epochs=epochs, records=records, seed=seed,
               track=track, certify=certify)  # fmt: skip


RECIPES: dict[str, Callable[[Scale, int], Run]] = {
    f"{algorithm}-{dataset}": (
        lambda scale, seed, a=algorithm, d=dataset: run(a, d, scale=scale, seed=seed)
    )
    for algorithm in ALGORITHMS + CLIPPED
    for dataset in SIZES
}


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
    return Run(
        problem=problem,
        sampler=settings,
        epochs=20.0 if scale == "smoke" else 200.0,
        records=2,
        seed=seed,
    )


RECIPES |= {
    f"langevin-features-{dataset}": (
        lambda scale, seed, d=dataset: trajectory(d, scale=scale, seed=seed)
    )
    for dataset in SIZES
}


def recipe(name: str, *, scale: Scale, seed: int = 0) -> Run:
    """A named run; one that promises privacy draws its noise from the operating system.

    Raises:
        ValueError: no recipe of that name.
    """
    if name not in RECIPES:
        from pacdp.cli.private.recipes import PRIVATE_RECIPES  # one of which may have been meant

        raise ValueError(
            f"no recipe is called {name!r}: {nearest(name, sorted({**RECIPES, **PRIVATE_RECIPES}))}"
        )
    made = RECIPES[name](scale, seed)
    return replace(made, reproducible=not made.promising)
