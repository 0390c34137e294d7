"""Accuracy of private networks by the budget that they were given."""

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import ScalarFormatter

from pacdp.cli.figures import style


def accuracy_by_budget(table: pl.DataFrame) -> Figure:
    """A dot a run, a line through the means."""
    drawn, ((axes,),) = style.figure(1, 1)
    axes.plot(table["asked"], table["accuracy"], "o", markersize=4, alpha=0.7)
    means = table.group_by("asked").agg(pl.col("accuracy").mean()).sort("asked")
    axes.plot(means["asked"], means["accuracy"], linewidth=1.0)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.set_xlabel("epsilon (add-remove)")
    axes.set_ylabel("test accuracy")
    return drawn
