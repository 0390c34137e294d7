"""Figures of private and other Bayesian networks: errors, reliability, members' predictions, bands of uncertainty.

Where nothing has finished the axes stay empty.
"""

import math
from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments.figures import panels
from pacdp.cli.figures import style

COLOURS = {"SGLD": "#1f77b4", "BBP": "#ff7f0e", "MC Dropout": "#2ca02c", "SGD": "#7f7f7f", "SGD as SGLD": "#17becf"}
PRIORS = {"normal": "Gaussian", "laplace": "Laplace", "none": "flat"}
_Cell = tuple[str, str, bool]


def accuracies(table: pl.DataFrame) -> Figure:
    """A panel a network: test accuracy of each algorithm and prior, private and not."""
    drawn, (line,) = style.figure(1, 2, width=4.6)
    if table.is_empty():
        return drawn
    for axes, network in zip(line, ("MLP", "CNN"), strict=True):
        _pairs(axes, table.filter(network=network), "accuracy")
        axes.set_title(f"{network}: test accuracy")
    return drawn


def calibration_errors(table: pl.DataFrame) -> Figure:
    """ECE and MCE, private and not."""
    drawn, (line,) = style.figure(1, 2, width=4.6)
    if table.is_empty():
        return drawn
    for axes, error in zip(line, ("ece", "mce"), strict=True):
        _pairs(axes, table, error)
        axes.set_title(f"{error.upper()}, 15 bins")
    return drawn


def reliability(table: pl.DataFrame, cells: Sequence[_Cell]) -> Figure:
    """Accuracy of each bin at its mean confidence, with its band; behind it, the share of the examples in each bin."""
    drawn, (line,) = style.figure(1, len(cells), width=3.2)
    if table.is_empty():
        return drawn
    for axes, (algorithm, prior, private) in zip(line, cells, strict=True):
        runs = table.filter(algorithm=algorithm, prior=prior, private=private)
        bins = runs.filter(pl.col("part") == "bin", pl.col("count") > 0)
        confidence, accuracy, lower, upper = (
            bins[name].to_numpy() for name in ("confidence", "accuracy", "lower", "upper")
        )
        share = bins["count"].to_numpy() / max(1, bins["count"].sum())
        axes.bar(confidence, share, width=0.05, color="0.88", zorder=0)
        axes.plot([0.0, 1.0], [0.0, 1.0], color="0.6", linewidth=0.8)
        band = np.maximum(np.stack([accuracy - lower, upper - accuracy]), 0.0)
        axes.errorbar(confidence, accuracy, yerr=band, fmt="o", markersize=3, linewidth=1, capsize=2,
                      color=COLOURS[algorithm])  # fmt: skip
        axes.set_xlim(0.0, 1.02)
        axes.set_ylim(0.0, 1.04)
        axes.set_xlabel("confidence")
        axes.set_ylabel("accuracy, band of each bin (bars: share)")
        errors = runs.filter(part="run")
        shown = f"\nECE {errors['ece'][0]:.3f}, MCE {errors['mce'][0]:.3f}" if len(errors) else "\nnot run"
        axes.set_title(f"{_name(algorithm, private)}, {PRIORS[prior]} prior{shown}")
    return drawn


def posteriors(table: pl.DataFrame, algorithms: Sequence[str]) -> Figure:
    """What the members say of one image, a box a class: above without privacy, below with."""
    drawn, grid = style.figure(2, len(algorithms), width=3.6, height=2.6)
    if table.is_empty():
        return drawn
    for line, private in zip(grid, (False, True), strict=True):
        for axes, algorithm in zip(line, algorithms, strict=True):
            rows = table.filter(algorithm=algorithm, prior="normal", private=private)
            members = rows.filter(part="member")
            axes.set_title(_name(algorithm, private))
            axes.set_ylim(-0.02, 1.02)
            if members.is_empty():
                continue
            classes = sorted(members["class"].unique().to_list())
            values = [members.filter(pl.col("class") == k)["probability"].to_numpy() for k in classes]
            label = int(rows.filter(part="run")["label"][0])
            boxes = axes.boxplot(values, positions=classes, widths=0.6, patch_artist=True, sym=".")
            for k, box in zip(classes, boxes["boxes"], strict=True):
                box.set_facecolor("#d62728" if k == label else "0.85")
            axes.set_xlabel(f"class (true: {label}, red)")
            axes.set_ylabel("probability, by member")
    return drawn


def accuracy_against_epsilon(table: pl.DataFrame) -> Figure:
    """Every judged step of Figure 1's runs: one line a run."""
    drawn, ((axes,),) = style.figure(1, 1, width=5.2, height=3.8)
    if table.is_empty():
        return drawn
    rows, marks = table.filter(pl.col("grid")), {"SGD": "s--", "SGLD": "o-"}
    for algorithm, mark in marks.items():
        face, layer = ("none", 3) if algorithm == "SGD" else (COLOURS[algorithm], 2)  # on top it hides no other line
        for number, run in enumerate(rows.filter(algorithm=algorithm).partition_by("run", maintain_order=True)):
            axes.plot(run["epsilon"], run["accuracy"], mark, color=COLOURS[algorithm], markersize=5, linewidth=1.0,
                      markerfacecolor=face, zorder=layer,
                      label=f"DP-{algorithm}, one line a run" if number == 0 else None)  # fmt: skip
    if not rows.is_empty():
        axes.set_xscale("log")
        panels.plain_log(axes.xaxis)
    axes.margins(y=0.08)
    axes.set_xlabel("epsilon (upper end), as training goes on")
    axes.set_ylabel("test accuracy of the current weights")
    axes.legend()
    return drawn


