"""Errors and bounds of chains: along a run, over a sweep of settings, by thermal noise, by share of random labels."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.figures import panels
from experiments.tables import part
from pacdp.cli.figures import style
from pacdp.cli.figures.names import ACCOUNTED, GIBBS_BOUNDS, NAMES
from pacdp.cli.figures.style import COLOURS, error_axis

SHOWN = ("dp_pac_bayes_2018", "dp_pac_bayes", "dp_hoeffding_2018", "dp_chernoff_2018", "dp_kl_chernoff")
LEGEND = "bounds*: optimistic, assume that SGLD has converged"
ERRORS = (("train_error", "train, mean", "black", "-"), ("test_error", "test, mean", "black", "o"))
GIBBS = (("gibbs_train_error", "train, Gibbs", "tab:blue", "-"), ("gibbs_test_error", "test, Gibbs", "tab:blue", "s"))
Cells = Sequence[Sequence[tuple[Mapping[str, Any], str]]]
"""Rows of panels: what a panel's runs have in their columns, and its title."""
_NO_MEAN = (("train_error", "train", "black", "-"), ("test_error", "test", "black", "o"))
_BY_NOISE = (("SGLD", ("SGD", "SGLD")), ("Entropy-SGD", ("Entropy-SGD",)), ("Entropy-SGLD", ("Entropy-SGLD",)))


def by_noise(table: pl.DataFrame) -> Figure:
    """The paper's Figure 1: a row an algorithm, true labels left, random labels right."""
    drawn, grid = style.figure(3, 2, width=5.0)
    noises = sorted(table["thermal_noise"].unique().to_list())
    shades = mpl.colormaps["viridis"]
    colour = {noise: shades(0.9 * k / max(1, len(noises) - 1)) for k, noise in enumerate(noises)}
    for line, (title, algorithms) in zip(grid, _BY_NOISE, strict=True):
        for axes, labels in zip(line, ("true", "random"), strict=True):
            own = part(table, labels=labels).filter(pl.col("algorithm").is_in(algorithms))
            private = title == "Entropy-SGLD"
            if private:
                curves(axes, own.sort("epochs_over_l"), x="epochs_over_l")
                panels.legend(axes, ncols=2, title=LEGEND)
            else:
                _noises(axes, own, colour)
            error_axis(axes)
            highest = max((float(str(own[name].max() or 0.0)) for name in SHOWN), default=0.0)
            axes.set_ylim(0.0, 1.04 if private and highest > 0.6 else 0.66)
            axes.set_ylabel("0-1 error or bound on it" if private else "0-1 error")
            axes.set_title(f"{title}, {labels} labels")
            axes.set_xlabel("epochs / L")
    return drawn


def _noises(axes: Axes, own: pl.DataFrame, colour: dict[float, tuple[float, float, float, float]]) -> None:
    """Training error of the weights at each thermal noise; large markers on the right are test errors."""
    for (noise,), run in own.sort("thermal_noise", "epochs_over_l").group_by(["thermal_noise"], maintain_order=True):
        label, shade, x = "SGD" if noise == 0 else f"noise {noise:.3g}", colour[float(str(noise))], run["epochs_over_l"]
        axes.plot(x, run["train_error"], color=shade, label=label)
        axes.plot(x[-1:], run["test_error"][-1:], "o", color=shade, markersize=7)
    panels.legend(axes, title="train; marker: test")


def by_share(table: pl.DataFrame) -> Figure:
    """A panel an algorithm against the share of random labels; between the dotted lines lies what can be learnt."""
    drawn, grid = style.figure(2, 2, width=4.6)
    places = [axes for line in grid for axes in line]
    last = table.group_by("run", maintain_order=True).last()
    for axes, name in zip(places, ("SGD", "Entropy-SGLD", "DP-SGD", "DP-SGLD"), strict=True):
        own = part(last, algorithm=name).sort("random_share")
        axes.plot(own["random_share"], own["least_error"], ":", color="0.5", label="least true error")
        curves(axes, own, x="random_share", errors=(*_NO_MEAN, *GIBBS), bounds=(*SHOWN, *ACCOUNTED))
        error_axis(axes)
        axes.set_xlabel("share of random labels")
        axes.set_title(name)
    below(places)
    return drawn


