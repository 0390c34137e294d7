"""Numbers on the axes of figures."""

from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter


def plain_log(axis: Axis) -> None:
    """Numbers as they are written, at 1, 2 and 5 of each power of ten, on an axis that is logarithmic already."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
