"""The table of the corruption study: one row a record of a finished run; private runs have one record, at their end.

Epsilon is of two kinds, which ``privacy`` tells apart: accounted for step by step (DP-SGD, DP-SGLD; delta > 0,
add-remove), or of the target that Entropy-SGLD is assumed to have reached (delta 0, replace-one).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from experiments.folder import Folder, read_json
from experiments.papers.corruption_runs import Corrupted
from experiments.papers.entropy_sgld.rows import BOUNDS
from experiments.study import Job

ACCOUNTED = "private_kl_chernoff"
PRIVACY = {"accounted": "accounted, add-remove", "assumed": "assumes stationarity, replace-one", "none": "none"}
_NUMBERS = ("train_error", "test_error", "gibbs_train_error", "gibbs_test_error", "kl_nats", "epsilon")
COLUMNS: dict[str, Any] = {
    "algorithm": pl.String, "network": pl.String, "random_share": pl.Float64, "least_error": pl.Float64,
    "run": pl.String, "step": pl.Int64, "n": pl.Int64, "n_test": pl.Int64,
    **dict.fromkeys(_NUMBERS, pl.Float64), "delta": pl.Float64, "privacy": pl.String,
    **dict.fromkeys((*BOUNDS, ACCOUNTED), pl.Float64),
}  # fmt: skip


def table(jobs: Sequence[Job], folder: Path) -> pl.DataFrame:
    """Records of the jobs that have finished, in the order of the jobs."""
    found: list[dict[str, Any]] = []
    for job in jobs:
        place = Folder(folder / job.key)
        if place.finished:
            found += _private(job, place) if isinstance(job.config, Corrupted) else _chain(job, place)
    return pl.DataFrame(found, schema=COLUMNS, orient="row")


def _placed(job: Job) -> dict[str, Any]:
    share = job.tags["random_share"]
    classes = 2 if job.config.problem.dataset.endswith("2") else 10
    return {"algorithm": job.tags["algorithm"], "network": job.tags["network"], "random_share": share,
            "least_error": share * (1.0 - 1.0 / classes), "run": job.key}  # fmt: skip


def _chain(job: Job, folder: Folder) -> list[dict[str, Any]]:
    n = read_json(folder.result)["n"]
    return [
        {
            **_placed(job), "step": row["step"], "n": n, "n_test": row["n_test"],
            **{name: row.get(name) for name in _NUMBERS}, "delta": None if row.get("epsilon") is None else 0.0,
            "privacy": PRIVACY["none" if row.get("epsilon") is None else "assumed"],
            **{name: row.get("bounds", {}).get(name) for name in BOUNDS},
        }
        for row in folder.rows()
    ]  # fmt: skip


def _private(job: Job, folder: Folder) -> list[dict[str, Any]]:
    row = read_json(folder.result)
    return [
        {
            **_placed(job), "step": row["steps"], **{name: row[name] for name in ("n", "n_test", "delta", "epsilon")},
            "train_error": row["train_error"], "test_error": row["test_error"], "privacy": PRIVACY["accounted"],
            ACCOUNTED: row["bound"]["value"],
        }
    ]  # fmt: skip
