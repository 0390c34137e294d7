"""Figures 2 to 6 of the Entropy-SGLD paper: errors and bounds along a run, and over a sweep of settings."""

from collections.abc import Sequence

import polars as pl
from matplotlib.axes import Axes

from experiments.figures.random_labels import SHOWN_BOUNDS, told
from experiments.figures.style import COLOURS, GIBBS_BOUNDS, error_axis

ERRORS = (
    ("train_error", "train, mean", "black", "-"), ("test_error", "test, mean", "black", "o"),
    ("gibbs_train_error", "train, Gibbs", "tab:blue", "-"), ("gibbs_test_error", "test, Gibbs", "tab:blue", "s"),
)  # fmt: skip
LEGEND = "bounds*: optimistic, assume that SGLD has converged"


def legend(panels: Sequence[Axes]) -> None:
    """One legend below all panels, with every line that any of them has."""
    found = {label: line for axes in panels for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    if found:
        panels[0].get_figure(root=True).legend(  # type: ignore[union-attr]
            list(found.values()), list(found), loc="outside lower center", ncols=5, title=LEGEND
        )


def along_a_run(axes: Axes, part: pl.DataFrame, *, title: str) -> None:
    """Errors and bounds of one run at its records."""
    _lines(axes, part.sort("epochs_over_l"), x="epochs_over_l")
    axes.set_xlabel("epochs / L")
    _dressed(axes, part, title)


def over_a_setting(axes: Axes, part: pl.DataFrame, *, x: str, label: str, title: str) -> None:
    """Errors and bounds of many runs, one a value of column ``x``, at the end of each."""
    axes.set_xscale("log")
    _lines(axes, part.sort(x), x=x)
    axes.set_xlabel(label)
    _dressed(axes, part, title)


def _lines(axes: Axes, part: pl.DataFrame, *, x: str) -> None:
    for name, label, colour, style in ERRORS:
        if part[name].is_not_null().any():
            axes.plot(part[x], part[name], style, color=colour, label=label, markersize=4)
    for name in SHOWN_BOUNDS:
        if not part[name].is_not_null().any():
            continue
        line = "-." if name in GIBBS_BOUNDS else "--"
        axes.plot(part[x], part[name].clip(upper_bound=1.0), line, color=COLOURS[name], linewidth=1,
                  label=told(name, part))  # fmt: skip
        vacuous = part.filter(pl.col(name) >= 1.0)[x]
        axes.plot(vacuous, [1.0] * len(vacuous), "x", color=COLOURS[name])


def _dressed(axes: Axes, part: pl.DataFrame, title: str) -> None:
    error_axis(axes)
    axes.set_title(title)
    if not part.height:
        axes.text(0.5, 0.5, "no run has finished", ha="center", transform=axes.transAxes)
