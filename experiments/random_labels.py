"""The random-label experiment: SGD, SGLD, Entropy-SGD and Entropy-SGLD on true and on random labels.

Dziugaite and Roy (2018), Figure 1: how far each algorithm overfits at each thermal noise, and what the bounds of the
private ones say. Random labels are uniform over the classes in training and test set alike, so the true error is 1/2.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from experiments.figures import random_labels as drawing
from experiments.figures import style
from experiments.folder import Folder
from experiments.random_labels_bounds import violations
from experiments.random_labels_verdict import judge
from experiments.recipes import SIZES, Scale, run, tau_of
from experiments.studies.kinds import sampler_job
from experiments.study import Job, Study

NOISES = {
    "smoke": {"sgld": (0.01, 0.1), "entropy-sgd": (0.01, 0.1)},
    "cpu": {"sgld": (0.001, 0.01, 0.05), "entropy-sgd": (0.001, 0.005, 0.01, 0.05)},
    "paper": {"sgld": (0.001, 0.005, 0.01, 0.05, 0.1), "entropy-sgd": (0.0001, 0.001, 0.005, 0.01, 0.05, 0.1)},
}
_MEASURED = ("train_loss", "train_error", "test_error", "n_test", "gibbs_train_error", "gibbs_test_error",
             "kl_nats", "kl_raw_nats", "epsilon")  # fmt: skip
DATASETS = {"smoke": "digits2", "cpu": "mnist2", "paper": "mnist2"}


def jobs(scale: Scale, seed: int = 0) -> list[Job]:
    """Every run: SGD, then each algorithm at its noises, then SGLD and Entropy-SGLD at the private setting τ = √n."""
    dataset = DATASETS[scale]
    private_noise = math.sqrt(2.0 / math.sqrt(SIZES[dataset]))
    found = []
    for labels, fraction in (("true", 0.0), ("random", 1.0)):
        plan = [("sgd", 0.0, None), ("entropy-sgld", private_noise, None), ("sgld", private_noise, None)]
        plan += [(algorithm, noise, tau_of(noise)) for algorithm, noises in NOISES[scale].items() for noise in noises]
        for algorithm, noise, tau in plan:
            one = run(algorithm, dataset, scale=scale, tau=tau, random_labels=fraction, seed=seed)
            found.append(sampler_job(one, algorithm=one.algorithm, labels=labels, thermal_noise=noise))
    return found


def collect(plan: Sequence[Job], folder: Path) -> pl.DataFrame:
    """One row a record of every finished run: errors, KL, epsilon and all bounds."""
    rows: list[dict[str, Any]] = []
    for job in plan:
        own = Folder(folder / job.key)
        inner = 20  # the x axis of the paper: epochs of any algorithm over Entropy-SGD's L
        for row in own.rows() if own.finished else ():
            found = row.get("bounds", {})
            rows.append(
                {
                    **job.tags, "tau": getattr(job.config.sampler, "tau", None),
                    "run": job.key, "step": row["step"], "epochs": row["epochs"],
                    "epochs_over_l": row["epochs"] / inner,
                    **{name: row.get(name) for name in _MEASURED},
                    **{name: found.get(name) for name in style.CONVERGED if name != "test_set_clopper_pearson"},
                }
            )  # fmt: skip
    return pl.DataFrame(rows, infer_schema_length=None)


def summary(plan: Sequence[Job], table: pl.DataFrame) -> dict[str, Any]:
    """How many bounds were compared with test errors, which lie below them, and where each run ended."""
    names = [name for name in style.CONVERGED if name in table.columns]
    return {
        "runs": len(plan), "rows": table.height,
        "bounds_compared": int(sum(table[name].is_not_null().sum() for name in names)),
        "violations": violations(table),
        "final": _final(table),
    }  # fmt: skip


def draw(table: pl.DataFrame, out: Path) -> list[Path]:
    """Draw the six panels into ``out``/figure.png and .pdf."""
    drawn, grid = style.figure(3, 2, width=5.0)
    drawing.draw(grid, table)
    return style.save(drawn, out / "figure")


def _final(table: pl.DataFrame) -> list[dict[str, Any]]:
    """The last record of each run, in the order of the table."""
    columns = ["algorithm", "labels", "thermal_noise", "epochs", "train_error", "test_error", "gibbs_train_error",
               "gibbs_test_error", "kl_nats", "dp_pac_bayes_2018", "dp_pac_bayes", "dp_kl_chernoff"]  # fmt: skip
    last = table.group_by("run", maintain_order=True).last()
    return last.select(columns).to_dicts()


STUDY = Study(
    name="random-labels", title="Overfitting true and random labels, and what the bounds say",
    paper="Dziugaite and Roy (2018), Figure 1",
    jobs=jobs, table=collect, draw=draw,
    judge=lambda table, scale: judge(table, scale, dataset=DATASETS[scale]),
    summary=summary,
)  # fmt: skip
