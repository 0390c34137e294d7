"""Certificates against temperature, rigorous and optimistic, beside the test error."""

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.figures.panels import legend
from pacdp.cli.figures import style

_CURVES = {
    "weights": ("realised_sum_maurer", "weights, by the trajectory", "tab:blue", "-"),
    "randomised": ("randomised_realised_sum_maurer", "Gaussian weights, by the trajectory", "tab:cyan", "-"),
    "Gibbs": ("dp_pac_bayes", "Gibbs classifier, if converged (optimistic)", "tab:orange", "--"),
    "2018": ("dp_pac_bayes_2018", "the same, 2018 form (optimistic)", "tab:red", "--"),
}


def draw(table: pl.DataFrame) -> Figure:
    """A curve a certificate of Entropy-SGLD, test errors of its weights below; a panel a data set and learner."""
    chains = table.filter(pl.col("sampler") == "Entropy-SGLD").sort("tau")
    found = chains.select("dataset", "learner").unique(maintain_order=True).rows() or [("", "")]
    drawn, (line,) = style.figure(1, len(found), width=6.0, height=4.2)
    for axes, (dataset, learner) in zip(line, found, strict=True):
        _panel(axes, chains.filter(dataset=dataset, learner=learner))
        if dataset:
            steps = ", ".join(map(str, chains.filter(dataset=dataset, learner=learner)["steps"].unique().sort()))
            axes.set_title(f"Entropy-SGLD, {learner}, {dataset}, {steps} outer steps", fontsize=9)
    return drawn


def _panel(axes: Axes, chains: pl.DataFrame) -> None:
    for name, label, colour, line in _CURVES.values():
        found = chains.filter(pl.col("certificate") == name)
        axes.plot(found["tau"], found["value"], line, marker="o", markersize=4, color=colour, label=label)
    tested = chains.filter((pl.col("certificate") == "realised_sum_maurer") & pl.col("test_error").is_not_null())
    axes.plot(tested["tau"], tested["test_error"], ":", color="black", label="weights, test error")
    if chains.height:
        axes.set_xscale("log")
        axes.set_yscale("log")
    axes.set_xlabel("inverse temperature τ")
    axes.set_ylabel("0-1 risk, certified or measured")
    legend(axes, fontsize=7)
