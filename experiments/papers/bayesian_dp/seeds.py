"""What repeated runs say: means with their noise, ratios of pairs, and comparisons that one run cannot make."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from experiments.claims import above, below, count_noise, seed_noise
from experiments.papers.bayesian_dp.tables import matching, shown


class Measured(NamedTuple):
    """A column's mean over seeds."""

    mean: float
    noise: float | None
    """Two standard errors; None of one seed, of which nothing is known."""

    def counted(self, n: float) -> "Measured":
        """A share of n examples: with the noise of the counts, which one seed has as well."""
        return Measured(self.mean, math.hypot(count_noise((self.mean, n)), self.noise or 0.0))

    def minus(self, other: "Measured") -> "Measured":
        """The difference of two such means."""
        unknown = self.noise is None or other.noise is None
        return Measured(self.mean - other.mean, None if unknown else math.hypot(self.noise or 0.0, other.noise or 0.0))

    def above(self, limit: float) -> bool | None:
        """Whether it exceeds a number."""
        return None if self.noise is None else above(self.mean, limit, self.noise)

    def below(self, limit: float) -> bool | None:
        """Whether it stays below a number."""
        return None if self.noise is None else below(self.mean, limit, self.noise)


def measured(table: pl.DataFrame, column: str, **where: str | float | bool) -> Measured | None:
    """Over the rows that match, one a seed; None where there is none."""
    values = matching(table, column, where).to_list()
    if not values:
        return None
    return Measured(statistics.fmean(values), seed_noise(values) if len(values) > 1 else None)


def smaller(one: Measured | None, other: Measured | None) -> bool | None:
    """one < other; None where either is missing or has one seed, or where seeds differ as much."""
    return None if one is None or other is None else one.minus(other).below(0.0)


def mean_shown(found: Measured | None) -> str:
    """For sentences: the mean, or that there is none."""
    return shown(found.mean if found else None)


def more_than_half(values: Sequence[bool | None]) -> bool | None:
    """Whether more than half hold; None where the unknown ones could turn it, and where there are none."""
    sure, unknown = (sum(value is kind for value in values) for kind in (True, None))
    if 2 * sure > len(values):
        return True
    return None if not values or 2 * (sure + unknown) > len(values) else False


class Ratio(NamedTuple):
    """The geometric mean of a column's ratios over pairs of runs that share their data."""

    log: float
    noise: float | None
    """Two standard errors of the logarithm; None of one pair."""
    pairs: int

    def above(self, factor: float) -> bool | None:
        """Whether it exceeds a factor."""
        return None if self.noise is None else above(self.log, math.log(factor), self.noise)

    def below(self, factor: float) -> bool | None:
        """Whether it stays below a factor."""
        return None if self.noise is None else below(self.log, math.log(factor), self.noise)

    def within(self, factor: float) -> bool | None:
        """Whether it lies between a factor and its inverse."""
        return None if self.noise is None else below(abs(self.log), math.log(factor), self.noise)

    def __str__(self) -> str:
        """The ratio, two standard errors to either side, and the number of pairs."""
        noise = "" if self.noise is None else (f"{shown(math.exp(self.log - self.noise))} to "
                                               f"{shown(math.exp(self.log + self.noise))}, ")  # fmt: skip
        return f"{shown(math.exp(self.log))} ({noise}pairs: {self.pairs})"


def ratio(table: pl.DataFrame, column: str, *, by: str, one: Mapping[str, Any], other: Mapping[str, Any]
          ) -> Ratio | None:  # fmt: skip
    """Of the rows that match ``one`` to those that match ``other`` and agree in ``by``; None without a pair."""
    over, under = (dict(zip(matching(table, by, where), matching(table, column, where), strict=True))
                   for where in (one, other))  # fmt: skip
    logs = [math.log(over[key] / under[key]) for key in over if key in under]
    if not logs:
        return None
    return Ratio(statistics.fmean(logs), seed_noise(logs) if len(logs) > 1 else None, len(logs))
