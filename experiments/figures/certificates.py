"""Certificates of one data set: a mark for each, the test error of its classifier beside it."""

import polars as pl
from matplotlib.axes import Axes

from experiments.figures.style import label


def draw(axes: Axes, table: pl.DataFrame) -> None:
    """A line from test error to certificate for each row; optimistic ones hollow, vacuous ones crossed."""
    names = []
    for height, row in enumerate(table.iter_rows(named=True)):
        optimistic = row["status"] == "optimistic"
        colour = "tab:red" if row["below_test"] else "tab:orange" if optimistic else "tab:blue"
        if row["test_error"]:
            axes.plot([row["test_error"], row["value"]], [height] * 2, color="0.8", linewidth=1.0, zorder=0)
            axes.plot([row["test_error"]], [height], "|", color="black", markersize=8)
        marker = "x" if row["value"] >= 1.0 else "o"
        axes.plot([row["value"]], [height], marker, color=colour, markersize=5,
                  markerfacecolor="white" if optimistic else colour)  # fmt: skip
        names.append(f"{row['recipe']}: {label(row['certificate'])}, {row['of']}" + (" *" if optimistic else ""))
    axes.set_xscale("log")
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel("bar: test error; dot: certificate\n* hollow: optimistic; cross: vacuous; red: below test error")
