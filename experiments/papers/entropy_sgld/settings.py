"""Runs of the Entropy-SGLD figures: how large at which scale, and the paper's settings where they differ from recipes.

`paper` has the paper's lengths and step sizes. `cpu` has fewer epochs, for the larger sweeps on a part of the examples,
and outer steps large enough to move (docs/entropy_sgld.md says why); `smoke` runs on scikit-learn's digits in seconds.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from experiments import recipes
from experiments.config import Run
from experiments.recipes import SIZES, Scale
from experiments.studies.kinds import sampler_job
from experiments.study import Job
from pacdp import Architecture, GibbsSettings, Problem

PAPER = "Dziugaite and Roy 2018, Entropy-SGD optimizes the prior of a PAC-Bayes bound"
LABELS = {"true": 0.0, "random": 1.0}
"""Share of labels that are drawn anew."""
EXAMPLES = SIZES | {"cifar10": 50_000}
SMALL = Architecture(hidden=(32,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large the runs of a figure are."""

    dataset: str
    train_size: int = 0
    """Examples to learn from; 0 takes all."""
    epochs: float
    records: int
    track: GibbsSettings

    @property
    def n(self) -> int:
        """The number of examples in every bound."""
        return self.train_size or EXAMPLES[self.dataset]


QUICK = GibbsSettings(epochs=2.0, prior_draws=5, test_draws=5)
CAREFUL = GibbsSettings(epochs=2.0, prior_draws=5, test_draws=20)
"""On all of MNIST. With fewer test draws bounds seem to fail: the Gibbs classifier's test error is an average too."""
PAPER_TRACK = GibbsSettings(epochs=1000.0, alpha=0.005, step_floor=0.0, prior_draws=400, test_draws=100)
"""Appendix C.2.3: 1000 epochs for each point of a plot, alpha 0.005, steps 1/t. The numbers of draws are ours."""


def smoke(dataset: str) -> Size:
    """Runs of a second."""
    return Size(dataset=dataset, epochs=40.0, records=2, track=QUICK)


def mnist(dataset: str) -> Size:
    """2000 epochs, 100 on the paper's axis: what it prints for CIFAR-10; of MNIST it says "thousands of epochs"."""
    return Size(dataset=dataset, epochs=2000.0, records=10, track=PAPER_TRACK)


def job(
    algorithm: str, size: Size, *, scale: Scale, network: Architecture, labels: str, seed: int,
    tau: float | None = None, **changes: Any,
) -> Job:  # fmt: skip
    """One run of one algorithm as a job whose tags place it in the table.

    Args:
        tau: inverse temperature; None takes the private setting √n, n being the number of examples learnt from.
        changes: fields of the sampler's settings.
    """
    settings = recipes.sampler(algorithm, scale=scale, dataset=size.dataset, tau=tau or math.sqrt(size.n))
    problem = Problem(
        dataset=size.dataset, architecture=network, train_size=size.train_size, split_seed=seed,
        random_labels=LABELS[labels], label_seed=seed,
    )  # fmt: skip
    run = Run(problem=problem, sampler=replace(settings, **changes), epochs=size.epochs, records=size.records,
              seed=seed, track=size.track, certify=size.track)  # fmt: skip
    return sampler_job(run, **placed(run, labels))


def placed(run: Run, labels: str) -> dict[str, Any]:
    """The columns that a configuration alone decides."""
    settings = run.sampler
    temperature = getattr(settings, "tau", None)
    return {
        "algorithm": run.algorithm, "labels": labels, "network": network_name(run.problem.architecture),
        "thermal_noise": math.sqrt(2.0 / temperature) if temperature else 0.0, "tau": temperature,
        "gamma": getattr(settings, "gamma", None), "beta": getattr(settings, "beta", None),
    }  # fmt: skip


def network_name(architecture: Architecture) -> str:
    """As the paper writes it."""
    if architecture.name == "fc":
        return "FC" + "-".join(str(width) for width in architecture.hidden)
    return architecture.name.upper()
