"""Panels of the P3SGD studies: gaps, accuracies and epsilons by set of scales, losses, ratios, pictures."""

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.tables import ordered, part
from pacdp.cli.figures import style

COLOURS = {"first weights": "0.6", "SGD": "#d62728", "SGD+Dropout": "#ff7f0e", "SGD+DropBlock": "#8c564b",
           "P3SGD": "#1f77b4"}  # fmt: skip
_GROUPS = (
    ("features", "train", "the image", "train\nimages"),
    ("features", "test", "the image", "test\nimages"),
    ("class", "train", "class mean", "class\nmeans"),
    ("class", "train", "closest image", "closest\nimages"),
)
"""Attack, part, reference, and how a tick calls them."""
_LINE = 1.2
"""Height of a line of pictures, whose width is 1, with its numbers."""


def by_problem(table: pl.DataFrame, panel: Callable[[Axes, pl.DataFrame, str], None], *, width: float) -> Figure:
    """One panel a problem."""
    names = ordered(table, "problem")
    drawn, (line,) = style.figure(1, max(1, len(names)), width=width, height=2.8)
    for axes, name in zip(line, names, strict=False):
        panel(axes, part(table, problem=name), name)
    return drawn


def table_2(alone: pl.DataFrame, printed: Mapping[str, float], problems: Mapping[str, pl.DataFrame]) -> Figure:
    """Epsilon by both accountings and as printed; then accuracy by set, a panel a problem."""
    drawn, (line,) = style.figure(1, 1 + len(problems), width=3.2, height=2.8)
    accountings(line[0], alone, printed)
    for axes, (name, own) in zip(line[1:], problems.items(), strict=True):
        accuracies(axes, own, name)
    return drawn


def inversions(table: pl.DataFrame, strategies: Sequence[str]) -> Figure:
    """A row a problem: ratios, then a training image, a test image and a class, with what each network gave away."""
    names = ordered(table, "problem")
    drawn, grid = style.figure(max(1, len(names)), 4, width=3.0, height=2.8)
    for line, name in zip(grid, names, strict=False):
        own = part(table, problem=name)
        ratios(line[0], own, name)
        for axes, side in zip(line[1:3], ("train", "test"), strict=True):
            title = f"{side if side == 'test' else 'training'} images, from features"
            pictures(axes, part(own, attack="features", part=side), strategies, title)
        pictures(line[3], part(own, reference="class mean"), strategies, "classes, from weights")
    return drawn


def gaps(axes: Axes, table: pl.DataFrame, title: str) -> None:
    """Training and test accuracy of each run, a line between them, side by side by seed; of many their means as well,
    dashed for training."""
    names = table["strategy"].unique(maintain_order=True).to_list()
    many = table["seed"].n_unique() > _FEW
    width, dot, edge = (0.3, 0.5 * _DOT, 0.5) if many else (1.2, _DOT, 1.0)
    for row in table.iter_rows(named=True):
        at = names.index(row["strategy"]) + _aside(table, row["seed"])
        colour = COLOURS.get(row["strategy"], "black")
        axes.plot([at, at], [row["train_accuracy"], row["test_accuracy"]], color=colour, linewidth=width)
        drawn: dict[str, Any] = {"color": colour, "markersize": dot, "markeredgewidth": edge}
        axes.plot(at, row["train_accuracy"], "o", markerfacecolor="white", **drawn)
        axes.plot(at, row["test_accuracy"], "o", **drawn)
    for at, name in enumerate(names if many else ()):
        means = part(table, strategy=name).mean()
        across: dict[str, Any] = {"xmin": at - 0.4, "xmax": at + 0.4, "color": "black", "linewidth": 1.0}
        axes.hlines(means["train_accuracy"], linestyles="dashed", **across)
        axes.hlines(means["test_accuracy"], **across)
    axes.set_xticks(range(len(names)), [name.replace("+", "+\n") for name in names], fontsize=7)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_ylabel("accuracy, %: open training, full test")
    _titled(axes, table, title)


_DOT = 3.5
_FEW = 12
"""Seeds up to which runs are told apart; of more there are thin lines, and lines across at the means."""


def _aside(table: pl.DataFrame, seed: int) -> float:
    """Where the runs of a seed stand, half a step to either side at most."""
    seeds = sorted(table["seed"].unique().to_list())
    return 0.0 if len(seeds) < 2 else 0.56 * (seeds.index(seed) / (len(seeds) - 1) - 0.5)


def _titled(axes: Axes, table: pl.DataFrame, title: str) -> None:
    """The title, and what naming the most frequent class has: a line where accuracies are near it, words elsewhere, so
    that differences of a point can be seen."""
    axes.set_title(title, fontsize=9)
    if table.is_empty():
        return
    axes.margins(y=0.08)
    low, high = axes.get_ylim()
    guess = float(str(table["majority"].mean()))
    place = ""
    if guess > low - 0.25 * (high - low):
        axes.axhline(guess, color="0.6", linestyle="--", linewidth=0.8)
        place = "dashed: "
    axes.set_title(f"{title}\n{place}most frequent class, {guess:.2f} %", fontsize=8)


