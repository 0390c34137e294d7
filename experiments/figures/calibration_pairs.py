"""ECE of two settings of one seed, seed by seed."""

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from experiments.figures.panels import legend
from experiments.tables import column, mean, ordered, part
from pacdp.cli.figures import style


def draw(table: pl.DataFrame) -> Figure:
    """A panel a bench: each setting's ECE, the seeds from left to right, with a line across at the mean."""
    last = part(table, averaged=False)
    benches = ordered(last, "bench") or [""]
    drawn, (axes,) = style.figure(1, len(benches), width=3.4, height=2.8)
    for place, bench in zip(axes, benches, strict=True):
        own = part(last, bench=bench)
        for number, (key, rows) in enumerate(own.group_by(_SETTING, maintain_order=True)):
            colour, rows = f"C{number}", rows.sort("seed")
            place.plot(rows["seed"], rows["ece"], "o", color=colour, markersize=3, alpha=0.6, label=_said(key))
            place.axhline(mean(rows, "ece") or 0.0, color=colour, linewidth=1.0)
        place.set_title(bench, fontsize=8)
        place.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
        place.set_xlabel("seed")
        place.set_ylim(0.0, _ROOM * max(column(own, "ece", {}), default=1.0))
        if own.height:
            legend(place, fontsize=6, loc="upper right")
    axes[0].set_ylabel("ECE; lines: means over seeds")
    return drawn


_SETTING = ["clip_norm", "pre_noise"]
_ROOM = 1.4
"""Above the largest value, for the legend."""


def _said(key: tuple[object, ...]) -> str:
    clip, noise = (float(str(one)) for one in key)
    return f"clip norm {clip:g}" + (f", noise before clipping {noise:g} times as long" if noise else "")
