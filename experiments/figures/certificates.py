"""Certificates of the 0-1 risk beside test errors: rigorous ones above, optimistic ones below, a column a data set."""

from collections.abc import Collection
from itertools import product

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.figures import panels
from experiments.tables import part
from pacdp.cli.figures import names, style
from pacdp.cli.figures.numbers import up_digits

LEGEND = "bar: test error; dot: certificate; cross: 1, vacuous; red: below test error; hollow: KL = 0"


def draw(table: pl.DataFrame, test_set: str, idle: Collection[tuple[str, str]]) -> Figure:
    """Rows by a test set stand for SGD alone; those in ``idle``, data sets and recipes, learnt no posterior."""
    tested = (pl.col("certificate") == test_set) & (pl.col("recipe") != "sgd")
    found = table.filter((pl.col("measures") == "0-1 risk") & ~tested & pl.col("trained"))
    datasets = found["dataset"].unique(maintain_order=True).to_list()
    drawn, grid = style.figure(2, max(1, len(datasets)), width=5.0, height=5.0)
    for (line, status), (k, dataset) in product(
        zip(grid, ("rigorous", "optimistic"), strict=True), enumerate(datasets)
    ):
        axes = line[k]
        _panel(axes, part(found, dataset=dataset, status=status), {name for of, name in idle if of == dataset})
        axes.set_title(f"{dataset}: {status}")
        if k and _names(axes) == _names(line[0]):
            axes.tick_params(labelleft=False)
    drawn.supxlabel(LEGEND)
    return drawn


def _panel(axes: Axes, table: pl.DataFrame, idle: Collection[str]) -> None:
    """A line from test error to certificate for each row, on an axis as long as the numbers below 1 need."""
    rows, known = [], [value for name in ("value", "test_error") for value in table[name].drop_nulls() if 0 < value < 1]
    low, high = min(known, default=0.1) / 1.15, max(known, default=0.9) * 1.3  # with room for the numbers
    for height, row in enumerate(table.iter_rows(named=True)):
        empty = row["recipe"] in idle and row["of"] in ("randomised", "one draw")
        colour = "tab:red" if row["below_test"] else "tab:blue" if row["status"] == "rigorous" else "tab:orange"
        value = min(row["value"], high)
        if row["test_error"]:
            axes.plot([row["test_error"], value], [height] * 2, color="0.8", linewidth=1.0, zorder=0)
            axes.plot([row["test_error"]], [height], "|", color="black", markersize=6)
        marker, face = "x" if row["value"] >= 1.0 else "o", "white" if empty else colour
        axes.plot([value], [height], marker, color=colour, markersize=5, markerfacecolor=face)
        if row["value"] < 1.0:
            told = up_digits(row["value"], 3)
            axes.annotate(told, (value, height), (5, 0), textcoords="offset points", va="center", size=5)
        rows.append(f"{row['recipe']}: {names.label(row['certificate'])}, {row['of']}" + (" (KL = 0)" if empty else ""))
    axes.set_xscale("log")
    panels.plain_log(axes.xaxis)
    axes.grid(axis="x", color="0.93", zorder=0)
    axes.set_xlim(low, high)
    axes.set_yticks(range(len(rows)), rows, fontsize=6)
    axes.set_ylim(max(1, len(rows)) - 0.5, -0.5)


def _names(axes: Axes) -> list[str]:
    return [each.get_text() for each in axes.get_yticklabels()]
