"""Certificates against the number of labelled records, a line a route, a panel a data set."""

from typing import Any

import polars as pl

from experiments.tables import part
from pacdp.cli.figures import style


def draw(table: pl.DataFrame) -> Any:
    """Means over seeds with the range of the seeds as bars; test errors dotted, in the route's colour."""
    datasets = table["dataset"].unique(maintain_order=True).to_list()
    drawn, grid = style.figure(1, len(datasets), width=4.6, height=3.8)
    for axes, dataset in zip(grid[0], datasets, strict=True):
        own = part(table, dataset=dataset)
        for route in own["route"].unique(maintain_order=True):
            line = part(own, route=route).group_by("records").agg(
                pl.mean("value"), pl.min("value").alias("low"), pl.max("value").alias("high"), pl.mean("test_error")
            ).sort("records")  # fmt: skip
            ends = [(line["value"] - line["low"]).to_list(), (line["high"] - line["value"]).to_list()]
            bars = axes.errorbar(line["records"], line["value"], yerr=ends, marker="o", capsize=2, label=route)
            axes.plot(line["records"], line["test_error"], linestyle=":", color=bars.lines[0].get_color())
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("patients" if own["unit"][0] == "person" else "labelled records")
        axes.set_title(dataset)
    grid[0][0].set_ylabel("certificate, 95%; dotted: test error")
    grid[0][0].legend(fontsize=6)
    return drawn
