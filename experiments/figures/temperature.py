"""Stationary errors against temperature and against epsilon, with the best bounds above them."""

from collections.abc import Sequence
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.figures.panels import BELOW, legend
from experiments.papers import temperature_verdict as verdict
from pacdp.cli.figures import style

_STARTS = {"base": "from the base measure", "sgd": "from SGD's weights"}
_SHOWN = {
    "data-free PAC-Bayes": ("SGLD, Gibbs law, base measure as prior*", "tab:green"),
    "dp_kl_chernoff": ("SGLD, one draw, by epsilon*", "tab:orange"),
    "dp_chernoff_2018": ("SGLD, one draw, 2018 form*", "tab:red"),
}


def draw(table: pl.DataFrame) -> Figure:
    """Errors by temperature and network; errors and bounds by epsilon; what else moves the error."""
    drawn, ((left, middle, right),) = style.figure(1, 3, width=5.0, height=4.8)
    _by_temperature(left, table)
    _by_epsilon(middle, table)
    _what_moves(right, table)
    return drawn


def _log(axes: Axes) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")


def _by_temperature(axes: Axes, table: pl.DataFrame) -> None:
    _log(axes)
    for algorithm, colour in (("SGLD", "tab:blue"), ("Entropy-SGLD", "tab:purple")):
        for (start, label), mark in zip(_STARTS.items(), ("--o", "-s"), strict=True):
            found = verdict.laws(table, **verdict.MAIN, algorithm=algorithm, start=start)
            _line(axes, found, mark, colour, f"{algorithm}, FC100, {label}")
    for where, colour in zip(
        verdict.NETWORKS[1:], ("tab:green", "tab:brown", "tab:olive", "tab:cyan", "tab:gray"), strict=True
    ):
        found = verdict.laws(table, **where, algorithm="Entropy-SGLD")
        _line(axes, found, ":^", colour, f"Entropy-SGLD, {verdict.called(where)}")
    axes.axhline(verdict.PRINTED, color="0.6", linewidth=0.8)
    axes.axvline(1.0, color="0.6", linewidth=0.8)
    axes.plot([1.0], [verdict.PRINTED], "*", color="red", markersize=12, label="printed")
    axes.set_xlabel("inverse temperature τ over √n")
    axes.set_ylabel("stationary training error")
    legend(axes, fontsize=6, ncols=2, **BELOW)


def _line(axes: Axes, found: Sequence[verdict.Law], mark: str, colour: str, label: str) -> None:
    """Laws; where starts do not meet there is none, and a bar reaches from one start's error to the other's."""
    met = [law for law in found if law.met]
    if met:
        x, y = [law.times for law in met], [law.error for law in met]
        axes.plot(x, y, mark, color=colour, markersize=4, linewidth=1, label=label)
    for law in found:
        if not law.met:
            ends = [row["mean_error"] for row in law.rows]
            named = label if law is found[0] else None
            axes.plot([law.times] * 2, [min(ends), max(ends)], ":_", color=colour, linewidth=1, label=named)


def _by_epsilon(axes: Axes, table: pl.DataFrame) -> None:
    _log(axes)
    made = verdict.certified(table)
    sgld = [one for one in made if one["algorithm"] == "SGLD"]
    entropy = [one for one in made if one["algorithm"] == "Entropy-SGLD"]
    for name, (label, colour) in _SHOWN.items():
        _bound(axes, sgld, name, colour, label)
    _bound(axes, entropy, "dp_pac_bayes", "tab:purple", "Entropy-SGLD, Gibbs classifier*")
    _bound(axes, entropy, "dp_pac_bayes_2018", "tab:pink", "Entropy-SGLD, Gibbs classifier, 2018 form*")
    if sgld:
        epsilon, laws = [one["law"].epsilon for one in sgld], [one["law"] for one in sgld]
        best = [min(one["bounds"].values()) for one in sgld]
        axes.plot(epsilon, best, color="black", linewidth=2, label="best bound, SGLD*")
        errors, tests = [law.error for law in laws], [law.test_error for law in laws]
        axes.plot(epsilon, errors, "-o", color="tab:blue", markersize=3, label="SGLD, stationary error")
        axes.plot(epsilon, tests, ":", color="tab:blue", label="SGLD, test error")
    axes.axvline(0.0327, color="0.6", linewidth=0.8)
    axes.set_xlabel("epsilon of the target (the paper's: 0.0327)")
    axes.set_ylabel("error, or bound on it")
    legend(axes, fontsize=6, ncols=2, title="*optimistic: takes the law for reached", **BELOW)


