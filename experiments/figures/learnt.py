"""Certificates with learnt posteriors beside their test errors, and the bounds of stages."""

from typing import Any

import polars as pl

from experiments.tables import part
from pacdp.cli.figures import style


def draw(table: pl.DataFrame) -> Any:
    """A panel a data set: a bar a recipe, the lower of randomised and one draw, the test error as a mark."""
    datasets = table["dataset"].unique(maintain_order=True).to_list()
    drawn, grid = style.figure(1, len(datasets), width=5.5, height=3.6)
    for axis, dataset in zip(grid[0], datasets, strict=True):
        rows = [_least(part(table, dataset=dataset, recipe=name)) for name in _recipes(table, dataset)]
        places = range(len(rows))
        values = [row["value"] for row in rows]
        axis.barh(places, values, height=0.6)
        axis.plot([row["test_error"] for row in rows], places, "k|", markersize=12, label="test error")
        for place, value in zip(places, values, strict=True):
            axis.annotate(f"{value:.4f}", (value, place), xytext=(3, 0), textcoords="offset points", va="center")
        axis.set_yticks(places, [row["recipe"] for row in rows])
        axis.set_xlim(0.0, 1.25 * max(values))
        axis.invert_yaxis()
        axis.set_title(dataset)
        axis.set_xlabel("certified 0-1 risk")
    grid[0][0].legend(loc="lower right", frameon=False)
    return drawn


def _recipes(table: pl.DataFrame, dataset: str) -> list[str]:
    return part(table, dataset=dataset)["recipe"].unique(maintain_order=True).to_list()


def _least(rows: pl.DataFrame) -> dict[str, Any]:
    staged = rows.filter(pl.col("stage").is_not_null())
    return (staged.sort("stage").row(-1, named=True)) if staged.height else rows.sort("value").row(0, named=True)
