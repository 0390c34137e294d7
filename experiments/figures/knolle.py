"""Scores by procedure beside printed ones, calibration curves of several procedures, the cells of an ablation."""

from collections.abc import Mapping, Sequence

import polars as pl
from matplotlib.axes import Axes

COLOURS = {
    "SGD": "tab:blue", "DP-SGD": "tab:orange", "DP-SGLD": "tab:green", "DP-SGLD, averaged": "#98df8a",
    "DP-SGD by patient": "tab:brown",
}  # fmt: skip
_SCORES = {"accuracy": "accuracy", "macro_auc": "AUC (one against the rest)", "ece": "ECE (l1, 15 bins)"}
_CELLS = ((False, False, "neither"), (False, True, "decay"), (True, False, "pre-noise"), (True, True, "both"))
_MEASURES = {"ece": "ECE (l1, 15 bins)", "nll_nats": "NLL (nats)", "accuracy": "accuracy"}


def draw_scores(line: Sequence[Axes], table: pl.DataFrame, printed: Mapping[str, Sequence[float]]) -> None:
    """A panel a score; a dot a seed, a bar at the mean, a cross at the paper's number."""
    names = [name for name in COLOURS if name in table["procedure"].to_list()]
    for k, (axes, (column, label)) in enumerate(zip(line, _SCORES.items(), strict=True)):
        for x, name in enumerate(names):
            values = table.filter(pl.col("procedure") == name)[column].drop_nulls().to_list()
            axes.plot([x] * len(values), values, "o", color=COLOURS[name], markersize=4, alpha=0.7)
            if values:
                axes.hlines(sum(values) / len(values), x - 0.25, x + 0.25, color=COLOURS[name], linewidth=2)
            if name in printed:
                axes.plot([x + 0.15], [printed[name][k]], "x", color="black", label="paper" if x == 0 else None)
        axes.set_xticks(range(len(names)), [name.replace(", ", ",\n").replace(" by", "\nby") for name in names])
        axes.tick_params("x", labelsize=6)
        axes.set_ylabel(label)
        axes.set_title("; ".join(f"{one}{_standing(table, one)}" for one in table["data"].unique().sort()))
    line[-1].set_ylim(bottom=0.0)
    if line[0].get_legend_handles_labels()[0]:
        line[0].legend(title="dot: a seed, bar: mean")


def draw_curves(line: Sequence[Axes], table: pl.DataFrame, curves: pl.DataFrame) -> None:
    """A and B: accuracy against confidence, all seeds together; C: how often each confidence occurs on the X-rays.

    Whiskers span the seeds. A hollow point holds less than 1% of the examples.
    """
    for axes, letter, data in zip(line, "AB", ("MNIST", "X-rays"), strict=False):
        axes.plot([0.0, 1.0], [0.0, 1.0], "--", color="0.6", linewidth=0.8)
        for name in _drawn(curves, data):
            part = curves.filter(pl.col("data") == data, pl.col("procedure") == name, pl.col("count") > 0)
            _draw_curve(axes, part, table.filter(pl.col("data") == data, pl.col("procedure") == name), name)
        axes.set_xlim(0.0, 1.02)
        axes.set_ylim(0.0, 1.02)
        axes.set_xlabel("confidence")
        axes.set_ylabel("accuracy")
        axes.set_title(f"{letter}: {data}{_standing(table, data)}")
        if axes.get_legend_handles_labels()[0]:
            axes.legend(title="whiskers: range of the seeds;\nhollow: under 1% of the examples", loc="upper center",
                        bbox_to_anchor=(0.5, -0.16), ncols=2)  # fmt: skip
    _draw_histogram(line[2], curves)
    line[2].set_title(f"C: X-rays{_standing(table, 'X-rays')}")


def draw_cells(line: Sequence[Axes], table: pl.DataFrame, name: str) -> None:
    """Mean and standard error over seeds of the four cells, last weights beside averaged predictions."""
    procedures = [one for one in ("DP-SGLD", "DP-SGLD, averaged") if one in table["procedure"].to_list()]
    for axes, (column, label) in zip(line, _MEASURES.items(), strict=True):
        for shift, procedure in zip((-0.1, 0.1), procedures, strict=False):
            part = table.filter(pl.col("procedure") == procedure)
            for x, (pre_noise, decay, _) in enumerate(_CELLS):
                values = part.filter(pl.col("pre_noise") == pre_noise, pl.col("decay") == decay)[column].drop_nulls()
                if values.is_empty():
                    continue
                error = float(str(values.std() or 0.0)) / len(values) ** 0.5
                axes.errorbar([x + shift], [float(str(values.mean()))], yerr=[error], fmt="o", capsize=2, markersize=4,
                              color=COLOURS[procedure], label=_legend(procedure) if x == 0 else None)  # fmt: skip
        axes.set_xticks(range(len(_CELLS)), [cell for *_, cell in _CELLS])
        axes.set_ylabel(label)
        axes.set_title(f"{name}{_standing(table, name)}")
        axes.margins(x=0.15)
    if line[0].get_legend_handles_labels()[0]:
        line[0].legend(title="mean, standard error over seeds", loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2,
                       frameon=False)  # fmt: skip


def _draw_curve(axes: Axes, part: pl.DataFrame, seeds: pl.DataFrame, name: str) -> None:
    ece = seeds.unique("seed")["ece"].mean()
    axes.plot(part["confidence"], part["accuracy"], color=COLOURS[name], linewidth=1,
              label=f"{name}, ECE {float(str(ece)):.4f}")  # fmt: skip
    for row in part.iter_rows(named=True):
        own = seeds.filter(pl.col("left") == row["left"], pl.col("count") > 0)["accuracy"]
        axes.vlines(row["confidence"], float(str(own.min())), float(str(own.max())), color=COLOURS[name], linewidth=0.8)
        axes.plot([row["confidence"]], [row["accuracy"]], "o", color=COLOURS[name], markersize=4,
                  markerfacecolor="white" if row["share"] < 0.01 else None)  # fmt: skip


def _draw_histogram(axes: Axes, curves: pl.DataFrame) -> None:
    for name in _drawn(curves, "X-rays"):
        part = curves.filter(pl.col("data") == "X-rays", pl.col("procedure") == name)
        bins = part.sort("left")
        edges = [*bins["left"], bins["right"][-1]]
        axes.stairs(bins["share"].to_list(), edges, color=COLOURS[name], linewidth=1.4, label=name)
    axes.set_xlabel("confidence")
    axes.set_ylabel("share of test examples")
    axes.set_xlim(0.0, 1.0)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left")


def _drawn(curves: pl.DataFrame, data: str) -> list[str]:
    there = curves.filter(pl.col("data") == data)["procedure"].to_list()
    return [name for name in ("SGD", "DP-SGD", "DP-SGLD", "DP-SGLD, averaged") if name in there]


def _standing(table: pl.DataFrame, data: str) -> str:
    return " (digits instead)" if "digits" in table.filter(pl.col("data") == data)["stands_for"].to_list() else ""


def _legend(procedure: str) -> str:
    return "averaged predictions" if procedure.endswith("averaged") else "last weights"
