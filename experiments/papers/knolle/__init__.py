"""Knolle et al. (2021), differentially private training of neural networks with Langevin dynamics.

benches         data, networks, budgets, step sizes
runs            the runs of every study; a run that two of them need has one key
tables          from result files to tables
verdicts        the paper's numbers and sentences against the tables
open_questions  what Figure 1 shows; pre-noise and decay, which the paper leaves to future work
"""

from pathlib import Path

import polars as pl

from experiments.figures import knolle as drawing
from experiments.figures import style
from experiments.papers.knolle.open_questions import judge_ablation, judge_figure, pooled
from experiments.papers.knolle.runs import ablation_jobs, figure_jobs, mnist_jobs, xray_jobs
from experiments.papers.knolle.tables import by_bin, by_run
from experiments.papers.knolle.verdicts import PRINTED, judge_table
from experiments.studies.study import Study

_PAPER = "Knolle et al., 2021"


def draw_table(table: pl.DataFrame, out: Path) -> list[Path]:
    """Accuracy, AUC and ECE of each procedure, a dot a seed, beside the printed numbers of the same data."""
    drawn, grid = style.figure(1, 3, width=3.6)
    names = table["data"].unique().to_list()
    theirs = len(names) == 1 and "digits" not in table["stands_for"].to_list()
    drawing.draw_scores(grid[0], table, PRINTED[names[0]] if theirs else {})
    return style.save(drawn, out / "figure")


def draw_figure(table: pl.DataFrame, out: Path) -> list[Path]:
    """Figure 1: calibration curves of both data sets, the histogram of confidences of the second."""
    drawn, grid = style.figure(1, 3, width=3.8, height=4.0)
    drawing.draw_curves(grid[0], table, pooled(table))
    return style.save(drawn, out / "figure")


def draw_ablation(table: pl.DataFrame, out: Path) -> list[Path]:
    """ECE, NLL and accuracy of the four cells: a row of panels a data set."""
    names = sorted(table["data"].unique().to_list())
    drawn, grid = style.figure(max(1, len(names)), 3, width=3.6, height=2.8)
    for line, name in zip(grid, names, strict=False):
        drawing.draw_cells(line, table.filter(pl.col("data") == name), name)
    return style.save(drawn, out / "figure")


TABLE_1 = Study(
    name="knolle-table-1", title="DP-SGD, DP-SGLD and SGD on MNIST at epsilon 0.5", paper=f"{_PAPER}, Table 1",
    jobs=mnist_jobs, table=by_run, draw=draw_table, judge=judge_table,
)  # fmt: skip
TABLE_2 = Study(
    name="knolle-table-2", title="DP-SGD, DP-SGLD and SGD on children's chest X-rays at epsilon 6",
    paper=f"{_PAPER}, Table 2", jobs=xray_jobs, table=by_run, draw=draw_table, judge=judge_table,
)  # fmt: skip
FIGURE_1 = Study(
    name="knolle-figure-1", title="Calibration curves and confidences of SGD, DP-SGD and DP-SGLD",
    paper=f"{_PAPER}, Figure 1", jobs=figure_jobs, table=by_bin, draw=draw_figure, judge=judge_figure,
)  # fmt: skip
ABLATION = Study(
    name="knolle-ablation", title="DP-SGLD with and without pre-noise and decay",
    paper=f"{_PAPER}, Section 6 (left to future work)", jobs=ablation_jobs, table=by_run, draw=draw_ablation,
    judge=judge_ablation,
)  # fmt: skip
STUDIES = (TABLE_1, TABLE_2, FIGURE_1, ABLATION)
