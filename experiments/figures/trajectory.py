"""Certificates against temperature, rigorous and optimistic, beside the test error."""

import polars as pl
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
    """A curve a certificate of Entropy-SGLD, test errors of its weights below."""
    drawn, ((axes,),) = style.figure(1, 1, width=6.0, height=4.0)
    chains = table.filter(pl.col("sampler") == "Entropy-SGLD").sort("tau")
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
    return drawn
