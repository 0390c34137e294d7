"""What certificates with private priors are made of: a bar a route, cut into its parts."""

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.figures.panels import legend
from experiments.papers.certificate_parts import PARTS
from experiments.tables import ordered, part
from pacdp.cli.figures import style

_COLOURS = ("0.55", "0.8", "tab:blue", "tab:cyan", "tab:orange", "tab:red")


def draw(table: pl.DataFrame) -> Figure:
    """A panel a data set; the mean over seeds, with a dot for each seed's certificate and a bar at its test error."""
    shown = table.filter(pl.col("shown")) if table.height else table
    datasets = ordered(shown, "dataset")
    drawn, ((*line,),) = style.figure(1, max(1, len(datasets)), width=5.2, height=4.2)
    for axes, dataset in zip(line, datasets, strict=False):
        _panel(axes, part(shown, dataset=dataset))
        axes.set_title(dataset)
    if datasets:
        legend(line[-1], fontsize=6, loc="lower right")
    return drawn


def _panel(axes: Axes, table: pl.DataFrame) -> None:
    names = ordered(table, "label")
    for height, name in enumerate(names):
        own, left = part(table, label=name), 0.0
        for which, colour in zip(PARTS, _COLOURS, strict=True):
            wide = float(str(own[which].mean()))
            axes.barh([height], [wide], left=[left], color=colour, label=which if height == 0 else None, height=0.7)
            left += wide
        axes.plot(own["value"], [height] * own.height, ".", color="black", markersize=4)
        axes.plot(own["test_error"], [height] * own.height, "|", color="white", markersize=8)
    axes.set_yticks(range(len(names)), names, fontsize=6)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlabel("0-1 risk: dots are certificates, white strokes test errors")
