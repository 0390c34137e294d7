"""What the page says of a run besides its certificates: title, privacy, calibration, training, provenance."""

import json
import shlex
from pathlib import PurePath
from typing import Any

from bounds.sentence import confidence
from pacdp.cli.private import PRIVATE
from pacdp.cli.report import figures as report_figures
from pacdp.cli.report.material import RUNS, Material

_MOST_ROWS = 50
_SCORES = (
    ("accuracy", "accuracy"), ("macro_auc", "AUC (mean over classes)"), ("nll_nats", "NLL (nats)"), ("brier", "Brier"),
    ("ece", "ECE"), ("mce", "MCE"), ("sce", "SCE"), ("ace", "ACE"),
)  # fmt: skip
_TRACED = (
    ("step", "step"), ("epochs", "epochs"), ("train_loss", "training loss"), ("train_error", "training error"),
    ("test_error", "test error"), ("gibbs_train_error", "Gibbs training error"),
    ("gibbs_test_error", "Gibbs test error"), ("kl_nats", "KL (nats)"), ("epsilon", "epsilon (rounded up)"),
    ("picked", "records picked"), ("errors", "in error, not picked"), ("kept", "kept"),
)  # fmt: skip


def title(material: Material) -> str:
    """What was run, on what."""
    config, report = material.config or {}, material.report or {}
    if "title" in config:
        return str(config["title"])
    if "dataset" in config:
        return f"Certificates on {config['dataset']}"
    subject = report.get("subject") or {}
    what = subject.get("checkpoint") or subject.get("predictions")
    return f"Certificates of {PurePath(str(what)).name}" if what else "Certificates"


def state(material: Material) -> str:
    """Whether the run ended."""
    result = material.result
    if result is None:
        return (
            "Certificates alone, without a run."
            if material.kind not in RUNS
            else "The run is not finished: there is no result.json."
        )
    halted = (
        f", halted by its privacy budget before step {result['steps'] + 1}"
        if result.get("halted")
        else ""
    )
    return f"A finished run of {result['steps']} steps on {result['n']} examples{halted}."


def absent(material: Material) -> str:
    """What a reader might look for and the folder does not hold, in one sentence; nothing where it holds everything."""
    certify = (
        "" if material.config is None or by_person(material) else " (pacdp certify makes them)"
    )
    holds = {
        f"certificates{certify}": material.report,
        "privacy claims": privacy(material),
        "predictive probabilities": calibration(material) or ensemble(material),
        "recorded rows of a training": material.rows,
        "provenance": provenance(material),
        "configuration of a run": material.config,
    }
    missing = [name for name, found in holds.items() if not found]
    listed = (
        ", ".join(missing[:-1]) + (" and " if len(missing) > 1 else "") + missing[-1]
        if missing
        else ""
    )
    return f"The folder holds no {listed}." if listed else ""


def warning(material: Material) -> str:
    """What a page about a private run, or a chain whose noise is secret, begins with, finished or not."""
    told = ((material.report or {}).get("details") or {}, material.result or {})
    own = material.private or material.secret
    return PRIVATE if own else next((str(one["private"]) for one in told if "private" in one), "")


def by_person(material: Material) -> bool:
    """Whether a private run's unit is a person, for whom no certificate is made."""
    return ((material.result or {}).get("privacy") or {}).get("unit", "example") != "example"


def privacy(material: Material) -> dict[str, Any] | None:
    """What a run revealed, for private runs and for certificates that rest on privacy; upper ends rounded up."""
    budget: dict[str, Any] | None = (material.config or {}).get("budget")
    spent = (material.result or {}).get("privacy")
    claimed = (material.report or {}).get("privacy")
    if not (budget or spent or claimed):
        return None
    rows = [row for row in material.rows if "epsilon" in row and "delta" in row]
    counts = ((material.report or {}).get("details") or {}).get("counts")
    figure = report_figures.privacy_spent(rows, _line(budget, spent)) if rows else None
    found = {"counts": counts, "spent": spent, "claimed": claimed, "budget": budget}
    return {**found, "figure": figure}


