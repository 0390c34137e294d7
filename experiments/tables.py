"""What claims, notes and figures read off a study's table: columns where others have given values."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from experiments.claims import Measured, Ratio
from pacdp.cli.figures.numbers import up_digits


def part(table: pl.DataFrame, **where: Any) -> pl.DataFrame:
    """The rows in which the columns have these values; none of an empty table, which may lack the columns.

    None stands for null, and numbers with a fraction may differ in their last digits.
    """
    return table if table.is_empty() else table.filter(*(_has(pl.col(name), value) for name, value in where.items()))


def _has(column: pl.Expr, value: Any) -> pl.Expr:
    if value is None:
        return column.is_null()
    return (column / value - 1.0).abs() < 1e-9 if isinstance(value, float) and value else column == value


def column(table: pl.DataFrame, name: str, where: Mapping[str, Any]) -> list[Any]:
    """The known values of a column in the rows that match, none where the table has no such column."""
    return [] if name not in table.columns else part(table, **where)[name].drop_nulls().to_list()


def mean(table: pl.DataFrame, name: str, **where: Any) -> float | None:
    """Mean of the known values in the rows that match; None where there is none."""
    values = column(table, name, where)
    return sum(values) / len(values) if values else None


def measured(table: pl.DataFrame, name: str, **where: Any) -> Measured | None:
    """The same with its noise, of rows of which there is one a seed."""
    return Measured.of(column(table, name, where))


def ratio(table: pl.DataFrame, name: str, *, by: str, one: Mapping[str, Any], other: Mapping[str, Any]) -> Ratio | None:
    """Pairs of the rows that match ``one`` to those that match ``other`` and agree in ``by``; None without a pair."""
    return Ratio.of(*(by_key(table, name, by=by, **side) for side in (one, other)))


def by_key(table: pl.DataFrame, name: str, *, by: str, **where: Any) -> dict[Any, float]:
    """The known values of a column by another one's, in the rows that match; none where it is missing."""
    if table.is_empty() or name not in table.columns:
        return {}
    return dict(part(table, **where).select(by, name).drop_nulls().iter_rows())


def ordered(table: pl.DataFrame, name: str) -> list[Any]:
    """The known values of a column, each once, in the order in which they come."""
    return [] if name not in table.columns else table[name].drop_nulls().unique(maintain_order=True).to_list()


def pooled(table: pl.DataFrame) -> pl.DataFrame:
    """Reliability curves of all seeds together, one a procedure and data set: confidence, accuracy, count and share of
    each bin; NaN where it is empty."""
    weight, curve = pl.col("count"), ("data", "procedure")
    sums = table.group_by(*curve, "left", "right").agg(
        weight.sum(),
        *(((pl.col(name) * weight).sum() / weight.sum()).alias(name) for name in ("confidence", "accuracy")),
    )
    return sums.with_columns((weight / weight.sum().over(*curve)).alias("share")).sort(*curve, "left")


def shown(value: float | None, places: int = 3) -> str:
    """For sentences: a number, or that there is none."""
    return "missing" if value is None else f"{value:.{places}f}"


def epsilon_shown(value: float | None) -> str:
    """For sentences: an epsilon to four digits, rounded up, or that there is none."""
    return "missing" if value is None else up_digits(value, 4)
