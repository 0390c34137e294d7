"""From the folders of finished runs to tables: a row a set of predictions, or a row a bin of its reliability curve.

DP-SGLD makes two rows: of its last weights, which is what the paper reports ("only point estimates"), and of the mean
of the predictions of weights kept on the way, which costs no privacy more.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from bounds.accounting import clt_gdp, event_from_dict, gaussian_epsilon
from experiments.folder import Folder, read_json
from experiments.papers.knolle_plain import PlainConfig
from experiments.private.config import PrivateConfig
from experiments.studies.study import Job

AVERAGED = ", averaged"
_SCORES = ("accuracy", "macro_auc", "ece", "nll_nats", "brier", "smooth_ece", "adaptive_ece", "sce", "ace",
           "mean_confidence")  # fmt: skip
RUN_COLUMNS: dict[str, Any] = {
    "data": pl.String, "stands_for": pl.String, "procedure": pl.String, "seed": pl.Int64, "pre_noise": pl.Boolean,
    "decay": pl.Boolean, "epsilon": pl.Float64, "delta": pl.Float64, "budget": pl.Float64, "unit": pl.String,
    "units": pl.Int64, "epsilon_central_limit": pl.Float64, "steps": pl.Int64, "halted": pl.Boolean,
    "parameters": pl.Int64, "n": pl.Int64, "n_test": pl.Int64, **dict.fromkeys(_SCORES, pl.Float64),
    "certain": pl.Float64, "seconds": pl.Float64,
}  # fmt: skip
"""``certain`` is the share of test examples in the last bin of confidence; ``epsilon_central_limit`` what the paper's
accountant makes of the run: no bound."""
BIN_COLUMNS: dict[str, Any] = {
    "data": pl.String, "stands_for": pl.String, "procedure": pl.String, "seed": pl.Int64, "ece": pl.Float64,
    "n_test": pl.Int64, "left": pl.Float64, "right": pl.Float64, "count": pl.Int64, "confidence": pl.Float64,
    "accuracy": pl.Float64,
}  # fmt: skip


def by_run(jobs: Sequence[Job], folder: Path) -> pl.DataFrame:
    """One row a set of predictions on the test set; columns ``RUN_COLUMNS``."""
    return pl.DataFrame([_run_row(*found) for found in _predictions(jobs, folder)], schema=RUN_COLUMNS)


def by_bin(jobs: Sequence[Job], folder: Path) -> pl.DataFrame:
    """One row a bin of each set of predictions, empty ones too; columns ``BIN_COLUMNS``."""
    rows: list[dict[str, Any]] = []
    for job, procedure, test, _ in _predictions(jobs, folder):
        where = {"data": job.tags["data"], "stands_for": job.tags["stands_for"], "procedure": procedure,
                 "seed": job.tags["seed"], "ece": test["ece"], "n_test": test["n"]}  # fmt: skip
        curve = test["reliability"]
        columns = ("left", "right", "count", "confidence", "accuracy")
        values = zip(*(curve[name] for name in columns), strict=True)
        rows += [where | dict(zip(columns, one, strict=True)) for one in values]
    return pl.DataFrame(rows, schema=BIN_COLUMNS)


def _predictions(jobs: Sequence[Job], folder: Path) -> Iterator[tuple[Job, str, dict[str, Any], dict[str, Any]]]:
    for job in jobs:
        path = Folder(folder / job.key).result
        if not path.is_file():
            continue
        result = read_json(path)
        procedure = str(job.tags["procedure"])
        if "test_of_last_weights" in result:
            yield job, procedure, result["test_of_last_weights"], result
            yield job, procedure + AVERAGED, result["test"], result
        else:
            yield job, procedure, result["test"], result


def _run_row(job: Job, procedure: str, test: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    counts = test["reliability"]["count"]
    row = {
        "data": job.tags["data"], "stands_for": job.tags["stands_for"], "procedure": procedure,
        "seed": job.tags["seed"], "pre_noise": job.tags.get("pre_noise"), "decay": job.tags.get("decay"),
        **{name: result.get(name) for name in ("steps", "parameters", "n", "n_test", "seconds")},
        "halted": result.get("halted"), **{name: test[name] for name in _SCORES}, "certain": counts[-1] / test["n"],
    }  # fmt: skip
    return row | _privacy(job.config, result)


def _privacy(config: PlainConfig | PrivateConfig, result: dict[str, Any]) -> dict[str, Any]:
    if isinstance(config, PlainConfig):
        return {}
    spent = result["privacy"]
    by_person = spent["unit"] != "example"
    return {
        "epsilon": spent["upper"], "delta": spent["delta"], "budget": config.budget.epsilon, "unit": spent["unit"],
        "units": spent["units"],
        "epsilon_central_limit": None if by_person else central_limit(config, result),
    }  # fmt: skip


def central_limit(config: PrivateConfig, result: dict[str, Any]) -> float:
    """The epsilon that the central limit theorem of Gaussian differential privacy gives: the paper's accountant."""
    event = event_from_dict(result["privacy"]["event"])
    return gaussian_epsilon(mu=clt_gdp(event=event).mu, delta=config.budget.delta)
