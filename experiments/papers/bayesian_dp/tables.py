"""Rows from the folders of runs on images, and what the verdicts read off them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from experiments.figures.numbers import up_digits
from experiments.folder import Folder, read_json
from experiments.study import Job


def finished(jobs: Sequence[Job], folder: Path) -> Iterator[tuple[Job, dict[str, Any]]]:
    """The jobs with results, and these."""
    for job in jobs:
        place = Folder(folder / job.key)
        if place.finished:
            yield job, read_json(place.result)


def image_table(jobs: Sequence[Job], folder: Path) -> pl.DataFrame:
    """A row a run: its tags, accuracy, calibration, uncertainty, privacy and time."""
    return frame([{**job.tags, **image_row(result), "run": job.key} for job, result in finished(jobs, folder)])


def frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Rows as a table; later rows may have columns that earlier ones lack."""
    return pl.DataFrame(rows, infer_schema_length=None)


def image_row(result: dict[str, Any]) -> dict[str, Any]:
    """The plain values of a run on images."""
    test, spent, parts = result["test"], result["privacy"] or {}, result["uncertainty"]
    return {
        **{name: test[name] for name in ("accuracy", "ece", "mce", "nll_nats", "n")},
        "one_bin_ece": abs(test["accuracy"] - test["mean_confidence"]),
        "last_accuracy": result["curve"][-1]["accuracy"] if result["curve"] else None,
        "confidence_right": parts["confidence"]["right"], "confidence_wrong": parts["confidence"]["wrong"],
        "mutual_information_right_nats": parts["mutual_information_nats"]["right"],
        "mutual_information_wrong_nats": parts["mutual_information_nats"]["wrong"],
        **privacy_columns(spent), "steps": result["steps"], "members": result["members"],
        "parameters": result["parameters"], "seconds_per_epoch": result["seconds_per_epoch"],
    }  # fmt: skip


def privacy_columns(spent: dict[str, Any]) -> dict[str, Any]:
    """What a run cost, without the bracket's lower end."""
    return {
        "epsilon": spent.get("upper"), "epsilon_clt_optimistic": spent.get("epsilon_clt"), "delta": spent.get("delta"),
        "noise_multiplier": spent.get("noise_multiplier"), "clip_norm": spent.get("clip_norm"),
    }  # fmt: skip


def matching(table: pl.DataFrame, column: str, where: Mapping[str, Any]) -> pl.Series:
    """The known values of a column in the rows that match."""
    if table.is_empty() or column not in table.columns:
        return pl.Series(column, [], dtype=pl.Float64)
    return table.filter(*(pl.col(name) == value for name, value in where.items()))[column].drop_nulls()


def mean(table: pl.DataFrame, column: str, **where: str | float | bool) -> float | None:
    """Mean over the seeds of the rows that match; None where there is none."""
    return _number(matching(table, column, where).mean())


def median(table: pl.DataFrame, column: str, **where: str | float | bool) -> float | None:
    """Median over the seeds of the rows that match; None where there is none."""
    return _number(matching(table, column, where).median())


def largest(table: pl.DataFrame, column: str, **where: str | float | bool) -> float | None:
    """Largest of the rows that match; None where there is none."""
    return _number(matching(table, column, where).max())


def epsilon_shown(value: float | None) -> str:
    """For sentences: an epsilon to four digits, rounded up, or that there is none."""
    return "missing" if value is None else up_digits(value, 4)


def shown(value: float | None, places: int = 3) -> str:
    """For sentences: a number, or that there is none."""
    return "missing" if value is None else f"{value:.{places}f}"


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
