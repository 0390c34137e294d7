"""One look for every figure: colours, and the mark of an optimistic number."""

import textwrap
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from pacdp.cli.figures.names import NAMES, plain
from pacdp.cli.folder import write_telling
from pacdp.cli.serial import Values
from pacdp.store.files import write_whole

OPTIMISTIC = "optimistic: assumes that SGLD has converged"
_OTHER = "#bcbd22"
_LABEL = 62  # characters of a line: a name with a dozen numbers of hypotheses


def wrapped(*lines: str) -> str:
    """Lines for a bar's label, cut and broken so that bars keep their room."""
    return "\n".join(textwrap.fill(plain(line[:90]), _LABEL) for line in lines)


def colour(name: str) -> Any:
    """A bound's colour in every figure."""
    return mpl.colormaps["tab20"](list(NAMES).index(name) % 20) if name in NAMES else _OTHER


def figure(
    rows: int,
    columns: int,
    *,
    width: float = 4.2,
    height: float = 3.2,
    heights: Sequence[float] | None = None,
) -> tuple[Figure, list[list[Axes]]]:
    """A grid of axes, drawn without a display; all rows of one height, or each of its own."""
    heights = heights or [height] * rows
    mpl.use("agg")
    mpl.rcParams.update(
        {"font.size": 8, "axes.spines.top": False, "axes.spines.right": False, "legend.fontsize": 7}
    )
    drawn = Figure(figsize=(width * columns, sum(heights)), layout="constrained")
    grid = drawn.subplots(rows, columns, squeeze=False, height_ratios=heights)
    return drawn, [list(line) for line in grid]


def error_axis(axes: Axes) -> None:
    """An axis of errors and bounds: 0 to 1, with the ceiling where vacuous bounds lie."""
    axes.set_ylim(0.0, 1.04)
    axes.axhline(1.0, color="0.8", linewidth=0.8, zorder=0)
    axes.set_ylabel("error or bound on it")
    in_percent(axes.yaxis)


def in_percent(axis: Axis) -> None:
    """Write an axis of errors in percent, as sentences do."""
    axis.set_major_formatter(PercentFormatter(1.0))


def save(drawn: Figure, stem: Path, *, keep: bool = True) -> list[Path]:
    """Write PNG and PDF beside each other; the PDF carries no date, so that equal figures are equal files.

    Args:
        keep: whether other files that stand there are kept, see :func:`pacdp.cli.folder.write_telling`.
    """
    paths = [stem.with_suffix(".png"), stem.with_suffix(".pdf")]
    options: list[Values] = [{"dpi": 150}, {"metadata": {"CreationDate": None}}]
    for path, how in zip(paths, options, strict=True):
        whole = BytesIO()  # the writer of PDF hides an error of the disk behind one of its own
        drawn.savefig(whole, format=path.suffix[1:], **how)
        (write_telling if keep else write_whole)(path, whole.getvalue())
    return paths
