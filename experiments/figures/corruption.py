"""Errors and bounds of four algorithms against the share of random labels, a panel an algorithm."""

from collections.abc import Sequence

import polars as pl
from matplotlib.axes import Axes

from experiments.figures.entropy_sgld import legend
from experiments.figures.random_labels import SHOWN_BOUNDS, told
from experiments.figures.style import ACCOUNTED, COLOURS, GIBBS_BOUNDS, NAMES, error_axis

ALGORITHMS = ("SGD", "Entropy-SGLD", "DP-SGD", "DP-SGLD")


def draw(panels: Sequence[Axes], table: pl.DataFrame) -> None:
    """Fill four axes; of each run its last record is drawn. Between the dotted lines lies what can be learnt."""
    last = table.group_by("run", maintain_order=True).last()
    for axes, name in zip(panels, ALGORITHMS, strict=True):
        _panel(axes, last.filter(pl.col("algorithm") == name).sort("random_share"))
        axes.set_title(name)
    legend(panels)


def _panel(axes: Axes, part: pl.DataFrame) -> None:
    x = part["random_share"]
    axes.plot(x, part["least_error"], ":", color="0.5", label="least true error")
    axes.plot(x, part["train_error"], "-", color="black", label="train")
    axes.plot(x, part["test_error"], "o", color="black", markersize=4, label="test")
    if part["gibbs_train_error"].is_not_null().any():
        axes.plot(x, part["gibbs_train_error"], "-", color="tab:blue", label="train, Gibbs")
        axes.plot(x, part["gibbs_test_error"], "s", color="tab:blue", markersize=3, label="test, Gibbs")
    for name in (*SHOWN_BOUNDS, *ACCOUNTED):
        if name not in part.columns or not part[name].is_not_null().any():
            continue
        label = NAMES[name] if name in ACCOUNTED else told(name, part)
        axes.plot(x, part[name].clip(upper_bound=1.0), "-." if name in GIBBS_BOUNDS else "--", color=COLOURS[name],
                  linewidth=1, label=label)  # fmt: skip
        vacuous = part.filter(pl.col(name) >= 1.0)["random_share"]
        axes.plot(vacuous, [1.0] * len(vacuous), "x", color=COLOURS[name])
    error_axis(axes)
    axes.set_xlabel("share of random labels")