def along_runs(
    table: pl.DataFrame, grid: Sequence[Sequence[tuple[str, str, str]]], guessing: float | None = None
) -> Figure:
    """Errors and bounds at the records of a run: a panel for each (network, algorithm, labels) of a grid, with the
    error of guessing where the panel's errors come near it."""
    cells = [
        [({"network": n, "algorithm": one, "labels": to}, f"{one}, {n}, {to} labels") for n, one, to in line]
        for line in grid
    ]
    return _grid(table, cells, x="epochs_over_l", label="epochs / L", guessing=guessing)


def over_settings(last: pl.DataFrame, cells: Cells, x: str) -> Figure:
    """Errors and bounds at the end of runs against a setting: a panel for each (columns, title) of a grid."""
    return _grid(last, cells, x=x, label=x, log=True)


def _grid(
    table: pl.DataFrame, cells: Cells, *, x: str, label: str, log: bool = False, guessing: float | None = None
) -> Figure:
    drawn, grid = style.figure(len(cells), len(cells[0]), width=5.0)
    for line, places in zip(grid, cells, strict=True):
        for axes, (where, title) in zip(line, places, strict=True):
            own = part(table, **where)
            if log:
                axes.set_xscale("log")
            curves(axes, own.sort(x), x=x, square=4)
            axes.set_xlabel(label)
            error_axis(axes)
            _to_the_data(axes)
            low, high = axes.get_ylim()
            if guessing is not None and low < guessing < high:
                axes.axhline(guessing, color="0.5", linestyle=":", linewidth=1.0, zorder=0, label="guessing")
            axes.set_title(title)
            if own.is_empty():
                axes.text(0.5, 0.5, "no run has finished", ha="center", transform=axes.transAxes)
    below([axes for line in grid for axes in line])
    return drawn


def _to_the_data(axes: Axes) -> None:
    """An axis of errors as long as what is drawn needs, so that bounds can be told from errors."""
    values = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in axes.lines[:-1]] or [np.zeros(0)])
    values = values[np.isfinite(values)]
    if len(values):
        room = 0.05 * max(0.05, values.max() - values.min())
        axes.set_ylim(values.min() - room, values.max() + room)


def curves(
    axes: Axes,
    own: pl.DataFrame,
    *,
    x: str,
    errors: Sequence[tuple[str, str, str, str]] = (*ERRORS, *GIBBS),
    bounds: Sequence[str] = SHOWN,
    square: int = 3,
) -> None:
    """Errors, and bounds clipped at 1, where vacuous ones are crossed; what no row has is left out."""
    for name, label, colour, mark in errors:
        if own[name].is_not_null().any():
            axes.plot(own[x], own[name], mark, color=colour, label=label, markersize=square if mark == "s" else 4)
    for name in (name for name in bounds if name in own.columns):
        if own[name].is_not_null().any() or _refuted(name, own):
            dashes, clipped = "-." if name in GIBBS_BOUNDS else "--", own[name].clip(upper_bound=1.0)
            axes.plot(own[x], clipped, dashes, color=COLOURS[name], linewidth=1, label=told(name, own))
            vacuous = own.filter(pl.col(name) >= 1.0)[x]
            axes.plot(vacuous, [1.0] * len(vacuous), "x", color=COLOURS[name])


def told(name: str, own: pl.DataFrame) -> str:
    """A bound of a chain in a legend: starred, and whether some run refuted its estimate and so has none."""
    refuted = " (gap: estimate refuted)" if _refuted(name, own) else ""
    return NAMES[name] if name in ACCOUNTED else f"{NAMES[name]}*{refuted}"


def _refuted(name: str, own: pl.DataFrame) -> bool:
    estimated = own.filter(pl.col("gibbs_train_error").is_not_null()) if name in GIBBS_BOUNDS else None
    return estimated is not None and estimated[name].null_count() > 0


def below(places: Sequence[Axes]) -> None:
    """One legend below all panels, with every line that any of them has."""
    found = {label: line for axes in places for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    if found:
        figure = places[0].get_figure(root=True)
        assert figure is not None
        figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=5, title=LEGEND)
