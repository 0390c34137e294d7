"""One run: errors and bounds over training, and its certificates against the test error."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from pacdp.cli.figures import names
from pacdp.cli.figures.names import ACCOUNTED, label, plain
from pacdp.cli.figures.style import OPTIMISTIC, colour, error_axis, figure, save, wrapped
from pacdp.cli.folder import Folder, read_json
from pacdp.cli.reading import Reading
from pacdp.cli.serial import Values

_ERRORS = {
    "train_error": ("-", "black", "train, weights"),
    "test_error": ("o", "black", "test, weights"),
    "gibbs_train_error": ("-", "tab:blue", "train, Gibbs"),
    "gibbs_test_error": ("s", "tab:blue", "test, Gibbs"),
}


def plot(path: Path) -> list[Path]:
    """Draw the training of the run in a folder and, where they exist, its certificates, into that folder."""
    folder = Folder(path)
    rows = folder.rows()
    if not rows:
        raise ValueError(f"{path} holds no recorded rows yet: train longer, then plot")
    certified = folder.certificates.is_file()
    drawn, grid = figure(1, 1 + certified, width=6.0, height=4.0)
    draw_training(grid[0][0], rows)
    if certified:
        draw_certificates(grid[0][1], read_json(folder.certificates))
    return save(drawn, path / "figure")


def draw_training(axes: Axes, rows: list[Values]) -> None:
    """Errors of the weights and of the Gibbs classifier, and every bound, against epochs; of a compression, records."""
    if "kept" in rows[-1]:
        return _draw_compression(axes, rows)
    epochs = [row["epochs"] for row in rows]
    for column, (look, hue, name) in _ERRORS.items():
        if column in rows[-1]:
            axes.plot(epochs, [row[column] for row in rows], look, color=hue, label=name)
    draw_bounds(axes, epochs, [row.get("bounds", {}) for row in rows])
    error_axis(axes)
    axes.set_xlabel("epochs")
    assumed = {name for row in rows for name in row.get("bounds", {})} - set(ACCOUNTED)
    axes.set_title("training; bounds " + OPTIMISTIC if assumed else "training")
    # inside the axes it would hide what is vacuous
    axes.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.13))


def _draw_compression(axes: Axes, rows: list[Values]) -> None:
    """Records picked, records in error beside them, and both together, against rounds."""
    kept = {"picked": "picked", "errors": "in error, not picked", "kept": "kept: both"}
    for name, said in kept.items():
        axes.plot([row["step"] for row in rows], [row[name] for row in rows], label=said)
    axes.set_yscale("symlog", linthresh=10.0)
    axes.set(xlabel="rounds", ylabel="records", title="compression")
    axes.legend(loc="upper right")


def draw_bounds(axes: Axes, positions: list[float], found: list[dict[str, float]]) -> None:
    """Bounds as dashed lines; a vacuous one lies at 1 and is marked with a cross.

    Where a run refutes its own estimate of the divergence it has no bound, and the line a gap, which the legend tells.
    """
    for name in dict.fromkeys(name for bounds in found for name in bounds):
        values = [bounds.get(name, math.nan) for bounds in found]
        gap = " (gap: estimate refuted)" if any(map(math.isnan, values)) else ""
        axes.plot(
            positions, values, "--", color=colour(name), linewidth=1.0, label=label(name) + gap
        )
        vacuous = [where for where, value in zip(positions, values, strict=True) if value >= 1.0]
        axes.plot(vacuous, [1.0] * len(vacuous), "x", color=colour(name), markersize=5)


def draw_certificates(axes: Axes, report: Mapping[str, Any]) -> None:
    """Each certificate as a bar, with the test error of the predictor that it speaks of, and the marks of its needs."""
    found = Reading(report)
    labels = []
    # what says nothing does not decide the scale
    top = max((made.value for made in found.certificates if not made.vacuous), default=1.0)
    for height, made in enumerate(found.certificates):
        optimistic = made.status == "optimistic"
        axes.barh(height, made.value, color=colour(made.name), alpha=0.45 if optimistic else 0.9,
                  hatch="//" if optimistic else None, edgecolor="white")  # fmt: skip
        test = found.error(made)
        below = test is not None and made.value < test
        if test is not None:
            axes.plot([test], [height], "|", color="black", markersize=14, markeredgewidth=2)
        said = names.up(made.value) + " vacuous" * made.vacuous + ", below test error" * below
        axes.text(
            min(made.value, top) + 0.01 * top,
            height,
            said,
            va="center",
            color="tab:red" if below else "black",
        )
        named = wrapped(f"{label(made.name)} [{found.cited(made)}]", found.about(made))
        labels.append(named + " *" * optimistic)
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.set_xlim(0.0, 1.2 * top)
    kinds = dict.fromkeys(plain(made.measures[:60]) for made in found.certificates)
    assumed = any(made.status == "optimistic" for made in found.certificates)
    starred = "\n* optimistic: rests on a hypothesis that is not proved" if assumed else ""
    axes.set_xlabel(f"{', '.join(kinds) or 'risk'} (bar: certificate, tick: test error){starred}")
    axes.set_title(
        f"certificates, each failing with\nprobability at most {report['failure_prob']:g} by itself"
    )
    figure = axes.get_figure(root=True)
    assert figure is not None
    lines = len(labels) * max((one.count("\n") + 1 for one in labels), default=0)
    figure.set_figheight(max(figure.get_figheight(), 1.4 + 0.17 * lines))


def caption(path: Path) -> list[str]:
    """What stands beside the figure of a folder's certificates: the first sentence, and what the marks in it mean."""
    file = Folder(path).certificates
    if not file.is_file():
        return []
    found = Reading(read_json(file))
    return [found.headline, *map(str, found.notes)]
