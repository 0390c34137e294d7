"""Training and testing accuracy by strategy, a panel a problem, and accuracy along the walk of the noise."""

import math
import statistics
from typing import Any

import polars as pl

from experiments.tables import ordered, part
from pacdp.cli.figures import style

_WALK = "noise alone"


def draw(table: pl.DataFrame) -> Any:
    """Means over seeds, with two standard deviations of the runs for test; hollow for training, filled for test; the
    mean share of the most frequent class dotted, with two standard deviations."""
    walks = part(table, strategy=_WALK)
    problems = [name for name in ordered(table, "problem") if part(table, problem=name, strategy="SGD").height]
    columns = min(3, len(problems) + 1)
    drawn, grid = style.figure(math.ceil((len(problems) + 1) / columns), columns, width=4.6, height=3.4)
    panels = [axes for row in grid for axes in row]
    for axes, problem in zip(panels, problems, strict=False):
        _compared(axes, part(table, problem=problem).filter(pl.col("test_accuracy").is_not_null()), problem)
    for axes in panels[len(problems) + 1 :]:
        axes.remove()
    axes = panels[len(problems)]
    for scales in ordered(walks, "noise_scales"):
        line = part(walks, noise_scales=scales).group_by("step").agg(pl.mean("test_accuracy")).sort("step")
        axes.plot(line["step"], line["test_accuracy"], marker="o", label=f"z in {scales}")
    axes.set(xlabel="steps of the printed noise, no gradient", ylabel="testing accuracy, %", title="A trained network")
    axes.legend(fontsize=7)
    return drawn


def _compared(axes: Any, rows: pl.DataFrame, problem: str) -> None:
    named = rows.with_columns(pl.concat_str("strategy", pl.col("noise_scales").fill_null(""), separator=" "))
    found = named.group_by("strategy", maintain_order=True).agg(
        pl.mean("train_accuracy", "test_accuracy"), spread=2.0 * pl.col("test_accuracy").std().fill_null(0.0)
    )
    places = range(found.height)
    axes.errorbar(found["test_accuracy"], places, xerr=found["spread"], fmt="none", color="tab:blue", alpha=0.35,
                  linewidth=3.0, label=f"test, two standard deviations of {rows['seed'].n_unique()} runs")  # fmt: skip
    axes.plot(found["train_accuracy"], places, "o", markerfacecolor="none", color="tab:blue", label="training")
    axes.plot(found["test_accuracy"], places, "o", color="tab:blue", label="test")
    axes.hlines(places, found["test_accuracy"], found["train_accuracy"], color="0.7", linewidth=1.0, zorder=0)
    shares = (100.0 * rows.unique("seed")["majority"].drop_nulls()).to_list()
    guess, beside = statistics.fmean(shares), 2.0 * statistics.stdev(shares) if len(shares) > 1 else 0.0
    axes.axvline(guess, color="0.4", linestyle=":", label=f"most frequent class, {guess:.2f} %")
    axes.axvspan(guess - beside, guess + beside, color="0.92", zorder=-1, linewidth=0.0)
    axes.set_yticks(list(places), found["strategy"].to_list(), fontsize=6)
    axes.invert_yaxis()
    axes.set(xlabel="accuracy, %", title=problem)
    axes.legend(fontsize=6, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, frameon=False)