def _bound(axes: Axes, made: Sequence[dict[str, Any]], name: str, colour: str, label: str) -> None:
    own = [one for one in made if name in one["bounds"]]
    if own:
        y = [min(1.0, one["bounds"][name]) for one in own]
        axes.plot([one["law"].epsilon for one in own], y, "--.", color=colour, linewidth=1, markersize=4, label=label)


def _what_moves(axes: Axes, table: pl.DataFrame) -> None:
    """A line a variant, at the temperatures that all have."""
    _log(axes)
    for std, colour in ((0.1, "tab:red"), (0.3, "tab:orange"), (3.0, "tab:green")):
        found = verdict.laws(table, about="base", algorithm="SGLD", base_std=std)
        _line(axes, found, "-o", colour, f"SGLD, base measure {std:g}")
    for step, colour in ((0.0125, "0.7"), (0.05, "0.5"), (0.2, "0.3"), (0.8, "0.0")):
        found = verdict.laws(table, about="steps", algorithm="SGLD", step_size=step)
        _line(axes, found, "-s", colour, f"SGLD, steps {step:g}")
    found = verdict.laws(table, about="momentum", algorithm="SGLD")
    _line(axes, found, "--^", "tab:blue", "SGLD, momentum 0.9")
    for label, inner, outer, colour in (
        ("inner", 0.9, 0.0, "tab:purple"), ("outer", 0.0, 0.9, "tab:pink"), ("both", 0.9, 0.9, "tab:brown"),
    ):  # fmt: skip
        where = {"about": "momentum", "algorithm": "Entropy-SGLD", "momentum": inner, "outer_momentum": outer}
        _line(axes, verdict.laws(table, **where), "--v", colour, f"Entropy-SGLD, momentum 0.9, {label}")
    axes.axhline(verdict.PRINTED, color="0.6", linewidth=0.8)
    axes.set_xlabel("inverse temperature τ over √n")
    axes.set_ylabel("stationary training error")
    legend(axes, fontsize=6, ncols=2, title="bars: starts that do not meet", title_fontsize=6, **BELOW)


def printed(table: pl.DataFrame) -> Figure:
    """Errors along the printed path of Langevin time: lines of one run each, dots the Gibbs classifier's test error."""
    drawn, ((axes,),) = style.figure(1, 1, width=6.0, height=4.0)
    kinds = ["algorithm", "network", "norm", "times"]
    for k, (_, runs) in enumerate(table.group_by(kinds, maintain_order=True)):
        own = runs.filter(pl.col("run") == runs["run"][0]).sort("langevin_time")
        norm = {"none": "", "batch": " with BatchNorm*", "group": " with GroupNorm"}[own["norm"][0]]
        label = f"{own['algorithm'][0]}, {own['network'][0]}{norm}, steps x {own['times'][0]:g}"
        axes.plot(own["langevin_time"], own["test_error"], "-", color=f"C{k}", linewidth=1, label=label)
        gibbs = own.filter(pl.col("gibbs_test_error").is_not_null())
        axes.plot(gibbs["langevin_time"], gibbs["gibbs_test_error"], "o", color=f"C{k}", markersize=4)
    axes.axhline(verdict.PRINTED, color="0.6", linewidth=0.8)
    axes.set_xlabel("Langevin time, sum of base steps")
    axes.set_ylabel("test error: line mean network, dots Gibbs classifier")
    legend(axes, fontsize=6)
    return drawn
