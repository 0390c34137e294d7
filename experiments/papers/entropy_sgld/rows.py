"""The table behind every figure of the Entropy-SGLD paper: one row a record of a finished run, with all bounds."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from experiments.figures.style import CONVERGED
from experiments.folder import Folder, read_json
from experiments.study import Job

INNER_STEPS = 20
"""The paper's axis is epochs over Entropy-SGD's L, for all algorithms."""
BOUNDS = tuple(name for name in CONVERGED if name != "test_set_clopper_pearson")
MEASURED = ("train_loss", "train_error", "test_error", "gibbs_train_error", "gibbs_test_error", "kl_nats",
            "kl_raw_nats", "epsilon")  # fmt: skip
COLUMNS: dict[str, Any] = {
    **dict.fromkeys(("algorithm", "labels", "network"), pl.String),
    **dict.fromkeys(("thermal_noise", "tau", "gamma", "beta"), pl.Float64),
    "run": pl.String, **dict.fromkeys(("n", "n_test", "step"), pl.Int64),
    **dict.fromkeys(("epochs", "epochs_over_l", *MEASURED, *BOUNDS), pl.Float64),
}  # fmt: skip


def table(jobs: Sequence[Job], folder: Path) -> pl.DataFrame:
    """Records of the jobs that have finished, in the order of the jobs; numbers that a run lacks are null."""
    rows = [row for job in jobs for row in _records(job, Folder(folder / job.key))]
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def final(found: pl.DataFrame) -> pl.DataFrame:
    """The last record of each run."""
    return found.group_by("run", maintain_order=True).last().select(found.columns)


def _records(job: Job, folder: Folder) -> list[dict[str, Any]]:
    if not folder.finished:
        return []
    n = read_json(folder.result)["n"]
    return [
        {
            **{name: job.tags.get(name) for name in COLUMNS if name in job.tags},
            "run": job.key, "n": n, "n_test": row["n_test"], "step": row["step"],
            "epochs": row["epochs"], "epochs_over_l": row["epochs"] / INNER_STEPS,
            **{name: row.get(name) for name in MEASURED},
            **{name: row.get("bounds", {}).get(name) for name in BOUNDS},
        }
        for row in folder.rows()
    ]  # fmt: skip
