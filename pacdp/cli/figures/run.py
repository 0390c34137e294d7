"""One run: errors and bounds over training, its certificates against the test error."""

import math
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bounds.numbers import confidence, percent
from pacdp.cli.figures.names import ACCOUNTED, label, plain
from pacdp.cli.figures.style import (
    OPTIMISTIC,
    colour,
    error_axis,
    figure,
    in_percent,
    save,
    wrapped,
)
from pacdp.cli.folder import Folder
from pacdp.cli.reading import Reading
from pacdp.cli.serial import Values
from pacdp.store.files import one_of_its_chains

_LONGEST = 300
"""Rows of a training that are drawn at most."""
_MOST_STATEMENTS = 60
_ERRORS = {
    "train_error": ("-", "black", "train, weights"),
    "test_error": ("o", "black", "test, weights"),
    "gibbs_train_error": ("-", "tab:blue", "train, Gibbs"),
    "gibbs_test_error": ("s", "tab:blue", "test, Gibbs"),
}
_KEPT = {"picked": "picked", "errors": "in error, not picked", "kept": "kept: both"}


def plot(path: Path) -> list[Path]:
    """Draw the figure of the run in a folder into that folder; another that stands there is kept as a page is."""
    folder = Folder(path)
    report = folder.certified()
    drawn = draw(folder.rows(), report)
    if drawn is None:
        hint = one_of_its_chains(path) or "train longer or certify, then plot"
        raise ValueError(f"{path} holds nothing to draw yet: {hint}")
    return save(drawn, path / "figure")


def draw(rows: list[Values], report: Mapping[str, Any]) -> Figure | None:
    """What is known of a run, a panel each: its training and its certificates; None where nothing is."""
    panels = list[Any]()
    if report.get("certificates"):
        found = Reading(report)
        rows_of_it = min(len(found.statements), _MOST_STATEMENTS)
        if found.statements:
            panels.append((draw_statements, found, max(2.0, 1.4 + 0.25 * rows_of_it)))
        else:  # room for a label of two lines beside every bar
            panels.append(
                (draw_certificates, found, max(4.2, 1.4 + 0.45 * len(found.certificates)))
            )
    if rows and ("train_error" in rows[-1] or "kept" in rows[-1]):
        panels.append((draw_training, thinned(rows, _LONGEST), 4.2))
    if not panels:
        return None
    drawn, grid = figure(len(panels), 1, width=8.0, heights=[height for *_, height in panels])
    for (axes,), (panel, values, _) in zip(grid, panels, strict=True):
        panel(axes, values)
        if panel is draw_certificates and (said := went_on(rows, report)):
            axes.set_title(f"{axes.get_title()}\n{said}")
    return drawn


def went_on(rows: list[Values], report: Mapping[str, Any]) -> str:
    """In a few words, that a run went on after it was certified; empty where it did not."""
    at = (report.get("subject") or {}).get("step")
    if not rows or not isinstance(at, int) or at >= rows[-1]["step"]:
        return ""
    return f"certified at step {at}, since when the run went on to step {rows[-1]['step']}"


def thinned(rows: list[Values], most: int) -> list[Values]:
    """At most ``most`` rows, evenly spaced, with the first and the last."""
    return [rows[int(k)] for k in np.linspace(0, len(rows) - 1, min(most, len(rows))).round()]


def draw_training(axes: Axes, rows: list[Values]) -> None:
    """Errors of the weights and of the Gibbs classifier, and every bound, against epochs; of a compression, records."""
    if "kept" in rows[-1]:
        for name, said in _KEPT.items():
            axes.plot([row["step"] for row in rows], [row[name] for row in rows], label=said)
        axes.set_yscale("symlog", linthresh=10.0)
        axes.set(xlabel="rounds", ylabel="records", title="compression")
        axes.legend(loc="upper right")
        return
    epochs = [row["epochs"] for row in rows]
    for column, (look, hue, name) in _ERRORS.items():
        if column in rows[-1]:
            axes.plot(epochs, [row[column] for row in rows], look, color=hue, label=name)
    bounds = [row.get("bounds", {}) for row in rows]
    for name in dict.fromkeys(name for found in bounds for name in found):
        # a run that refutes its own estimate of the divergence has no bound; a vacuous one lies at 1, with a cross
        values = [found.get(name, math.nan) for found in bounds]
        gap = " (gap: estimate refuted)" * any(map(math.isnan, values))
        how: Values = {"color": colour(name), "linewidth": 1.0}
        axes.plot(epochs, values, "--", label=label(name) + gap, **how)
        vacuous = [where for where, value in zip(epochs, values, strict=True) if value >= 1.0]
        axes.plot(vacuous, [1.0] * len(vacuous), "x", markersize=5, **how)
    error_axis(axes)
    assumed = {name for found in bounds for name in found} - set(ACCOUNTED)
    axes.set(xlabel="epochs", title="training" + f"; bounds {OPTIMISTIC}" * bool(assumed))
    # inside the axes it would hide what is vacuous
    axes.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.13))