def effects(table: pl.DataFrame) -> Figure:
    """Rows: batch size, step size; left DP-SGD, right DP-SGLD; each point an epsilon and an accuracy. Both panels of a
    row have the same axes, so that the two can be compared."""
    drawn, grid = style.figure(2, 2, width=4.4)
    if table.is_empty():
        return drawn
    rows, handles = table.filter(pl.col("last")), list[Line2D]()
    for line, panel in zip(grid, ("batch", "rate"), strict=True):
        axis = {"batch": "batch_size", "rate": "step_size"}[panel]
        shown = rows.filter(pl.col(panel))
        for axes, algorithm in zip(line, ("SGD", "SGLD"), strict=True):
            own = shown.filter(algorithm=algorithm).sort(axis)
            axes.set_title(f"DP-{algorithm}, equal epochs")
            if own.is_empty():
                continue
            axes.plot(own[axis], own["accuracy"], "o-", color="black", label="accuracy (left)")
            axes.set_xscale("log")
            axes.set_xticks(own[axis].to_list(), [f"{value:g}" for value in own[axis]])
            axes.minorticks_off()
            names = {"batch": "batch size", "rate": "learning rate" if algorithm == "SGD" else "n times step size"}
            axes.set_xlabel(names[panel])
            axes.set_ylabel("accuracy")
            other = axes.twinx()
            other.plot(own[axis], own["epsilon"], "s--", color="#d62728", label="epsilon (right)")
            other.set_yscale("log")
            panels.plain_log(other.yaxis)
            other.set_ylabel("epsilon")
            axes.set_ylim(*_ends(shown["accuracy"]))
            other.set_ylim(*(math.exp(end) for end in _ends(shown["epsilon"].log())))
            handles = [*axes.lines, *other.lines]
    drawn.legend(handles=handles, loc="outside lower center", ncols=2)
    return drawn


def _ends(values: pl.Series) -> tuple[float, float]:
    """Ends of an axis with room above and below."""
    least, most = float(str(values.min())), float(str(values.max()))
    room = 0.08 * (most - least or 1.0)
    return least - room, most + room


def bands(table: pl.DataFrame, algorithms: Sequence[str]) -> Figure:
    """Mean prediction with the aleatoric and the total deviation around it, and the data."""
    drawn, grid = style.figure(2, len(algorithms), width=3.4, height=2.8)
    if table.is_empty():
        return drawn
    for line, private in zip(grid, (False, True), strict=True):
        for axes, algorithm in zip(line, algorithms, strict=True):
            rows = table.filter(algorithm=algorithm, private=private)
            band, data = rows.filter(part="band").sort("x"), rows.filter(part="data")
            x, mean = band["x"].to_numpy(), band["mean"].to_numpy()
            aleatoric = np.sqrt(band["aleatoric"].to_numpy())
            total = np.sqrt(band["aleatoric"].to_numpy() + band["epistemic"].to_numpy())
            axes.fill_between(x, mean - total, mean + total, color="#ff7f0e", alpha=0.35, linewidth=0,
                              label="with epistemic part")  # fmt: skip
            axes.fill_between(x, mean - aleatoric, mean + aleatoric, color="#1f77b4", alpha=0.45, linewidth=0,
                              label="aleatoric, one deviation")  # fmt: skip
            axes.plot(data["x"], data["y"], "x", color="0.3", markersize=2, linewidth=0.5)
            axes.plot(x, mean, color="black", linewidth=1.0)
            axes.set_ylim(-6.0, 6.0)
            farthest = float(np.max(np.abs(mean) + total, initial=0.0))
            if farthest > 6.0:
                axes.text(0.98, 0.02, f"the band goes on to ±{farthest:.0f}", ha="right", transform=axes.transAxes,
                          fontsize=6)  # fmt: skip
            axes.set_title(_name(algorithm, private))
    grid[0][0].legend(loc="lower left")
    return drawn


def _pairs(axes: Axes, table: pl.DataFrame, column: str) -> None:
    """Means over seeds as lines, each seed as a dot; a pair an algorithm and prior."""
    cells = table.select("algorithm", "prior").unique(maintain_order=True).rows()
    for place, (algorithm, prior) in enumerate(cells):
        for private, shift in ((True, -0.2), (False, 0.2)):
            values = table.filter(algorithm=algorithm, prior=prior, private=private)[column].drop_nulls()
            if len(values):
                middle, style_of = float(values.to_numpy().mean()), "-" if private else ":"
                ends = (place + shift - 0.17, place + shift + 0.17)
                axes.hlines(middle, *ends, color=COLOURS[algorithm], linewidth=3, linestyle=style_of)
                axes.plot([place + shift] * len(values), values, "o", color="black", markersize=2)
    names = [f"{algorithm}\n{PRIORS[prior]}".replace("MC ", "MC\n") for algorithm, prior in cells]
    axes.set_xticks(range(len(cells)), names, fontsize=6)
    axes.set_xlabel("full: with DP, dotted: without; dot: a seed")


def _name(algorithm: str, private: bool) -> str:
    return f"DP-{algorithm}" if private else algorithm
