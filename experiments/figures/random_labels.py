"""The six panels of the Entropy-SGLD paper's Figure 1: SGLD, Entropy-SGD, Entropy-SGLD on true and random labels."""

import matplotlib as mpl
import polars as pl
from matplotlib.axes import Axes

from experiments.figures.style import COLOURS, GIBBS_BOUNDS, NAMES, error_axis

PANELS = (("SGLD", ("SGD", "SGLD")), ("Entropy-SGD", ("Entropy-SGD",)), ("Entropy-SGLD", ("Entropy-SGLD",)))
SHOWN_BOUNDS = ("dp_pac_bayes_2018", "dp_pac_bayes", "dp_hoeffding_2018", "dp_chernoff_2018", "dp_kl_chernoff")


def draw(grid: list[list[Axes]], table: pl.DataFrame) -> None:
    """Fill a 3 x 2 grid: a row an algorithm, true labels left, random labels right. One row of ``table`` a record."""
    noises = sorted(table["thermal_noise"].unique().to_list())
    shades = mpl.colormaps["viridis"]
    colour = {noise: shades(0.9 * k / max(1, len(noises) - 1)) for k, noise in enumerate(noises)}
    for line, (title, algorithms) in zip(grid, PANELS, strict=True):
        for axes, labels in zip(line, ("true", "random"), strict=True):
            part = table.filter(pl.col("algorithm").is_in(algorithms), pl.col("labels") == labels)
            if title == "Entropy-SGLD":
                _draw_private(axes, part)
            else:
                _draw_noises(axes, part, colour)
            error_axis(axes)
            highest = max((part[name].max() or 0.0 for name in SHOWN_BOUNDS), default=0.0)
            private = title == "Entropy-SGLD"
            axes.set_ylim(0.0, 1.04 if private and float(str(highest)) > 0.6 else 0.66)
            axes.set_ylabel("0-1 error or bound on it" if private else "0-1 error")
            axes.set_title(f"{title}, {labels} labels")
            axes.set_xlabel("epochs / L")


def _draw_noises(axes: Axes, part: pl.DataFrame, colour: dict[float, tuple[float, float, float, float]]) -> None:
    """Training error of the weights at each thermal noise; large markers on the right are test errors."""
    for (noise,), run in part.sort("thermal_noise", "epochs_over_l").group_by(["thermal_noise"], maintain_order=True):
        label = "SGD" if noise == 0 else f"noise {noise:.3g}"
        axes.plot(run["epochs_over_l"], run["train_error"], color=colour[float(str(noise))], label=label)
        axes.plot(run["epochs_over_l"][-1:], run["test_error"][-1:], "o", color=colour[float(str(noise))], markersize=7)
    if part.height:
        axes.legend(title="train; marker: test")


def told(name: str, part: pl.DataFrame) -> str:
    """A bound of a chain in a legend: starred, and whether some run refuted its estimate and so has none."""
    refuted = name in GIBBS_BOUNDS and part.filter(pl.col("gibbs_train_error").is_not_null())[name].null_count() > 0
    return NAMES[name] + "*" + (" (gap: estimate refuted)" if refuted else "")


def _draw_private(axes: Axes, part: pl.DataFrame) -> None:
    """Errors of the mean and Gibbs classifier and all bounds, vacuous ones clipped at 1 and crossed."""
    run = part.sort("epochs_over_l")
    x = run["epochs_over_l"]
    axes.plot(x, run["train_error"], color="black", label="train, mean")
    axes.plot(x, run["test_error"], "o", color="black", markersize=4, label="test, mean")
    axes.plot(x, run["gibbs_train_error"], color="tab:blue", label="train, Gibbs")
    axes.plot(x, run["gibbs_test_error"], "s", color="tab:blue", markersize=3, label="test, Gibbs")
    for name in SHOWN_BOUNDS:
        values = run[name].clip(upper_bound=1.0)
        style = "-." if name in GIBBS_BOUNDS else "--"
        axes.plot(x, values, style, color=COLOURS[name], linewidth=1, label=told(name, run))
        vacuous = run.filter(pl.col(name) >= 1.0)["epochs_over_l"]
        axes.plot(vacuous, [1.0] * len(vacuous), "x", color=COLOURS[name])
    axes.legend(ncols=2, title="bounds*: optimistic, assume that SGLD has converged")
