"""Knolle et al.'s figures: scores by procedure beside printed ones, and calibration curves."""

from collections.abc import Mapping, Sequence

import polars as pl
from matplotlib.figure import Figure

from experiments.figures import panels
from experiments.tables import column, part
from pacdp.cli.figures import style

COLOURS = {
    **{"SGD": "tab:blue", "DP-SGD": "tab:orange", "DP-SGLD": "tab:green", "DP-SGLD, averaged": "#98df8a"},
    "DP-SGD by patient": "tab:brown",
}
_ECE = "ECE (l1, 15 bins)"


def scores(table: pl.DataFrame, printed: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """Accuracy, AUC and ECE of each procedure, a dot a seed, beside the printed numbers of the same data."""
    drawn, (line,) = style.figure(1, 3, width=3.6)
    data = table["data"].unique().sort().to_list()
    there = table["procedure"].to_list()
    alone = len(data) == 1 and "digits" not in table["stands_for"].to_list()
    shown = {"accuracy": "accuracy", "macro_auc": "AUC (one against the rest)", "ece": _ECE}
    for k, (axes, (name, label)) in enumerate(zip(line, shown.items(), strict=True)):
        values = {one: column(table, name, {"procedure": one}) for one in COLOURS if one in there}
        theirs = {one: numbers[k] for one, numbers in printed[data[0]].items()} if alone else {}
        panels.groups(axes, values, COLOURS, theirs)
        axes.set_ylabel(label)
        axes.set_title("; ".join(f"{one}{_standing(table, one)}" for one in data))
    line[-1].set_ylim(bottom=0.0)
    panels.legend(line[0], title="dot: a seed, bar: mean")
    return drawn


def curves(table: pl.DataFrame, pooled: pl.DataFrame) -> Figure:
    """Calibration curves of both data sets; how often each confidence occurs on the X-rays."""
    drawn, (line,) = style.figure(1, 3, width=3.8, height=4.0)
    for axes, letter, data in zip(line, "AB", ("MNIST", "X-rays"), strict=False):
        axes.plot([0.0, 1.0], [0.0, 1.0], "--", color="0.6", linewidth=0.8)
        for name, colour in COLOURS.items():
            curve, seeds = (part(of, data=data, procedure=name) for of in (pooled, table))
            if not curve.is_empty():
                label = f"{name}, ECE {seeds.unique('seed')['ece'].mean():.4f}"
                panels.calibration(axes, curve.filter(pl.col("count") > 0), seeds, colour=colour, label=label)
        axes.set(xlim=(0.0, 1.02), ylim=(0.0, 1.02), xlabel="confidence", ylabel="accuracy")
        axes.set_title(f"{letter}: {data}{_standing(table, data)}")
        told = "whiskers: range of the seeds;\nhollow: under 1% of the examples"
        panels.legend(axes, title=told, ncols=2, **panels.BELOW)
    for name, colour in COLOURS.items():
        bins = part(pooled, data="X-rays", procedure=name)
        if not bins.is_empty():
            edges = [*bins["left"], bins["right"][-1]]
            line[2].stairs(bins["share"].to_list(), edges, color=colour, linewidth=1.4, label=name)
    line[2].set(xlabel="confidence", ylabel="share of test examples", xlim=(0.0, 1.0))
    line[2].set_title(f"C: X-rays{_standing(table, 'X-rays')}")
    panels.legend(line[2], loc="upper left")
    return drawn


def _standing(table: pl.DataFrame, data: str) -> str:
    return " (digits instead)" if "digits" in part(table, data=data)["stands_for"].to_list() else ""
