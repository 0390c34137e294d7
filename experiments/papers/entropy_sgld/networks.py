"""Figures 2, 3 and 4: other networks on two-class MNIST, SGLD at the private setting, MNIST with its ten classes.

Each is a few runs drawn along their length: Figure 2 has Entropy-SGLD with FC600 and FC1200 on true labels, Figure 3
SGLD with CONV (beside the Entropy-SGLD that its caption compares with), Figure 4 Entropy-SGLD with FC1024 and CONV.
"""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from experiments.figures import entropy_sgld as drawing
from experiments.figures import style
from experiments.papers.entropy_sgld.settings import CAREFUL, SMALL, Size, job, mnist, network_name, smoke
from experiments.recipes import Scale
from experiments.study import Job
from pacdp import Architecture

WIDE = Architecture(hidden=(64,))
NETWORKS: dict[str, tuple[Architecture, ...]] = {
    "2": (Architecture(name="fc600"), Architecture(name="fc1200")),
    "3": (Architecture(name="conv"),),
    "4": (Architecture(name="fc1024"), Architecture(name="conv")),
}
SIZES: dict[str, dict[Scale, Size]] = {
    "2": {"smoke": smoke("digits2"), "paper": mnist("mnist2"),
          "cpu": Size(dataset="mnist2", epochs=30.0, records=3, track=CAREFUL)},
    "3": {"smoke": smoke("digits2"), "paper": mnist("mnist2"),
          "cpu": Size(dataset="mnist2", epochs=30.0, records=4, track=CAREFUL)},
    "4": {"smoke": smoke("digits"), "paper": mnist("mnist"),
          "cpu": Size(dataset="mnist", epochs=15.0, records=3, track=CAREFUL)},
}  # fmt: skip


def networks(figure: str, scale: Scale) -> tuple[Architecture, ...]:
    """Those of the figure; `smoke` has two small ones in their place."""
    return (SMALL, WIDE)[: len(NETWORKS[figure])] if scale == "smoke" else NETWORKS[figure]


def plan(figure: str, scale: Scale, seed: int, runs: Sequence[tuple[str, str]]) -> list[Job]:
    """Runs of (algorithm, labels), each at tau = sqrt(n), with every network of the figure."""
    return [
        job(algorithm, SIZES[figure][scale], scale=scale, network=network, labels=labels, seed=seed)
        for network in networks(figure, scale)
        for algorithm, labels in runs
    ]


def panels(table: pl.DataFrame, out: Path, grid: Sequence[Sequence[tuple[str, str, str]]]) -> list[Path]:
    """A panel for each (network, algorithm, labels) of a grid."""
    drawn, axes = style.figure(len(grid), len(grid[0]), width=5.0)
    for line, places in zip(axes, grid, strict=True):
        for one, (network, algorithm, labels) in zip(line, places, strict=True):
            part = table.filter(network=network, algorithm=algorithm, labels=labels)
            drawing.along_a_run(one, part, title=f"{algorithm}, {network}, {labels} labels")
    drawing.legend([one for line in axes for one in line])
    return style.save(drawn, out / "figure")


def named_in(table: pl.DataFrame, figure: str) -> list[str]:
    """The networks of the table in the figure's order; those of the paper where the table is empty."""
    found = table["network"].unique(maintain_order=True).to_list()
    known = [network_name(one) for scale in ("paper", "smoke") for one in networks(figure, scale)]
    return [name for name in known if name in found] or known[: len(NETWORKS[figure])]
