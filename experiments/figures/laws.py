"""Errors and bounds where chains stay, a line a kind of chain."""

import polars as pl
from matplotlib.figure import Figure

from experiments.figures.panels import legend
from experiments.papers import laws_verdict as verdict
from experiments.study import Row
from pacdp.cli.figures import style

_MARKS = {
    "train_error": ("o", "tab:blue", "training error"),
    "test_error": ("x", "black", "test error"),
    "gibbs_train_error": ("^", "tab:purple", "training error, Gibbs classifier"),
    "dp_chernoff_2018": ("|", "tab:red", "C-bound of the mean*"),
    "dp_pac_bayes_2018": ("|", "tab:pink", "PAC-Bayes bound of the Gibbs classifier*"),
}


def draw(table: pl.DataFrame) -> Figure:
    """Two classes and ten side by side."""
    drawn, (axes,) = style.figure(1, 2, width=6.4, height=4.4)
    for place, title, ten in ((axes[0], "two classes", False), (axes[1], "ten classes", True)):
        found = [row for row in verdict.laws(table) if row["dataset"].endswith("2") is not ten]
        for name, (mark, colour, label) in _MARKS.items():
            seen = [(row[name], y) for y, row in enumerate(found) if row[name] is not None]
            if seen:
                place.plot(
                    *zip(*seen, strict=True), mark, color=colour, markersize=9 if mark == "|" else 5, label=label
                )
        guess = 0.9 if ten else 0.5
        place.axvline(guess, color="0.6", linewidth=0.8)
        place.annotate("guessing", (guess, len(found) - 0.55), fontsize=6, color="0.4", ha="right")
        place.set_yticks(range(len(found)), [_said(row) for row in found])
        place.set_ylim(-0.6, max(len(found), 1) - 0.3)
        place.tick_params("y", labelsize=6)
        place.set_xlim(0.0, 1.0 if ten else 0.75)
        place.set_xlabel("error, or bound on it")
        place.set_title(title, fontsize=8)
    legend(axes[1], fontsize=6, loc="lower left", title="*optimistic: takes the law for reached", title_fontsize=6)
    return drawn


def _said(row: Row) -> str:
    *_, number = row["run"].split("-")
    noise = f", noise {row['thermal_noise']:.2g}" + (f", seed {number}" if number.isdigit() else "")
    return f"{row['algorithm']}, {row['network'].replace(' with ', ' ')},\n{row['labels']} labels{noise}"
