"""What several papers' figures are made of: scores by group, legends where there is one, numbers on axes."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter


def legend(axes: Axes, **how: Any) -> None:
    """A legend, unless nothing is labelled."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(**how)


def plain_log(axis: Axis) -> None:
    """Numbers as they are written, at 1, 2 and 5 of each power of ten, on an axis that is logarithmic already."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def groups(
    axes: Axes, values: Mapping[str, Sequence[float]], colours: Mapping[str, str], printed: Mapping[str, float]
) -> None:
    """A dot a value, a bar at the mean of each group, a cross at the paper's number."""
    for x, (name, found) in enumerate(values.items()):
        axes.plot([x] * len(found), found, "o", color=colours[name], markersize=4, alpha=0.7)
        if found:
            axes.hlines(sum(found) / len(found), x - 0.25, x + 0.25, color=colours[name], linewidth=2)
        if name in printed:
            axes.plot([x + 0.15], [printed[name]], "x", color="black", label="paper" if x == 0 else None)
    axes.set_xticks(range(len(values)), [name.replace(", ", ",\n").replace(" by", "\nby") for name in values])
    axes.tick_params("x", labelsize=6)
