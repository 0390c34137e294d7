"""Figures 1 to 4 of Dziugaite and Roy (2018) where chains stay, which longer runs do not leave.

The figures' own runs at scale cpu end before Entropy-SGLD has learnt what its law at τ = √n allows. Here chains begin
at SGD's weights, which fit more than the law does, and run at constant steps; errors are means over the second half. An
approach that is not over then shows too small an error and too large a gap, which counts against the sentences. The
convolutional network has GroupNorm: without, SGLD's law at τ = √n guesses on two classes (temperature-map), and a
network that guesses shows nothing. On ten classes it is run without as well, and judged with.
"""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import polars as pl

from experiments.claims import judging
from experiments.figures import laws as figures
from experiments.papers import laws_verdict as verdict
from experiments.papers.chains import EXAMPLES, LABELS, SMALL, job, records
from experiments.papers.entropy_sgld import FIGURE_4
from experiments.papers.entropy_sgld_verdict import COLDEST, SEEDS
from experiments.papers.entropy_sgld_verdict import SIZES as FIGURES
from experiments.papers.runs.temperature import CLIMB, Ladder
from experiments.papers.temperature import COLUMNS as OF_LADDERS
from experiments.papers.temperature import DATASETS, ENTROPY, ladder
from experiments.papers.temperature import rows as chains
from experiments.study import Done, Row, Study, columns, drawing, tabled
from pacdp import Architecture
from pacdp.cli.recipes import Scale, tau_of
from pacdp.cli.sweep.jobs import Job

GROUPED = Architecture(name="conv", norm="group")
SEEDS_2 = 4
"""Of Figure 2's two networks, four chains each: those of the first had left open how far the two differ. Chains of the
later ones are recorded twice as often and make no Gibbs classifier, which Figure 2 does not compare."""
HOT = 0.05
"""The thermal noise at which Figure 1 has SGLD with almost no gap."""


class Kind(NamedTuple):
    """Chains that share everything but their noise."""

    chains: int
    settings: dict[str, Any]
    """Of :func:`ladder`."""
    later: int = 0
    """How far their seed is from the first."""


def jobs(scale: Scale, seed: int) -> list[Job]:
    """Several chains of each kind, those that take long first; at scale smoke one kind for each figure."""
    root, smoke = math.sqrt(EXAMPLES[DATASETS[scale]]), scale == "smoke"
    small = Architecture(hidden=(64,))
    grouped, seeds = (SMALL, (2, 2)) if smoke else (GROUPED, (SEEDS_2, SEEDS))
    plan: dict[str, Kind] = {}
    for name, network in (("fc1200", small), ("fc600", SMALL)):
        own = network if smoke else Architecture(name=name)  # type: ignore[arg-type]
        made = {"epochs": 12.0, **ENTROPY, "records": 3, "network": own}
        plan[f"{name}-entropy-true"] = Kind(4, made)
        more = {**made, "gibbs": None, "records": 6}
        plan |= {f"{name}-entropy-true-{number}": Kind(4, more, number) for number in range(1, seeds[0])}
    for labels, share in LABELS.items():
        own = {"random_labels": share, "records": 3}
        ten = {**own, "dataset": "digits" if smoke else "mnist", "epochs": 16.0, **ENTROPY}
        plan |= {
            f"conv-entropy-{labels}": Kind(2, {**own, "epochs": 10.0, **ENTROPY, "network": grouped, "fit": 2.0}),
            f"conv-sgld-{labels}": Kind(2, {**own, "epochs": 6.0, "step_size": 0.1, "network": grouped, "fit": 2.0}),
            f"conv-hot-{labels}": Kind(2, {**own, "epochs": 6.0, "step_size": 0.1, "network": grouped, "fit": 2.0}),
            f"fc1024-ten-{labels}": Kind(2, {**ten, "network": SMALL if smoke else Architecture(name="fc1024")}),
            f"conv-ten-{labels}": Kind(2, {**ten, "network": small if smoke else Architecture(name="conv")}),
            f"conv-group-ten-{labels}": Kind(2, {**ten, "epochs": 10.0, "network": grouped}),
        }
    found = []
    for key, (number, settings, later) in plan.items():
        tau = tau_of(HOT) if "hot" in key else root
        made = ladder(scale, seed + later, tau, about="", times=(1.0,) * number, starts=("sgd",), **settings)
        found.append(Job(key=key, kind=CLIMB, config=made, tags={"labels": _labels(made), "dataset": _dataset(made)}))
    return found + [one for number in range(seed, seed + seeds[1]) for one in _cold(scale, number)]


def _labels(made: Ladder) -> str:
    return "random" if made.problem.random_labels else "true"


def _dataset(made: Ladder) -> str:
    return made.problem.dataset


def _cold(scale: Scale, seed: int) -> Iterator[Job]:
    """SGD and the coldest SGLD of Figure 1, as it has them."""
    size = FIGURES[1][scale]
    for name, tau in (("sgd", None), ("sgld", tau_of(COLDEST))):
        network = SMALL if scale == "smoke" else Architecture(name="conv")
        yield job(name, size, scale=scale, network=network, labels="true", seed=seed, tau=tau)


COLUMNS = {
    **OF_LADDERS, **columns((pl.String, "labels dataset"), (pl.Float64, "thermal_noise"), (pl.Int64, "seed chain"))
}  # fmt: skip


def rows(done: Done) -> Iterator[Row]:
    """One row a chain that stays where it is; of a run of Figure 1 its end, with its seed."""
    if not isinstance(done.job.config, Ladder):
        *_, end = records(done)
        yield {**end, "seed": done.job.config.seed, "dataset": done.job.config.problem.dataset}
        return
    for number, row in enumerate(chains(done)):
        yield {**row, "chain": number, "thermal_noise": math.sqrt(2.0 / row["tau"])}


LAWS = Study(
    name="entropy-sgld-laws",
    title="Figures 1 to 4 where chains stay at τ = √n",
    paper="Dziugaite and Roy (2018), Figures 1 to 4",
    jobs=jobs,
    table=tabled(rows, COLUMNS),
    draw=drawing(figure=figures.draw),
    judge=judging(
        claims=verdict.claims,
        notes=verdict.notes,
        points=verdict.points,
        settled_by=partial(verdict.settled_by, FIGURE_4.jobs),
    ),
)
STUDIES = (LAWS,)
