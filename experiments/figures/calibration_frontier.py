"""Accuracy against calibration at one epsilon, a point a setting; and ECE by clip norm with what else may change it."""

from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pacdp.cli.figures import style

COLOURS = {
    **{"DP-SGD": "#1f77b4", "DP-SGLD": "#2ca02c", "DP-BBP": "#ff7f0e", "DP-MC-Dropout": "#9467bd"},
    **{"DP-BBP, KL/n clipped": "#d62728", "DP-BBP, KL/batches clipped": "#8c564b"},
}
MARKERS = {0.1: "v", 0.3: "<", 1.0: "o", 3.0: ">", 10.0: "^"}
CLOSE = 0.06
"""Settings are drawn whose accuracy lies within this of the best private one."""
_CELL = ("method", "slot", "averaged", "clip_norm", "reach", "decay", "pre_noise", "steps")


def frontier(table: pl.DataFrame) -> Figure:
    """A panel a bench: mean accuracy against mean ECE of private settings, hollow where predictions are averaged."""
    benches = table["bench"].unique(maintain_order=True).to_list() if len(table) else []
    drawn, (line,) = style.figure(1, max(1, len(benches)), width=3.8, height=3.8)
    for axes, bench in zip(line, benches, strict=False):
        cells = table.filter(bench=bench).group_by(_CELL, maintain_order=True).agg(pl.mean("accuracy", "ece"))
        private, plain = cells.filter(pl.col("method") != "SGD"), cells.filter(method="SGD", averaged=False)
        least = float(str(private["accuracy"].max() or 0.0)) - CLOSE
        for cell in private.filter(pl.col("accuracy") >= least).iter_rows(named=True):
            _dot(axes, cell)
        axes.set_xscale("log")
        beside = plain.sort("accuracy").tail(1).to_dicts()
        told = "".join(f"\nSGD: accuracy {one['accuracy']:.3f}, ECE {one['ece']:.4f}" for one in beside)
        axes.set(xlabel="ECE (15 bins, log scale)", ylabel="accuracy", title=f"{bench}{told}")
        axes.margins(0.06)
    if benches:
        line[0].legend(handles=_handles(table), fontsize=6, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3,
                       frameon=False)  # fmt: skip
    return drawn


def _dot(axes: Axes, cell: dict[str, Any]) -> None:
    colour = COLOURS[cell["method"]]
    face = "none" if cell["averaged"] else colour
    axes.plot(
        [cell["ece"]],
        [cell["accuracy"]],
        MARKERS.get(cell["clip_norm"], "s"),
        color=colour,
        markerfacecolor=face,
        markersize=5,
        alpha=0.8,
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
    return [*found, Line2D([], [], marker="o", linestyle="", color="0.5", markerfacecolor="none", label="averaged")]


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
        axes.legend(fontsize=6, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False)
    return drawn
