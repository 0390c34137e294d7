"""Rows of a study's table in which columns have given values."""

from typing import Any

import polars as pl


def part(table: pl.DataFrame, **where: Any) -> pl.DataFrame:
    """The rows in which the columns have these values; none of an empty table, which may lack the columns.

    None stands for null, and numbers with a fraction may differ in their last digits.
    """
    return table if table.is_empty() else table.filter(*(_has(pl.col(name), value) for name, value in where.items()))


def _has(column: pl.Expr, value: Any) -> pl.Expr:
    if value is None:
        return column.is_null()
    if isinstance(value, list | tuple | set):
        return column.is_in(list(value))
    return (column / value - 1.0).abs() < 1e-9 if isinstance(value, float) and value else column == value


def ordered(table: pl.DataFrame, name: str) -> list[Any]:
    """The known values of a column, each once, in the order in which they come."""
    return [] if name not in table.columns else table[name].drop_nulls().unique(maintain_order=True).to_list()
