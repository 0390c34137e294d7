"""Chains at rest: the runs for Figures 1 to 4 of Dziugaite and Roy (2018)."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from experiments.runs.chains import BRIEF, ENTROPY, LABELS
from experiments.runs.temperature import CLIMB, Ladder
from pacdp import Architecture, Problem
from pacdp.cli.recipes import SIZES, tau_of
from pacdp.cli.sweep.jobs import Job

CONV = Architecture(name="conv")
GROUPED = Architecture(name="conv", norm="group")
HOT = 0.05
"""The thermal noise at which Figure 1 has SGLD with almost no gap."""
WIDTHS = 4
"""Seeds of the networks of Figure 2, four chains each; later ones make no Gibbs classifier."""


def laws_jobs(smoke: bool, seed: int) -> list[Job]:
    """Several chains of each kind, those that take long first."""
    plan = dict(_plan(seed))
    if smoke:
        plan = {key: _small(plan[key]) for key in ("conv-entropy-random",)}
    return [Job(key=key, kind=CLIMB, config=made, tags=_tags(made.problem)) for key, made in plan.items()]


def _tags(problem: Problem) -> dict[str, str]:
    return {"labels": "random" if problem.random_labels else "true", "dataset": problem.dataset}


def _plan(seed: int) -> Iterator[tuple[str, Ladder]]:
    for name in ("fc1200", "fc600"):
        network = Architecture(name=name)  # type: ignore[arg-type]
        for number in range(WIDTHS):
            own: dict[str, Any] = ENTROPY | ({"gibbs": None, "records": 6} if number else {})
            key = f"{name}-entropy-true" + (f"-{number}" if number else "")
            yield key, _ladder(network, 12.0, seed=seed + number, chains=4, **own)
    for labels, share in LABELS.items():
        own = {"seed": seed, "random_labels": share}
        yield f"conv-entropy-{labels}", _ladder(GROUPED, 10.0, fit=2.0, **ENTROPY, **own)
        for name, tau in (("sgld", None), ("hot", tau_of(HOT))):
            yield f"conv-{name}-{labels}", _ladder(GROUPED, 6.0, tau=tau, fit=2.0, step_size=0.1, **own)
        dense = Architecture(name="fc1024")
        for name, network, epochs in (("fc1024", dense, 16.0), ("conv", CONV, 16.0), ("conv-group", GROUPED, 10.0)):
            yield f"{name}-ten-{labels}", _ladder(network, epochs, dataset="mnist", **ENTROPY, **own)


def _ladder(
    network: Architecture, epochs: float, *, tau: float | None = None, chains: int = 2, dataset: str = "mnist2",
    random_labels: float = 0.0, **settings: Any,
) -> Ladder:  # fmt: skip
    """Chains from SGD's weights at one temperature, by default τ = √n; ``settings`` are fields of :class:`Ladder`."""
    problem = Problem(dataset=dataset, architecture=network, random_labels=random_labels)
    taus = (tau or math.sqrt(SIZES[dataset]),) * chains
    return Ladder(problem=problem, taus=taus, starts=("sgd",), epochs=epochs, **{"records": 3, **settings})


def _small(made: Ladder) -> Ladder:
    problem = replace(made.problem, dataset="digits2", architecture=Architecture(hidden=(32,)))
    return replace(
        made, problem=problem, taus=(math.sqrt(SIZES["digits2"]),) * 2, epochs=1.0, batch_size=32, fit=1.0, records=2,
        inner_steps=5, gibbs=made.gibbs and BRIEF,
    )  # fmt: skip
