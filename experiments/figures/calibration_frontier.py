"""Accuracy against calibration at one epsilon, a point a setting; and ECE by clip norm with what else may change it."""

from collections.abc import Mapping
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments.figures.panels import plain_log
from pacdp.cli.figures import style

COLOURS = {
    **{"DP-SGD": "#1f77b4", "DP-SGLD": "#2ca02c", "DP-BBP": "#ff7f0e", "DP-MC-Dropout": "#9467bd"},
    **{"DP-BBP, KL/n clipped": "#d62728", "DP-BBP, KL/batches clipped": "#8c564b"},
}
MARKERS = {0.1: "v", 0.3: "<", 1.0: "o", 3.0: ">", 10.0: "^"}
CLOSE = 0.06
"""Settings whose accuracy lies within this of the best private one have a place of their own; others lie on a line."""
_CELL = ("method", "slot", "averaged", "clip_norm", "reach", "decay", "pre_noise", "steps")


def frontier(table: pl.DataFrame, chosen: Mapping[str, Mapping[str, Any]]) -> Figure:
    """A panel a bench: mean accuracy against mean ECE of all settings, hollow where predictions are averaged.

    Args:
        table: one row a run and kind of prediction.
        chosen: SGD's settings that DP-SGD is compared with, by bench.
    """
    benches = table["bench"].unique(maintain_order=True).to_list() if len(table) else []
    drawn, (line,) = style.figure(1, max(1, len(benches)), width=3.8, height=3.8)
    for axes, bench in zip(line, benches, strict=False):
        cells = table.filter(bench=bench).group_by(_CELL, maintain_order=True).agg(pl.mean("accuracy", "ece"))
        private, plain = cells.filter(pl.col("method") != "SGD"), cells.filter(method="SGD", averaged=False)
        least = float(str(private["accuracy"].max() or 0.0)) - CLOSE
        low = private.filter(pl.col("accuracy") < least)
        for cell in private.filter(pl.col("accuracy") >= least).iter_rows(named=True):
            _dot(axes, cell)
        for cell in low.iter_rows(named=True):
            _dot(axes, cell, at=least)
        for cell in plain.iter_rows(named=True):
            own = all(cell[name] == value for name, value in chosen.get(bench, {}).items())
            face = "black" if own else "none"
            axes.plot([cell["ece"]], [cell["accuracy"]], "*", color="black", markerfacecolor=face, markersize=9)
        axes.set_xscale("log")
        plain_log(axes.xaxis)
        axes.tick_params("x", labelsize=7)
        told = f"\n{low.height} of {private.height} below accuracy {least:.3f}, on its line" if low.height else ""
        if low.height:
            axes.axhline(least, color="0.7", linewidth=0.8, zorder=1)
        axes.set(xlabel="ECE (15 bins, log scale)", ylabel="accuracy")
        axes.set_title(f"{bench}{told}", fontsize=9)
        axes.margins(0.06)
    if benches:
        drawn.legend(handles=_handles(table), fontsize=6, loc="outside lower center", ncols=5, frameon=False)
    return drawn


def _dot(axes: Axes, cell: dict[str, Any], *, at: float | None = None) -> None:
    """A setting; small and at a given height where its accuracy lies below that."""
    colour = COLOURS[cell["method"]]
    face = "none" if cell["averaged"] else colour
    axes.plot(
        [cell["ece"]],
        [cell["accuracy"] if at is None else at],
        MARKERS.get(cell["clip_norm"], "s"),
        color=colour,
        markerfacecolor=face,
        markersize=5 if at is None else 3.5,
        alpha=0.8 if at is None else 0.6,
        zorder=3 if cell["method"] == "DP-SGLD" else 2,
    )


def _handles(table: pl.DataFrame) -> list[Line2D]:
    there = [name for name in COLOURS if name in table["method"].to_list()]
    clips = sorted(table.filter(pl.col("method") != "SGD")["clip_norm"].unique().to_list())
    found = [Line2D([], [], marker="o", linestyle="", color=COLOURS[one], label=one) for one in there]
    found += [
        Line2D([], [], marker=MARKERS.get(clip, "s"), linestyle="", color="0.5", label=f"clip norm {clip:g}")
        for clip in clips
    ]
    found.append(Line2D([], [], marker="o", linestyle="", color="0.5", markerfacecolor="none", label="averaged"))
    for face, label in (("black", "SGD, as compared"), ("none", "SGD, other settings")):
        found.append(Line2D([], [], marker="*", linestyle="", color="black", markerfacecolor=face, label=label))
    return found


_ADDED = (
    ("DP-SGLD, falling steps", "o", {"method": "DP-SGLD", "slot": "gradient", "decay": True, "pre_noise": 0.0}),
    ("DP-SGLD, pre-noise", "x", {"method": "DP-SGLD", "slot": "gradient", "decay": False, "pre_noise": 0.5}),
    ("DP-SGLD, both", "+", {"method": "DP-SGLD", "slot": "gradient", "decay": True, "pre_noise": 0.5}),
)


def effects(table: pl.DataFrame) -> Figure:
    """A panel a bench: ECE of the last weights by clip norm, a line a reach; DP-SGLD's at its clip norms beside."""
    benches = table["bench"].unique(maintain_order=True).to_list() if len(table) else []
    drawn, (line,) = style.figure(1, max(1, len(benches)), width=3.8, height=3.8)
    for axes, bench in zip(line, benches, strict=False):
        rows = table.filter(pl.col("bench") == bench, ~pl.col("averaged"))
        steps = rows.filter(method="DP-SGD", decay=False)["steps"].mode().max()
        usual = rows.filter(method="DP-SGLD", decay=True)["reach"].max()
        rows = rows.filter(pl.col("steps") == steps)
        grid = rows.filter(method="DP-SGD", decay=False).group_by("reach", "clip_norm").agg(pl.mean("ece"))
        reaches = sorted(grid["reach"].unique().to_list())
        for k, reach in enumerate(reaches):
            own, level = grid.filter(reach=reach).sort("clip_norm"), 0.75 - 0.6 * k / max(1, len(reaches) - 1)
            axes.plot(own["clip_norm"], own["ece"], ".-", color=str(level), linewidth=1.8 if reach == usual else 0.9,
                      label=f"DP-SGD, reach {reach:g}")  # fmt: skip
        for label, marker, where in _ADDED:
            added = rows.filter(pl.col("slot") == "gradient", **{k: v for k, v in where.items() if k != "slot"})
            added = added.group_by("clip_norm").agg(pl.mean("ece")).sort("clip_norm")
            if len(added):
                axes.plot(added["clip_norm"], added["ece"], marker, color=COLOURS["DP-SGLD"], markersize=7,
                          markerfacecolor="none", label=f"{label} (reach {usual:g})")  # fmt: skip
        axes.set(xscale="log", yscale="log", xlabel="clip norm", ylabel="ECE of the last weights", title=bench)
        plain_log(axes.yaxis)
        axes.legend(fontsize=6, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False)
    return drawn
