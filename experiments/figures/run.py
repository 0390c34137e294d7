"""One run: errors and bounds over training, and its certificates against the test error."""

from typing import Any

from matplotlib.axes import Axes

from experiments.figures.style import ACCOUNTED, COLOURS, GAUSSIAN_BOUNDS, GIBBS_BOUNDS, NAMES, OPTIMISTIC, error_axis


def draw_training(axes: Axes, rows: list[dict[str, Any]]) -> None:
    """Errors of the weights and of the Gibbs classifier, and every bound, against epochs."""
    epochs = [row["epochs"] for row in rows]
    axes.plot(epochs, [row["train_error"] for row in rows], color="black", label="train, weights")
    axes.plot(epochs, [row["test_error"] for row in rows], "o", color="black", label="test, weights")
    if "gibbs_train_error" in rows[-1]:
        axes.plot(epochs, [row["gibbs_train_error"] for row in rows], color="tab:blue", label="train, Gibbs")
        axes.plot(epochs, [row["gibbs_test_error"] for row in rows], "s", color="tab:blue", label="test, Gibbs")
    draw_bounds(axes, epochs, [row.get("bounds", {}) for row in rows])
    error_axis(axes)
    axes.set_xlabel("epochs")
    assumed = rows[-1].get("bounds", {}).keys() - set(ACCOUNTED)
    axes.set_title("training; bounds " + OPTIMISTIC if assumed else "training")
    axes.legend(ncols=2)


def draw_bounds(axes: Axes, positions: list[float], found: list[dict[str, float]]) -> None:
    """Bounds as dashed lines; a vacuous one lies at 1 and is marked with a cross."""
    for name in found[-1] if found else ():
        values = [bounds[name] for bounds in found]
        axes.plot(positions, values, "--", color=COLOURS[name], linewidth=1.0, label=NAMES[name])
        vacuous = [position for position, value in zip(positions, values, strict=True) if value >= 1.0]
        axes.plot(vacuous, [1.0] * len(vacuous), "x", color=COLOURS[name], markersize=5)


def draw_certificates(axes: Axes, report: dict[str, Any]) -> None:
    """Each certificate as a bar, with the test error of the classifier that it speaks of."""
    certificates = report["certificates"]
    gibbs = report["gibbs_classifier"]
    labels = []
    for height, certificate in enumerate(certificates):
        name = certificate["name"]
        optimistic = certificate["status"] == "optimistic"
        axes.barh(height, certificate["value"], color=COLOURS[name], alpha=0.45 if optimistic else 0.9,
                  hatch="//" if optimistic else None, edgecolor="white")  # fmt: skip
        test = gibbs["test_error"] if name in GIBBS_BOUNDS else (report["mean_classifier"]["test"] or {}).get("error")
        if name in GAUSSIAN_BOUNDS:
            test = (report["gaussian_classifier"]["test"] or {}).get("mean")
        if test is not None:
            axes.plot([test], [height], "|", color="black", markersize=14, markeredgewidth=2)
        vacuous = " vacuous" if certificate["value"] >= 1.0 else ""
        axes.text(min(certificate["value"], 1.0) + 0.01, height, f"{certificate['value']:.4f}{vacuous}", va="center")
        labels.append(NAMES[name] + (" *" if optimistic else ""))
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.set_xlim(0.0, 1.2)
    axes.set_xlabel(f"risk (bar: certificate, tick: test error)\n* {OPTIMISTIC}")
    axes.set_title(f"certificates, each failing with probability at most {report['failure_prob']:g}")