def _line(budget: dict[str, Any] | None, spent: dict[str, Any] | None) -> float | None:
    """The budget's epsilon, where it is about the neighbours that the epsilons beside it are about."""
    alike = budget and spent and budget["adjacency"] == spent["adjacency"]
    return budget["epsilon"] if budget and alike else None


def calibration(material: Material) -> dict[str, Any] | None:
    """Scores and the reliability curve on test data, where they are recorded."""
    test = (material.result or {}).get("test")
    if not test:
        return None
    curve = test.get("reliability")
    return {
        "n": test["n"],
        "scores": [(label, test[name]) for name, label in _SCORES if name in test],
        "figure": report_figures.reliability_diagram(curve) if curve else None,
        "bins": _bins(curve) if curve else [],
        "band": confidence(curve["failure_prob"]) if curve else "",
        "simultaneous": bool(curve and curve["simultaneous"]),
    }  # fmt: skip


def _bins(curve: dict[str, Any]) -> list[tuple[Any, ...]]:
    names = ("left", "right", "count", "confidence", "accuracy", "lower", "upper")
    return list(zip(*(curve[name] for name in names), strict=True))


def ensemble(material: Material) -> str | None:
    """What the mean prediction of a run's snapshots did on test data."""
    seen = (material.result or {}).get("ensemble") or {}
    if not seen.get("snapshots"):
        return None
    return (f"The mean prediction of {seen['snapshots']} snapshots: test error {seen['test_error']:.4f}, NLL "
            f"{seen['test_nll']:.4f} nats, entropy {seen['entropy_nats']:.4f} nats, of which "
            f"{seen['mutual_information_nats']:.4f} is the snapshots' disagreement.")  # fmt: skip


def training(material: Material) -> dict[str, Any] | None:
    """The recorded rows, and the curves where errors are among them."""
    rows = list(material.rows)
    if not rows:
        return None
    names = [(name, label) for name, label in _TRACED if name in rows[-1]]
    shown = report_figures.thinned(rows, _MOST_ROWS)
    return {
        "figure": report_figures.training(rows) if "train_error" in rows[-1] else None,
        "columns": names,
        "rows": shown,
        "left_out": len(rows) - len(shown),
    }


def provenance(material: Material) -> list[dict[str, Any]]:
    """What made the run, and what made its certificates."""
    report = material.report or {}
    about = {name: report[name] for name in ("prior", "rows", "choices") if report.get(name)}
    certified = (report.get("provenance") or {}) | (report.get("subject") or {}) | about
    found = (("the run", material.provenance), ("the certificates", certified))
    return [{"of": of, "entries": made_by(made)} for of, made in found if made]


def configuration(material: Material) -> str | None:
    """The configuration as JSON."""
    return (
        None
        if material.config is None
        else json.dumps(material.config, indent=2, ensure_ascii=False)
    )


def made_by(made: dict[str, Any]) -> list[tuple[str, str]]:
    """What a provenance.json says, by name."""
    commit, device = made.get("commit"), made.get("device", {})
    dirty = "yes: the code had changes that no commit holds" if made.get("dirty") else "no"
    versions = ", ".join(f"{name} {version}" for name, version in made.get("versions", {}).items())
    entries = [
        ("commit", commit or "unknown"), ("uncommitted changes", dirty if commit else "unknown"),
        ("seed", str(made.get("seed", "not recorded"))), ("command", shlex.join(map(str, made.get("argv", [])))),
        ("device", ", ".join(f"{key} {value}" for key, value in device.items())),
        ("time", str(made.get("time", "not recorded"))), ("versions", versions),
    ]  # fmt: skip
    others = {key: value for key, value in made.items()
              if key not in ("commit", "dirty", "seed", "argv", "device", "time", "versions")}  # fmt: skip
    return entries + [
        (str(key), json.dumps(value, ensure_ascii=False)) for key, value in others.items()
    ]
