"""Chains on true and on random labels: their runs and the rows that they leave, for the studies of several papers.

They have fewer epochs than the paper's, the larger sweeps on a part of the examples, and outer steps large enough to
move (docs/entropy_sgld.md says why).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from experiments.claims import Number
from experiments.study import Done, columns
from pacdp import Architecture, GibbsSettings, Problem
from pacdp.cli import recipes
from pacdp.cli.config import Run
from pacdp.cli.figures import names
from pacdp.cli.recipes import SIZES
from pacdp.cli.sweep.jobs import Job
from pacdp.cli.sweep.kinds import sampler_job

LABELS = {"true": 0.0, "random": 1.0}
"""Share of labels that are drawn anew."""
EXAMPLES = SIZES | {"cifar10": 50_000}
SMALL = Architecture(hidden=(32,))
INNER_STEPS = 20
"""The paper's axis is epochs over Entropy-SGD's L, for all algorithms."""
QUICK = GibbsSettings(epochs=2.0, prior_draws=5, test_draws=5)
BRIEF = GibbsSettings(epochs=1.0, prior_draws=2, test_draws=2)
"""Of runs that show that everything works."""
CAREFUL = GibbsSettings(epochs=2.0, prior_draws=5, test_draws=20)
"""On all of MNIST. With fewer test draws bounds seem to fail: the Gibbs classifier's test error is an average too."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large the runs of a figure are."""

    dataset: str
    epochs: float
    records: int
    track: GibbsSettings
    train_size: int = 0
    """Examples to learn from; 0 takes all."""

    @property
    def n(self) -> int:
        """The number of examples in every bound."""
        return self.train_size or EXAMPLES[self.dataset]


def guessing(dataset: str) -> float:
    """The error of guessing uniformly among the classes of a data set."""
    return 1.0 - 1.0 / (2 if dataset.endswith("2") else 10)


def brief(dataset: str) -> Size:
    """Runs of a fraction of a second."""
    return Size(dataset, 4.0, 2, BRIEF)


def chain(algorithm: str, size: Size, *, network: Architecture, seed: int, random_labels: float, **changes: Any) -> Run:
    """One run of one algorithm; ``changes`` are fields of the sampler's settings.

    ``tau`` None or left out takes the private setting √n, n being the number of examples learnt from.
    """
    tau = changes.pop("tau", None) or math.sqrt(size.n)
    settings = recipes.sampler(algorithm, scale="cpu", dataset=size.dataset, tau=tau)
    problem = Problem(
        dataset=size.dataset,
        architecture=network,
        train_size=size.train_size,
        random_labels=random_labels,
        split_seed=seed,
        label_seed=seed,
    )
    return Run(
        problem=problem,
        sampler=replace(settings, **changes),
        epochs=size.epochs,
        records=size.records,
        seed=seed,
        track=size.track,
        certify=size.track,
    )


def job(algorithm: str, size: Size, *, labels: str, **settings: Any) -> Job:
    """A run as :func:`chain` makes it, with the columns that its configuration alone decides."""
    run = chain(algorithm, size, random_labels=LABELS[labels], **settings)
    own = {name: getattr(run.sampler, name, None) for name in ("tau", "gamma", "beta")}
    noise, network = math.sqrt(2.0 / own["tau"]) if own["tau"] else 0.0, network_name(run.problem.architecture)
    return sampler_job(run, algorithm=run.algorithm, labels=labels, network=network, thermal_noise=noise, **own)


def network_name(architecture: Architecture) -> str:
    """As the paper writes it."""
    wide = "FC" + "-".join(str(width) for width in architecture.hidden)
    return wide if architecture.name == "fc" else architecture.name.upper()


BOUNDS = tuple(name for name in names.CONVERGED if name != "test_set_clopper_pearson")
MEASURED = "train_loss train_error test_error gibbs_train_error gibbs_test_error kl_nats kl_raw_nats epsilon"
COLUMNS = columns(
    *((pl.String, "algorithm labels network"), (pl.Float64, "thermal_noise tau gamma beta"), (pl.String, "run")),
    *((pl.Int64, "n n_test step"), (pl.Float64, f"epochs epochs_over_l {MEASURED} {' '.join(BOUNDS)}")),
)


def records(done: Done) -> Iterator[dict[str, Any]]:
    """A row a record: errors, KL, epsilon and all bounds."""
    n = done.result["n"]
    for row in done.records:
        over = {"run": done.job.key, "n": n, "epochs_over_l": row["epochs"] / INNER_STEPS}
        yield {**row, **row.get("bounds", {}), **done.tags, **over}


def final(table: pl.DataFrame) -> pl.DataFrame:
    """The last record of each run."""
    return table.group_by("run", maintain_order=True).last().select(table.columns)


def ended(number: Number) -> Number:
    """The same number of the last record of each run."""
    return lambda table: number(final(table))
