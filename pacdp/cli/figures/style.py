"""One look for every figure: colours, and the mark of an optimistic number."""

import textwrap
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pacdp.cli.figures.names import plain
from pacdp.store.files import replacing

COLOURS = {
    "dp_pac_bayes_2018": "#d62728", "dp_pac_bayes_max_information": "#ff7f0e", "dp_pac_bayes": "#8c564b",
    "dp_gibbs_pac_bayes": "#e377c2", "dp_hoeffding_2018": "#9467bd", "dp_chernoff_2018": "#2ca02c",
    "dp_hoeffding": "#c5b0d5", "dp_chernoff": "#98df8a", "dp_kl_chernoff": "#17becf",
    "test_set_clopper_pearson": "#7f7f7f", "randomised_maurer": "#1f77b4", "randomised_private_pac_bayes": "#aec7e8",
    "half_brier_maurer": "#393b79", "half_brier_private_pac_bayes": "#9c9ede", "one_draw_disintegrated": "#8c6d31",
    "one_draw_ece": "#e7ba52", "private_pac_bayes": "#17a398", "private_kl_chernoff": "#9edae5",
    "test_set_ece": "#c7c7c7", "randomised_hybrid_pac_bayes": "#6b6ecf", "half_brier_hybrid_pac_bayes": "#5254a3",
    "prior_mean_clopper_pearson": "#637939", "finite_ensemble": "#8ca252", "vote_finite_ensemble": "#b5cf6b",
    "one_of_finitely_many": "#cedb9c", "one_draw_private_disintegrated": "#bd9e39",
    "new_examples_clopper_pearson": "#843c39", "new_examples_ece": "#ad494a", "new_examples_new_person": "#d6616b",
    "test_set_new_person": "#7b4173", "prior_mean_new_person": "#a55194",
    "poisson_sum_kl_chernoff": "#31a354",
}  # fmt: skip
OPTIMISTIC = "optimistic: assumes that SGLD has converged"
_OTHER = "#bcbd22"
_LABEL = 42  # characters of a line


def wrapped(*lines: str) -> str:
    """Lines for a bar's label, cut and broken so that bars keep their room."""
    return "\n".join(textwrap.fill(plain(line[:90]), _LABEL) for line in lines)


def colour(name: str) -> str:
    """A bound's colour in every figure."""
    return COLOURS.get(name, _OTHER)


def figure(
    rows: int, columns: int, *, width: float = 4.2, height: float = 3.2
) -> tuple[Figure, list[list[Axes]]]:
    """A grid of axes, drawn without a display."""
    mpl.use("agg")
    mpl.rcParams.update(
        {"font.size": 8, "axes.spines.top": False, "axes.spines.right": False, "legend.fontsize": 7}
    )
    drawn = Figure(figsize=(width * columns, height * rows), layout="constrained")
    grid = drawn.subplots(rows, columns, squeeze=False)
    return drawn, [list(line) for line in grid]


def error_axis(axes: Axes) -> None:
    """An axis of errors and bounds: 0 to 1, with the ceiling where vacuous bounds lie."""
    axes.set_ylim(0.0, 1.04)
    axes.axhline(1.0, color="0.8", linewidth=0.8, zorder=0)
    axes.set_ylabel("error or bound on it")


def save(drawn: Figure, stem: Path) -> list[Path]:
    """Write PNG and PDF beside each other; the PDF carries no date, so that equal figures are equal files."""
    paths = [stem.with_suffix(".png"), stem.with_suffix(".pdf")]
    options: list[dict[str, Any]] = [{"dpi": 150}, {"metadata": {"CreationDate": None}}]
    for path, how in zip(paths, options, strict=True):
        whole = BytesIO()  # the writer of PDF hides an error of the disk behind one of its own
        drawn.savefig(whole, format=path.suffix[1:], **how)
        with replacing(path) as file:
            file.write(whole.getbuffer())
    return paths
