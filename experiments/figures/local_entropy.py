"""Local entropy, the bound that it minimises and the empirical risk, over the prior's mean."""

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from pacdp.cli.figures import style

_PANELS = (
    ("local_entropy_nats", "local entropy, nats", max),
    ("bound", "PAC-Bayes bound", min),
    ("risk", "empirical risk", min),
)


def draw(table: pl.DataFrame) -> Figure:
    """Three maps; a star where the best value is."""
    means = table.filter(pl.col("what") == "mean").sort("first", "second")
    drawn, (places,) = style.figure(1, 3, width=4.0, height=3.4)
    side = round(means.height**0.5)
    for axes, (name, title, best) in zip(places, _PANELS, strict=True):
        first, second, values = (np.asarray(means[one]).reshape(side, side) for one in ("first", "second", name))
        filled = axes.contourf(first, second, values, levels=20)
        drawn.colorbar(filled, ax=axes)
        at = int(values.argmax() if best is max else values.argmin())
        axes.plot(first.flat[at], second.flat[at], "*", color="red", markersize=12)
        axes.set_title(title)
        axes.set_xlabel("first weight of the prior's mean")
        axes.set_ylabel("second weight")
    return drawn
