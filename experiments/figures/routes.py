"""Certificates and test errors of several routes against the number of labelled images."""

from typing import Any

import polars as pl

from pacdp.cli.figures import style


def draw(table: pl.DataFrame) -> Any:
    """A line a route: the certificate, and dotted in its colour the test error of its network."""
    drawn, grid = style.figure(1, 1, width=5.5, height=4.0)
    axes = grid[0][0]
    for route in table["route"].unique(maintain_order=True):
        own = table.filter(pl.col("route") == route).sort("n")
        (line,) = axes.plot(own["n"], own["value"], marker="o", label=route)
        tested = own.filter(pl.col("test_error").is_not_null())
        axes.plot(tested["n"], tested["test_error"], linestyle=":", color=line.get_color())
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("labelled images")
    axes.set_ylabel("certificate, 95%; dotted: test error")
    axes.legend(fontsize=7)
    axes.set_title("certificates by route")
    return drawn