_STARRED = "* optimistic: rests on a hypothesis that is not proved"


def draw_statements(axes: Axes, found: Reading) -> None:
    """Each row of a report on predictions: what was measured, as a dot, and how far the truth may lie from it."""
    rows = found.statements[:_MOST_STATEMENTS]
    several = len({row["of"] for row in rows}) > 1
    for height, row in enumerate(rows):
        ends = [row["measured"] if end is None else end for end in (row["lower"], row["upper"])]
        axes.plot(ends, [height] * 2, "|-", color="tab:blue", linewidth=2.5, markersize=9)
        axes.plot([row["measured"]], [height], "o", color="black", markersize=4)
    labels = [plain(row["quantity"][:60] + f", {row['of'][:30]}" * several) for row in rows]
    axes.set_yticks(range(len(rows)), labels)
    axes.invert_yaxis()
    axes.grid(axis="x", color="0.85")
    in_percent(axes.xaxis)
    sure = confidence(found.report["failure_prob"] if found.together is None else found.together)
    more = f"; the first {len(rows)} of {len(found.statements)}"
    said = f"all at once with {sure} confidence" + more * (len(rows) < len(found.statements))
    assumed = any(made.status == "optimistic" for made in found.certificates)
    axes.set(title=said + " *" * assumed, xlabel=_STARRED * assumed)


def draw_certificates(axes: Axes, found: Reading) -> None:
    """Each certificate as a bar, with the test error of the predictor that it speaks of, and the marks of its needs."""
    labels = []
    # what says nothing does not decide the scale
    top = max((made.value for made in found.certificates if not made.vacuous), default=1.0)
    for height, made in enumerate(found.certificates):
        optimistic, test = made.status == "optimistic", found.error(made)
        axes.barh(height, made.value, color=colour(made.name), alpha=0.45 if optimistic else 0.9,
                  hatch="//" if optimistic else None, edgecolor="white")  # fmt: skip
        below = test is not None and made.value < test
        if test is not None:
            axes.plot([test], [height], "|", color="black", markersize=14, markeredgewidth=2)
        said = f"{percent(min(made.value, 1.0))}%"
        said += " vacuous" * made.vacuous + ", below test error" * below
        axes.text(min(made.value, top), height, f" {said}", va="center")
        named = wrapped(f"{label(made.name)} [{found.cited(made)}]", found.about(made))
        labels.append(named + " *" * optimistic)
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    in_percent(axes.xaxis)
    kinds = dict.fromkeys(plain(made.measures[:60]) for made in found.certificates)
    assumed = any(made.status == "optimistic" for made in found.certificates)
    bounded = textwrap.fill(
        f"{', '.join(kinds) or 'risk'} (bar: certificate, tick: test error)", 60
    )
    axes.set(
        xlim=(0.0, 1.2 * top),
        xlabel=bounded + f"\n{_STARRED}" * assumed,
        title=f"certificates, each failing with\nprobability at most {found.paid:g} by itself",
    )


def caption(path: Path) -> list[str]:
    """What stands beside the figure of a folder's certificates: the first sentence, and what the marks in it mean."""
    folder = Folder(path)
    if not (report := folder.certified()):
        return []
    found, said = Reading(report), went_on(folder.rows(), report)
    return [found.headline, *[f"{said}: certify again"] * bool(said), *map(str, found.notes)]
