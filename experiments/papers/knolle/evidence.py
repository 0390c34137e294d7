"""Means over seeds, and when their difference decides a sentence."""

import math
from typing import NamedTuple

import polars as pl


class Sample(NamedTuple):
    """A score of one procedure over its seeds."""

    mean: float
    variance: float
    """Unbiased; 0 for one seed."""
    seeds: int

    def __str__(self) -> str:
        """Mean, with the spread of one seed where there are several."""
        shown = f"{self.mean:.4f}"
        return shown if self.seeds < 2 else f"{shown} (s.d. {math.sqrt(self.variance):.4f}, {self.seeds} seeds)"


class Difference(NamedTuple):
    """Larger minus smaller, as a sentence claims it."""

    holds: bool | None
    evidence: str


def sample(table: pl.DataFrame, column: str, **where: object) -> Sample | None:
    """The score where the columns have these values; None where no run is."""
    values = table.filter(*(pl.col(name) == value for name, value in where.items()))[column].drop_nulls()
    if values.is_empty():
        return None
    return Sample(float(values.mean()), float(values.var() or 0.0), len(values))  # type: ignore[arg-type]


def difference(what: str, larger: Sample | None, smaller: Sample | None) -> Difference:
    """Whether the first mean is larger, or smaller, by more than two standard errors; None in between.

    The error is that of the seeds; all are judged on one test set, which none of them repeats.
    """
    if larger is None or smaller is None:
        return Difference(None, f"{what}: runs are missing")
    shown = f"{what}: {larger} against {smaller}"
    if min(larger.seeds, smaller.seeds) < 2:
        return Difference(None, f"{shown}; one seed decides nothing")
    gap = larger.mean - smaller.mean
    error = math.sqrt(larger.variance / larger.seeds + smaller.variance / smaller.seeds)
    if abs(gap) <= 2.0 * error:
        return Difference(None, f"{shown}; within two standard errors of the seeds, {2.0 * error:.4f}")
    return Difference(gap > 0.0, shown)