def accountings(axes: Axes, table: pl.DataFrame, printed: Mapping[str, float]) -> None:
    """Epsilon of each set as printed, by the paper's accounting, and by one that holds."""
    names = table["noise_scales"].to_list()
    at = np.arange(len(names))
    axes.plot(at, [printed[name] for name in names], "_", color="black", markersize=14, label="printed")
    axes.plot(at, table["published_epsilon"], "x", color="#d62728", label="paper's accounting (optimistic)")
    axes.plot(at, table["epsilon"], "o", color="#1f77b4", label="sound accounting")
    axes.set_xticks(at, names)
    axes.set_ylim(
        0.0, 1.55 * max([*printed.values(), *table["epsilon"].drop_nulls(), *table["published_epsilon"].drop_nulls()])
    )
    axes.set_xlabel("noise scales")
    axes.set_ylabel("epsilon at 1000 patients")
    axes.set_title("at the paper's settings", fontsize=9)
    axes.legend(loc="upper center", fontsize=6)


def accuracies(axes: Axes, table: pl.DataFrame, title: str) -> None:
    """Test accuracy by set in the order of the sound epsilon, a dot a run side by side by seed, a bar at the mean."""
    ordered_sets = table.group_by("noise_scales").agg(pl.mean("epsilon", "test_accuracy")).sort("epsilon")
    for at, (name, _, middle) in enumerate(ordered_sets.iter_rows()):
        runs, several = part(table, noise_scales=name), "," in str(name)
        colour = "#1f77b4" if several else "0.5"
        places = [at + _aside(table, seed) for seed in runs["seed"]]
        axes.plot(places, runs["test_accuracy"], "o" if several else "s", color=colour, markersize=_DOT, alpha=0.8)
        axes.hlines(middle, at - 0.38, at + 0.38, color="black", linewidth=1.2)
    labels = [f"{name}\n{epsilon:.1f}" for name, epsilon, _ in ordered_sets.iter_rows()]
    axes.set_xticks(range(len(labels)), labels, fontsize=7)
    axes.set_xlabel("noise scales and their epsilon (sound)")
    axes.set_ylabel("test accuracy, %; bar: mean")
    _titled(axes, table, title)


def losses(axes: Axes, table: pl.DataFrame, title: str) -> None:
    """Loss on test (lines) and training data (dashed) along each run."""
    seen: set[str] = set()
    for (name, _), run in table.sort("epochs").group_by(["strategy", "seed"], maintain_order=True):
        colour, first = COLOURS.get(str(name), "black"), name not in seen
        seen.add(str(name))
        axes.plot(run["epochs"], run["test_loss"], color=colour, label=f"{name}, test" if first else None)
        axes.plot(run["epochs"], run["train_loss"], "--", color=colour, label=f"{name}, train" if first else None)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("epochs")
    axes.set_ylabel("cross-entropy, nats")
    axes.set_title(title)
    if seen:
        axes.legend()


def ratios(axes: Axes, table: pl.DataFrame, title: str) -> None:
    """Mean ratio with its standard error, by what is attacked; ticks are what the attacker began with."""
    strategies = table["strategy"].unique(maintain_order=True).to_list()
    for k, name in enumerate(strategies):
        for at, (attack, side, reference, _) in enumerate(_GROUPS):
            rows = part(table, strategy=name, attack=attack, part=side, reference=reference)
            if not rows.height:
                continue
            values, x = rows["psnr"].to_numpy(), at + 0.2 * (k - 1)
            spread = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
            axes.errorbar(x, float(values.mean()), yerr=spread, fmt="o", color=COLOURS.get(name, "black"),
                          label=name if at == 0 else None)  # fmt: skip
            axes.plot(x, float(rows["start_psnr"].to_numpy().mean()), "_", color="black")
    axes.set_xticks(range(len(_GROUPS)), [label for *_, label in _GROUPS])
    axes.set_ylabel("mean PSNR, dB; ticks: start")
    axes.set_title(title)
    if strategies:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=len(strategies), frameon=False)


def pictures(axes: Axes, table: pl.DataFrame, strategies: Sequence[str], title: str) -> None:
    """A line of originals, then one a strategy, each picture with its ratio; of the first seed."""
    axes.set_axis_off()
    axes.set_title(title)
    shown = table.filter(pl.col("made").is_not_null())
    shown = shown.filter(pl.col("seed") == pl.col("seed").min()).sort("example")
    for column, row in enumerate(shown.unique("example", keep="first", maintain_order=True).iter_rows(named=True)):
        _picture(axes, row, "original", column, 0)
    for line, strategy in enumerate(strategies, start=1):
        for column, row in enumerate(shown.filter(pl.col("strategy") == strategy).iter_rows(named=True)):
            _picture(axes, row, "made", column, line)
            axes.text(column + 0.5, -_LINE * line - 0.96, f"{row['psnr']:.1f}", fontsize=5, ha="center", va="top")
    names = ("truth", *strategies)
    for line, name in enumerate(names):
        axes.text(-0.08, -_LINE * line - 0.45, name, fontsize=6, ha="right", va="center")
    columns = max(1, shown["example"].n_unique())
    axes.set_xlim(-1.3, columns)
    axes.set_ylim(-_LINE * len(names), 0.0)
    axes.set_aspect("equal")


def _picture(axes: Axes, row: Mapping[str, str | int | float], name: str, column: int, line: int) -> None:
    """Bytes in base64, as tables hold them, at a place of the grid."""
    pixels = np.frombuffer(base64.b64decode(str(row[name])), dtype=np.uint8)
    axes.imshow(pixels.reshape(int(row["height"]), int(row["width"])), cmap="gray", vmin=0, vmax=255, aspect="auto",
                extent=(column + 0.05, column + 0.95, -_LINE * line - 0.95, -_LINE * line - 0.05))  # fmt: skip
