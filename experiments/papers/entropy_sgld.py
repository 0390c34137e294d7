"""Dziugaite and Roy (2018), Entropy-SGD optimizes the prior of a PAC-Bayes bound: Figures 1 to 4.

Figure 1 has SGD, SGLD and Entropy-SGD at many thermal noises and Entropy-SGLD at tau = sqrt(n), CONV on two-class
MNIST. Figure 2 has Entropy-SGLD with FC600 and FC1200 on true labels, Figure 3 SGLD with CONV at Entropy-SGLD's privacy
(beside the Entropy-SGLD that its caption compares with), Figure 4 Entropy-SGLD with FC1024 and CONV on ten classes.
Figures 5 and 6, on CIFAR-10, are :mod:`experiments.papers.entropy_sgld_cifar`.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import polars as pl

from experiments.claims import judging
from experiments.figures import chains as figures
from experiments.papers import entropy_sgld_verdict as verdict
from experiments.papers.chains import (
    COLUMNS,
    LABELS,
    SMALL,
    guessing,
    job,
    network_name,
    records,
)
from experiments.papers.entropy_sgld_verdict import PRIVATE_SIZES, SIZES
from experiments.papers.gaps import (
    scale_notes,
)
from experiments.papers.random_labels import NOISES
from experiments.study import Study, drawing, tabled
from experiments.tables import ordered
from pacdp import Architecture
from pacdp.cli.recipes import Scale, tau_of
from pacdp.cli.sweep.jobs import Job

PAPER = "Dziugaite and Roy 2018, Entropy-SGD optimizes the prior of a PAC-Bayes bound"
_CONV = Architecture(name="conv")
NETWORKS = {
    2: (Architecture(name="fc600"), Architecture(name="fc1200")),
    3: (_CONV,),
    4: (Architecture(name="fc1024"), _CONV),
}
RUNS = {
    2: (("entropy-sgld", "true"),),
    3: (("sgld", "true"), ("sgld", "random"), ("entropy-sgld", "true")),
    4: (("entropy-sgld", "true"), ("entropy-sgld", "random")),
}
_GUESSED = (guessing("mnist2"), guessing("mnist"))


def jobs_1(scale: Scale, seed: int) -> list[Job]:
    """SGD, Entropy-SGLD at the private setting, then the others at their noises, on true and on random labels. SGLD at
    the private setting is Figure 3's."""
    plan: list[tuple[str, float | None]] = [("sgd", None), ("entropy-sgld", None)]
    plan += [(algorithm, tau_of(noise)) for algorithm, noises in NOISES[scale].items() for noise in noises]
    network = SMALL if scale == "smoke" else _CONV
    found = []
    for labels in LABELS:
        for name, tau in plan:
            size = (PRIVATE_SIZES if name == "entropy-sgld" else SIZES[1])[scale]
            found.append(job(name, size, scale=scale, network=network, labels=labels, seed=seed, tau=tau))
    return found


def networks(figure: int, scale: Scale) -> tuple[Architecture, ...]:
    """Those of the figure; `smoke` has two small ones in their place."""
    small = (SMALL, Architecture(hidden=(64,)))
    return small[: len(NETWORKS[figure])] if scale == "smoke" else NETWORKS[figure]


def jobs(figure: int, scale: Scale, seed: int) -> list[Job]:
    """Figures 2 to 4: each run at tau = sqrt(n), with every network of the figure."""
    return [
        job(algorithm, SIZES[figure][scale], scale=scale, network=network, labels=labels, seed=seed)
        for network in networks(figure, scale)
        for algorithm, labels in RUNS[figure]
    ]


def panels(figure: int, table: pl.DataFrame) -> list[list[tuple[str, str, str]]]:
    """Network, algorithm and labels of each panel of Figures 2 to 4: the networks of the table, or the paper's."""
    known = [network_name(one) for scale in ("paper", "smoke") for one in networks(figure, scale)]
    names = [name for name in known if name in ordered(table, "network")] or known[: len(NETWORKS[figure])]
    called = {"sgld": "SGLD", "entropy-sgld": "Entropy-SGLD"}
    grid = [[(name, called[algorithm], labels) for algorithm, labels in RUNS[figure]] for name in names]
    return grid if figure == 4 else [[place for line in grid for place in line]]


def notes(figure: int, table: pl.DataFrame, scale: Scale) -> Iterator[str]:
    """What was cut, and what of it matters to the figure."""
    size, said = SIZES[figure][scale], list[str]()
    if figure != 1:
        said.append("No network has batch normalisation, with which the bounds are about no mean over examples.")
        if scale == "smoke":
            said.append("Small fully connected networks stand in for the figure's at this scale.")
        yield from scale_notes(scale, size, table, *said)
        return
    own = PRIVATE_SIZES[scale]
    if own != size:
        said.append(
            f"Entropy-SGLD learns from all {own.n} examples, for {own.epochs:g} epochs: with its tau = sqrt(n) it "
            "would learn little from the part that the others have. Their errors are not to be compared with its."
        )
    if scale != "paper":
        said.append(
            "random-labels judges the same sentences in a setting of its own, and need not decide them alike: here "
            f"SGD, SGLD and Entropy-SGD have {size.n} examples of {size.dataset} and {size.epochs:g} epochs."
        )
    said.append(
        "Thermal noises are the paper's. The same noise on fewer examples leaves each example more weight (tau/n); "
        "whether that is why overfitting reaches up to larger noises here than the paper's sentences say is open, and "
        "runs on all examples would settle it."
    )
    yield from scale_notes(scale, size, table, *said)


def _study(figure: int, title: str, numbers: Any, claims: Any) -> Study:
    def drawn(table: pl.DataFrame) -> Any:
        return (
            figures.by_noise(table)
            if figure == 1
            else figures.along_runs(table, panels(figure, table), _GUESSED[figure == 4])
        )

    planned = jobs_1 if figure == 1 else partial(jobs, figure)
    return Study(
        name=f"entropy-sgld-figure-{figure}",
        title=title,
        paper=f"{PAPER}, Figure {figure}",
        jobs=planned,
        table=tabled(records, COLUMNS),
        draw=drawing(figure=drawn),
        scales=("smoke", "cpu", "gpu", "paper"),
        judge=judging(
            numbers=numbers,
            claims=claims,
            notes=partial(notes, figure),
            settled_by=partial(verdict.settled, planned),
        ),
    )


FIGURE_1 = _study(1, "Overfitting at each thermal noise, CONV on two-class MNIST", verdict.numbers_1, verdict.claims_1)
FIGURE_2 = _study(2, "Entropy-SGLD with FC600 and FC1200 on two-class MNIST", verdict.numbers_2, verdict.claims_2)
FIGURE_3 = _study(3, "SGLD at Entropy-SGLD's privacy, CONV on two-class MNIST", verdict.numbers_3, verdict.claims_3)
FIGURE_4 = _study(4, "Entropy-SGLD with FC1024 and CONV on ten-class MNIST", verdict.numbers_4, verdict.claims_4)
STUDIES = (FIGURE_1, FIGURE_2, FIGURE_3, FIGURE_4)
