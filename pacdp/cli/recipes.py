"""Named runs at four scales: `smoke` (seconds, embedded digits), `cpu` (two cores), `gpu` (minutes of one GPU: steps as
for `cpu`, networks as for `paper`, light tracking), `paper` (the paper's settings, hours of a GPU).

The paper is Dziugaite and Roy (2018), "Entropy-SGD optimizes the prior of a PAC-Bayes bound": two-class MNIST,
tau = sqrt(n), beta = 1, batches of 128, L = 20. Its outer base learning rate, 0.006, needs tens of thousands of epochs
to move; the smaller scales use a larger one, said in their configuration. The clipped recipes' settings were
found by comparing about a dozen on MNIST; no certificate of theirs pays for that choice. Their noise comes from the
operating system; that of studies comes from their seeds, so that their tables can be made again.
"""

import math
from dataclasses import replace

from pacdp.algorithms import SGD, SGHMC, SGLD, EntropySGD, Settings
from pacdp.certify.gibbs import GibbsSettings
from pacdp.cli.config import Run
from pacdp.cli.runtime import Scale
from pacdp.cli.serial import Values
from pacdp.models import Architecture
from pacdp.problem import Problem

SIZES = {"digits": 1437, "digits2": 1437, "mnist": 60_000, "mnist2": 60_000}
_FEATURES = "langevin-features"
CLIPPED = ("entropy-sgd-clipped", "entropy-sgld-clipped")
"""Their inner steps are private mechanisms: certificates need no stationarity. The privacy that they spend is the same,
and the outer noise of the second, at beta = 1, drowns most of what it learns."""


def tau_of(thermal_noise: float) -> float:
    """Inverse temperature whose thermal noise √(2/τ) is the given one."""
    return 2.0 / thermal_noise**2


_SAMPLERS: dict[str, Settings] = {
    "sgd": SGD(step_size=0.1, momentum=0.9),
    "sgld": SGLD(tau=1.0, step_size=0.2),
    "entropy-sgd": EntropySGD(tau=1.0, beta=None, outer_step_size=2.0, outer_decay=0.0),
    "entropy-sgld": EntropySGD(tau=1.0, outer_step_size=2.0),
    # μ averages about ten inner steps of equal size, each from near the centre
    "entropy-sgd-clipped": EntropySGD(tau=1.0, beta=None, outer_step_size=2.0, outer_decay=0.0, inner_decay=0.0,
                                      alpha=0.1, clip_norm=1.0),
    "entropy-sgld-clipped": EntropySGD(tau=1.0, outer_step_size=2.0, clip_norm=1.0),
}  # fmt: skip
_PAPER: dict[str, Settings] = {
    "sgld": SGLD(tau=1.0, step_size=0.006 / 2, decay=0.6),
    "entropy-sgd": EntropySGD(tau=1.0, beta=None),
    "entropy-sgld": EntropySGD(tau=1.0),
}
"""The paper's own settings, where they are others."""
_LENGTHS: dict[Scale, Values] = {
    "smoke": {"epochs": 40.0, "records": 4, "track": GibbsSettings(epochs=4.0, prior_draws=10, test_draws=10),
              "certify": GibbsSettings(epochs=40.0, prior_draws=100, test_draws=40)},
    "cpu": {"epochs": 150.0, "records": 15, "track": GibbsSettings(epochs=1.0, prior_draws=5, test_draws=5),
            "certify": GibbsSettings(epochs=20.0, prior_draws=100, test_draws=100)},
    "gpu": {"epochs": 200.0, "records": 10, "track": GibbsSettings(epochs=2.0, prior_draws=5, test_draws=20),
            "certify": GibbsSettings(epochs=20.0, prior_draws=100, test_draws=100)},
    "paper": {"epochs": 2000.0, "records": 20,
              "track": GibbsSettings(epochs=20.0, alpha=0.005, prior_draws=20, test_draws=20),
              "certify": GibbsSettings(epochs=1000.0, alpha=0.005, step_floor=0.0, prior_draws=1000, test_draws=400)},
}  # fmt: skip
"""How long runs are, and the effort on their Gibbs classifiers."""


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
    own: Values = {"batch_size": 32 if dataset.startswith("digits") else 128}
    if algorithm != "sgd":
        own["tau"] = math.sqrt(SIZES[dataset]) if tau is None else tau
    chosen = _SAMPLERS | (_PAPER if scale == "paper" else {})
    length = _LENGTHS[scale]
    if (
        scale == "cpu" and algorithm in CLIPPED
    ):  # beyond, the noise of the steps undoes what they learn
        length = length | {"epochs": 10.0, "records": 10}
    network = Architecture(name="conv" if dataset.startswith("mnist") else "fc1024")
    if scale in ("smoke", "cpu"):
        network = Architecture(hidden=(100,))
    problem = Problem(
        dataset=dataset, architecture=network, random_labels=random_labels, label_seed=seed
    )
    return Run(problem=problem, sampler=replace(chosen[algorithm], **own), seed=seed, **length)


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
    f"{algorithm}-{dataset}" for algorithm in (*_SAMPLERS, _FEATURES) for dataset in SIZES
)
