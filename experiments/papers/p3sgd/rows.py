"""Tables of the studies: rows of plain values from the folders that runs leave, and means over seeds."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from experiments.claims import above, count_noise, seed_noise
from experiments.folder import Folder, read_json
from experiments.study import Job

Result = dict[str, Any]
RUN = {
    "problem": pl.String, "strategy": pl.String, "seed": pl.Int64, "noise_scales": pl.String, "people": pl.Int64,
    "unit": pl.String, "parameters": pl.Int64, "majority": pl.Float64, "train_accuracy": pl.Float64,
    "test_accuracy": pl.Float64, "gap": pl.Float64, "train_loss": pl.Float64, "test_loss": pl.Float64,
    "epsilon": pl.Float64, "published_epsilon": pl.Float64, "delta": pl.Float64, "steps": pl.Int64,
    "halted": pl.Boolean, "quietest_chosen": pl.Float64, "noise_to_signal": pl.Float64,
    "n": pl.Int64, "n_test": pl.Int64,
}  # fmt: skip
"""Columns of a row a run: accuracies and gap in percent, losses in nats, epsilon (the upper end) of add-remove
neighbours."""
CURVE = {
    "problem": pl.String, "strategy": pl.String, "seed": pl.Int64, "epochs": pl.Float64, "train_loss": pl.Float64,
    "test_loss": pl.Float64, "train_error": pl.Float64, "test_error": pl.Float64,
}  # fmt: skip
INVERSION = {
    "problem": pl.String, "strategy": pl.String, "seed": pl.Int64, "attack": pl.String, "part": pl.String,
    "reference": pl.String, "label": pl.Int64, "example": pl.Int64, "psnr": pl.Float64, "start_psnr": pl.Float64,
    "test_accuracy": pl.Float64, "height": pl.Int64, "width": pl.Int64, "original": pl.String, "made": pl.String,
}  # fmt: skip
_SPENT = ("epsilon", "published_epsilon", "delta", "steps", "halted", "quietest_chosen", "noise_to_signal")


def finished(jobs: Sequence[Job], folder: Path) -> list[tuple[Job, Result]]:
    """The jobs that left a result, and it."""
    places = [(job, Folder(folder / job.key)) for job in jobs]
    return [(job, read_json(place.result)) for job, place in places if place.finished]


def tabled(rows: Iterable[dict[str, Any]], columns: dict[str, Any]) -> pl.DataFrame:
    """Rows of these columns, in this order; others are dropped, missing ones are null."""
    whole = {name: kind() if isinstance(kind, type) else kind for name, kind in columns.items()}
    return pl.DataFrame([{name: row.get(name) for name in whole} for row in rows], schema=whole)


def by_run(jobs: Sequence[Job], folder: Path) -> pl.DataFrame:
    """A row a run, of the columns of :data:`RUN`."""
    return tabled((_run(job, result) for job, result in finished(jobs, folder) if "final" in result), RUN)


def by_record(jobs: Sequence[Job], folder: Path) -> pl.DataFrame:
    """A row a record along a run, of the columns of :data:`CURVE`."""
    rows = (dict(job.tags) | row for job, result in finished(jobs, folder) for row in result["curve"])
    return tabled(rows, CURVE)


def by_image(jobs: Sequence[Job], folder: Path) -> pl.DataFrame:
    """A row an attacked image or class, of the columns of :data:`INVERSION`; pictures are those of the first seed."""
    first = min((int(str(job.tags["seed"])) for job in jobs), default=0)
    rows = (
        dict(job.tags) | {"test_accuracy": _percent(result["final"]["test_error"])} | row
        | ({} if job.tags["seed"] == first else {"original": None, "made": None})
        for job, result in finished(jobs, folder)
        for row in result["inversion"]
    )  # fmt: skip
    return tabled(rows, INVERSION)


def mean(table: pl.DataFrame, column: str, **where: str) -> float | None:
    """Of the finite numbers of a column, in the rows whose columns are as given; None where there is none."""
    part = _part(table, column, where)
    return float(sum(part) / len(part)) if len(part) else None


def _part(table: pl.DataFrame, column: str, where: Mapping[str, str]) -> pl.Series:
    return table.filter(*(pl.col(name) == value for name, value in where.items()))[column].drop_nulls()


def ordered(table: pl.DataFrame, column: str) -> list[str]:
    """Values of a column in the order in which they come."""
    return table[column].drop_nulls().unique(maintain_order=True).to_list()


def decide(holds: Callable[..., bool | None], *numbers: float | None) -> bool | None:
    """What a claim's rule says of its numbers; None where one is missing."""
    known = [number for number in numbers if number is not None]
    return holds(*known) if len(known) == len(numbers) else None


def noise(table: pl.DataFrame, column: str, **where: str) -> float | None:
    """Two standard errors of a mean accuracy or gap, in points: of counts on one test set, which all seeds share and
    which people make larger, and of the mean over seeds where there are several.
    """
    test, train = (mean(table, name, **where) for name in ("test_accuracy", "train_accuracy"))
    n_test, n = (mean(table, name, **where) for name in ("n_test", "n"))
    if test is None or n_test is None:
        return None
    counts = [(test / 100.0, n_test)]
    if column != "test_accuracy":
        if train is None or n is None:
            return None
        counts.append((train / 100.0, n))
    return math.hypot(100.0 * count_noise(*counts), seed_noise(_part(table, column, where).to_list()))


def higher(one: float, its_noise: float, other: float, others_noise: float, by: float = 0.0) -> bool | None:
    """Whether one > other + by; None within the noise of both."""
    return above(one, other + by, math.hypot(its_noise, others_noise))


def shown(number: float | None, digits: int = 2) -> str:
    """For evidence."""
    return "missing" if number is None else f"{number:.{digits}f}"


def _run(job: Job, result: Result) -> dict[str, Any]:
    final, spent = result["final"], result["privacy"] or {}
    train, test = _percent(final["train_error"]), _percent(final["test_error"])
    return {
        **job.tags, **{name: result[name] for name in ("people", "unit", "parameters", "n", "n_test")},
        "majority": 100.0 * result["majority"], "train_accuracy": train, "test_accuracy": test, "gap": train - test,
        "train_loss": final["train_loss"], "test_loss": final["test_loss"], **{k: spent.get(k) for k in _SPENT},
    }  # fmt: skip


def _percent(error: float) -> float:
    return 100.0 * (1.0 - error)
