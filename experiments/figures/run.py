"""One run: errors and bounds over training, and its certificates against the test error."""

from typing import Any

from matplotlib.axes import Axes

from experiments.figures import numbers
from experiments.figures.style import (
    ACCOUNTED,
    GAUSSIAN_BOUNDS,
    GIBBS_BOUNDS,
    NAMES,
    OPTIMISTIC,
    colour,
    error_axis,
    label,
)


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
    axes.legend(ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.13))  # inside it would hide what is vacuous


def draw_bounds(axes: Axes, positions: list[float], found: list[dict[str, float]]) -> None:
    """Bounds as dashed lines; a vacuous one lies at 1 and is marked with a cross."""
    for name in found[-1] if found else ():
        values = [bounds[name] for bounds in found]
        axes.plot(positions, values, "--", color=colour(name), linewidth=1.0, label=label(name))
        vacuous = [position for position, value in zip(positions, values, strict=True) if value >= 1.0]
        axes.plot(vacuous, [1.0] * len(vacuous), "x", color=colour(name), markersize=5)


def subject(certificate: dict[str, Any]) -> tuple[str, str]:
    """Which classifier a certificate speaks of and what it bounds; "" for both of a bound not known here."""
    inputs = certificate.get("inputs", {})
    name = inputs.get("bound", inputs.get("chosen", certificate["name"]))
    of = "Gibbs" if name in GIBBS_BOUNDS else "Gaussian" if name in GAUSSIAN_BOUNDS else "mean weights"
    known = (of, "0-1 risk") if name in NAMES else ("", "")
    return str(inputs.get("of", known[0])), str(inputs.get("measures", known[1]))


def measured_error(certificate: dict[str, Any], report: dict[str, Any]) -> float | None:
    """The test error of the classifier that a certificate speaks of; None where it is not known."""
    of, measures = subject(certificate)
    known = report.get("test_errors", {})
    if measures == "0-1 risk" and of in known:
        return known[of]
    match of, measures:
        case "Gibbs", "0-1 risk":
            return (report["gibbs_classifier"] or {}).get("test_error")
        case "Gaussian", "0-1 risk":
            return ((report.get("gaussian_classifier") or {}).get("test") or {}).get("mean")
        case "randomised", "0-1 risk":
            return report["test_risk"]
        case "mean weights" | "predictor", "0-1 risk":
            return (report["mean_classifier"]["test"] or {}).get("error")
        case _:
            return None


def caption(certificate: dict[str, Any]) -> str:
    """A certificate's name in a figure; where it says whose risk it bounds, that too."""
    if "of" not in certificate.get("inputs", {}):
        return label(certificate["name"])
    of, measures = subject(certificate)
    return f"{label(certificate['name'])}: {label(measures)}, {label(of)}"


def draw_certificates(axes: Axes, report: dict[str, Any]) -> None:
    """Each certificate as a bar, with the test error of the classifier that it speaks of."""
    certificates = report["certificates"]
    labels = []
    for height, certificate in enumerate(certificates):
        name, value = certificate["name"], certificate["value"]
        optimistic = certificate["status"] == "optimistic"
        axes.barh(height, value, color=colour(name), alpha=0.45 if optimistic else 0.9,
                  hatch="//" if optimistic else None, edgecolor="white")  # fmt: skip
        test = measured_error(certificate, report)
        if test is not None:
            axes.plot([test], [height], "|", color="black", markersize=14, markeredgewidth=2)
        vacuous = " vacuous" if value >= 1.0 else ""
        axes.text(min(value, 1.0) + 0.01, height, numbers.up(value) + vacuous, va="center")
        labels.append(caption(certificate) + (" *" if optimistic else ""))
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.set_xlim(0.0, 1.2)
    assumed = f"\n* {_meaning(certificates)}" if any(c["status"] == "optimistic" for c in certificates) else ""
    kinds = dict.fromkeys(label(subject(c)[1]) for c in certificates if subject(c)[1])
    axes.set_xlabel(f"{', '.join(kinds) or 'risk'} (bar: certificate, tick: test error){assumed}")
    axes.set_title(f"certificates, each failing with probability at most {report['failure_prob']:g}")


def _meaning(certificates: list[dict[str, Any]]) -> str:
    known = all(c["name"] in NAMES and "of" not in c.get("inputs", {}) for c in certificates)
    return OPTIMISTIC if known else "optimistic: rests on assumptions that nobody has verified"
