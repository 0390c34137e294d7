"""Certificates of the 0-1 risk beside test errors: a panel a data set, a mark for each certificate."""

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.tables import part
from pacdp.cli.figures import style

LEGEND = "bar: test error; dot: certificate; * hollow: optimistic; cross: vacuous; red: below test error"


def draw(table: pl.DataFrame, test_set: str) -> Figure:
    """Those by a test set for SGD alone."""
    tested = (pl.col("certificate") == test_set) & (pl.col("recipe") != "sgd")
    found = table.filter((pl.col("measures") == "0-1 risk") & ~tested)
    datasets = found["dataset"].unique(maintain_order=True).to_list()
    drawn, (line,) = style.figure(1, len(datasets), width=5.0, height=7.0)
    for axes, dataset in zip(line, datasets, strict=True):
        _panel(axes, part(found, dataset=dataset))
        axes.set_title(dataset)
        if axes is not line[0] and _names(axes) == _names(line[0]):
            axes.tick_params(labelleft=False)
    drawn.supxlabel(LEGEND)
    return drawn


def _panel(axes: Axes, table: pl.DataFrame) -> None:
    """A line from test error to certificate for each row; optimistic ones hollow, vacuous ones crossed."""
    rows = []
    for height, row in enumerate(table.iter_rows(named=True)):
        optimistic = row["status"] == "optimistic"
        colour = "tab:red" if row["below_test"] else "tab:orange" if optimistic else "tab:blue"
        if row["test_error"]:
            axes.plot([row["test_error"], row["value"]], [height] * 2, color="0.8", linewidth=1.0, zorder=0)
            axes.plot([row["test_error"]], [height], "|", color="black", markersize=8)
        marker, face = "x" if row["value"] >= 1.0 else "o", "white" if optimistic else colour
        axes.plot([row["value"]], [height], marker, color=colour, markersize=5, markerfacecolor=face)
        rows.append(f"{row['recipe']}: {style.label(row['certificate'])}, {row['of']}" + (" *" if optimistic else ""))
    axes.set_xscale("log")
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)


def _names(axes: Axes) -> list[str]:
    return [each.get_text() for each in axes.get_yticklabels()]
