"""The random-label experiment: SGD, SGLD, Entropy-SGD and Entropy-SGLD on true and on random labels.

Dziugaite and Roy (2018), Figure 1: how far each algorithm overfits at each thermal noise, and what the bounds of the
private ones say. Random labels are uniform over the classes in training and test set alike, so the true error is 1/2.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

import bounds
from experiments.config import Run, Runtime
from experiments.figures import random_labels as drawing
from experiments.figures import style
from experiments.fleet import Workers, carry_out
from experiments.folder import Folder, provenance, read_json, write_json
from experiments.recipes import SIZES, Scale, run, tau_of

NOISES = {
    "smoke": {"sgld": (0.01, 0.1), "entropy-sgd": (0.01, 0.1)},
    "cpu": {"sgld": (0.001, 0.01, 0.05), "entropy-sgd": (0.001, 0.005, 0.01, 0.05)},
    "paper": {"sgld": (0.001, 0.005, 0.01, 0.05, 0.1), "entropy-sgd": (0.0001, 0.001, 0.005, 0.01, 0.05, 0.1)},
}
_MEASURED = ("train_loss", "train_error", "test_error", "n_test", "gibbs_train_error", "gibbs_test_error",
             "kl_nats", "kl_raw_nats", "epsilon")  # fmt: skip
DATASETS = {"smoke": "digits2", "cpu": "mnist2", "paper": "mnist2"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run of the experiment and where it belongs in the figure."""

    labels: str
    thermal_noise: float
    run: Run


def cells(scale: Scale, seed: int = 0) -> list[Cell]:
    """Every run: SGD, then each algorithm at its noises, then SGLD and Entropy-SGLD at the private setting τ = √n."""
    dataset = DATASETS[scale]
    private_noise = math.sqrt(2.0 / math.sqrt(SIZES[dataset]))
    found = []
    for labels, fraction in (("true", 0.0), ("random", 1.0)):
        plan = [("sgd", 0.0, None), ("entropy-sgld", private_noise, None), ("sgld", private_noise, None)]
        plan += [(algorithm, noise, tau_of(noise)) for algorithm, noises in NOISES[scale].items() for noise in noises]
        for algorithm, noise, tau in plan:
            one = run(algorithm, dataset, scale=scale, tau=tau, random_labels=fraction, seed=seed)
            found.append(Cell(labels=labels, thermal_noise=noise, run=one))
    return found


def conduct(plan: list[Cell], folder: Path, runtime: Runtime, *, workers: Workers) -> Iterator[tuple[Cell, str | None]]:
    """Carry out the runs, each in its own folder, yielding them as they end: all noise levels of one algorithm, on true
    and on random labels, are one batch of chains. The second part is the error's sentence where a run failed.
    """
    outs = [folder / cell.run.key for cell in plan]
    for index, error in carry_out([cell.run for cell in plan], outs, runtime, workers=workers):
        yield plan[index], error


def collect(plan: list[Cell], folder: Path) -> pl.DataFrame:
    """One row a record of every run, finished or not: errors, KL, epsilon and all bounds."""
    rows: list[dict[str, Any]] = []
    for cell in plan:
        settings = cell.run.sampler
        inner = 20  # the x axis of the paper: epochs of any algorithm over Entropy-SGD's L
        for row in Folder(folder / cell.run.key).rows():
            found = row.get("bounds", {})
            rows.append(
                {
                    "algorithm": cell.run.algorithm, "labels": cell.labels, "thermal_noise": cell.thermal_noise,
                    "tau": getattr(settings, "tau", None), "run": cell.run.key, "step": row["step"],
                    "epochs": row["epochs"], "epochs_over_l": row["epochs"] / inner,
                    **{name: row.get(name) for name in _MEASURED},
                    **{name: found.get(name) for name in style.CONVERGED if name != "test_set_clopper_pearson"},
                }
            )  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)


def violations(table: pl.DataFrame) -> list[dict[str, Any]]:
    """Every recorded row and bound where the bound lies below the test error of the classifier it speaks of.

    A test error is itself an estimate: ``test_error_at_least`` is its lower confidence limit at 0.05 (kl-Chernoff),
    and a bound above that limit is ``within_test_noise``. It is listed all the same.
    """
    found = []
    for row in table.iter_rows(named=True):
        for name in style.CONVERGED:
            test = row["gibbs_test_error" if name in style.GIBBS_BOUNDS else "test_error"]
            value = row.get(name)
            if value is not None and test is not None and value < test:
                least = float(bounds.binary_kl_lower(test, math.log(1 / 0.05) / row["n_test"]))
                where = {key: row[key] for key in ("algorithm", "labels", "thermal_noise", "run", "step")}
                what = {"bound": name, "value": value, "test_error": test, "n_test": row["n_test"]}
                found.append(where | what | {"test_error_at_least": least, "within_test_noise": value >= least})
    return found


def publish(plan: list[Cell], folder: Path, out: Path, *, scale: Scale, device: str, seed: int) -> dict[str, Any]:
    """Write figure, table, configuration, provenance and the list of violations into ``out``; return the summary."""
    table = collect(plan, folder)
    if table.is_empty():
        raise ValueError(f"no run in {folder} has recorded anything: there is nothing to publish")
    made_by = provenance(device=device, seed=seed)  # before any file is written: the results may be tracked
    made_by["runs"] = _origins(plan, folder)
    out.mkdir(parents=True, exist_ok=True)
    table.write_csv(out / "table.csv", float_precision=9)
    draw(table, out)
    write_json(out / "config.json", {"scale": scale, "runs": {cell.run.key: cell.run.to_dict() for cell in plan}})
    write_json(out / "provenance.json", made_by)
    names = [name for name in style.CONVERGED if name in table.columns]
    found = violations(table)
    summary = {
        "runs": len(plan), "rows": table.height,
        "bounds_compared": int(sum(table[name].is_not_null().sum() for name in names)),
        "violations": found,
        "final": _final(table),
    }  # fmt: skip
    write_json(out / "summary.json", summary)
    return summary


def draw(table: pl.DataFrame, out: Path) -> list[Path]:
    """Draw the six panels into ``out``/figure.png and .pdf."""
    drawn, grid = style.figure(3, 2, width=5.0)
    drawing.draw(grid, table)
    return style.save(drawn, out / "figure")


def _origins(plan: list[Cell], folder: Path) -> list[dict[str, Any]]:
    """The commits that the runs themselves were made at, each once, with how many runs."""
    found: dict[tuple[Any, Any], int] = {}
    for cell in plan:
        path = Folder(folder / cell.run.key).provenance
        if path.is_file():
            record = read_json(path)
            origin = (record["commit"], record["dirty"])
            found[origin] = found.get(origin, 0) + 1
    return [{"commit": commit, "dirty": dirty, "runs": count} for (commit, dirty), count in found.items()]


def _final(table: pl.DataFrame) -> list[dict[str, Any]]:
    """The last record of each run, in the order of the table."""
    columns = ["algorithm", "labels", "thermal_noise", "epochs", "train_error", "test_error", "gibbs_train_error",
               "gibbs_test_error", "kl_nats", "dp_pac_bayes_2018", "dp_pac_bayes", "dp_kl_chernoff"]  # fmt: skip
    last = table.group_by("run", maintain_order=True).last()
    return last.select(columns).to_dicts()
