"""Figure 2: loss on training and test data along the run, SGD and P3SGD."""

import math
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from experiments.claims import Claim, Comparison, Verdict, above, seed_noise
from experiments.figures import p3sgd as figures
from experiments.figures.style import figure, save
from experiments.papers.p3sgd import notes
from experiments.papers.p3sgd.problems import PRIVATE, SGD, problems, seeds
from experiments.papers.p3sgd.rows import by_record, decide, mean, ordered, shown
from experiments.recipes import Scale
from experiments.study import Job, Study

_EXCESS = 0.05
"""Of the test loss over the training loss in nats, from which on SGD is said to overfit."""


def jobs(scale: Scale, seed: int) -> list[Job]:
    """Every problem by SGD and P3SGD, twenty records each."""
    return [
        problem.job(strategy, problem.strategies()[strategy], seed=s)
        for problem in problems(scale)
        for strategy in (SGD, PRIVATE)
        for s in seeds(scale, seed)
    ]


def table(jobs: Sequence[Job], folder: Path) -> pl.DataFrame:
    """A row a record."""
    return by_record(jobs, folder)


def draw(table: pl.DataFrame, out: Path) -> list[Path]:
    """One panel a problem, epochs to the right: passes over the images, expected ones where people are sampled."""
    names = ordered(table, "problem")
    drawn, grid = figure(1, max(1, len(names)), width=3.2, height=2.8)
    for axes, name in zip(grid[0], names, strict=False):
        figures.losses(axes, table.filter(pl.col("problem") == name), name)
    return save(drawn, out / "figure")


def judge(table: pl.DataFrame, scale: Scale) -> Verdict:
    """Whether the test loss parts from the training loss, and for whom."""
    names = ordered(table, "problem")
    said = (
        *notes.common(scale),
        "The figure has no printed numbers, and its curves are not in the text at hand. "
        "Losses are mean cross-entropies in nats of the whole training and test "
        "set, dropout off; P3SGD's were computed on the data without noise, which no epsilon covers.",
        *_flat(table),
    )
    return Verdict(comparisons=tuple(c for name in names for c in _compared(table, name)),
                   claims=tuple(c for name in names for c in _claims(table, name)), notes=said)  # fmt: skip


def last(table: pl.DataFrame) -> pl.DataFrame:
    """The last record of each run, with the smallest test loss on the way and the difference of the two losses."""
    run = ["problem", "strategy", "seed"]
    ends = table.sort("epochs").group_by(run, maintain_order=True).agg(
        pl.col("train_loss", "test_loss", "test_error").last(),
        best_test_loss=pl.col("test_loss").min(), first_test_loss=pl.col("test_loss").first(),
    )  # fmt: skip
    return ends.with_columns(loss_gap=pl.col("test_loss") - pl.col("train_loss"))


def _compared(table: pl.DataFrame, problem: str) -> list[Comparison]:
    ends = last(table)
    return [
        Comparison(
            what=f"{problem}, {strategy}: {column.replace('_', ' ')} at the end, nats",
            paper=None,
            ours=mean(ends, column, problem=problem, strategy=strategy),
            why=notes.WHY,
        )
        for strategy in (SGD, PRIVATE)
        for column in ("train_loss", "test_loss")
    ]


def _claims(table: pl.DataFrame, problem: str) -> list[Claim]:
    ends = last(table).filter(problem=problem)
    (gap, gap_noise), (sgd_gap, sgd_gap_noise) = (_over_seeds(ends, name, "loss_gap") for name in (PRIVATE, SGD))
    (test, noise), (sgd, sgd_noise) = (_over_seeds(ends, name, "test_loss") for name in (PRIVATE, SGD))
    best, best_noise = _over_seeds(ends, SGD, "best_test_loss")

    def reduced(ours: float, theirs: float) -> bool | None:
        return above(theirs / 2.0, ours, math.hypot(gap_noise, sgd_gap_noise / 2.0)) if theirs > _EXCESS else None

    return [
        Claim(sentence=f"{problem}: P3SGD significantly reduces the overfitting compared to SGD (caption of Figure 2; "
                       "here: its test loss exceeds its training loss by less than half of SGD's excess; left open "
                       f"where that is below {_EXCESS:g} nats)",
              holds=decide(reduced, gap, sgd_gap), evidence=f"{shown(gap, 3)} nats against {shown(sgd_gap, 3)}"),
        Claim(sentence=f"{problem}: P3SGD ends with a lower test loss than SGD (our reading of Figure 2, whose "
                       "curves are not in the text; left open within a tenth)",
              holds=decide(lambda ours, theirs: above(theirs, ours, math.hypot(0.1 * theirs, noise, sgd_noise)), test,
                           sgd),
              evidence=f"{shown(test, 3)} nats against {shown(sgd, 3)}"),
        Claim(sentence=f"{problem}: SGD overfits, its test loss ends a tenth above its lowest (Section 4.2: it "
                       "obviously overfits; the tenth is ours)",
              holds=decide(lambda end, low: above(end, 1.1 * low, math.hypot(sgd_noise, 1.1 * best_noise)), sgd, best),
              evidence=f"lowest {shown(best, 3)}, at the end {shown(sgd, 3)} nats"),
    ]  # fmt: skip


def _over_seeds(ends: pl.DataFrame, strategy: str, column: str) -> tuple[float | None, float]:
    """Mean over the seeds, and two standard errors of it."""
    return mean(ends, column, strategy=strategy), seed_noise(ends.filter(strategy=strategy)[column].to_list())


def _flat(table: pl.DataFrame) -> tuple[str, ...]:
    ends = last(table).filter(pl.col("strategy") == PRIVATE)
    return tuple(
        f"{problem}: P3SGD ends with a higher test loss ({shown(end, 3)} nats) than its first weights had "
        f"({shown(first, 3)})."
        for problem in ordered(ends, "problem")
        if (end := mean(ends, "test_loss", problem=problem)) is not None
        and (first := mean(ends, "first_test_loss", problem=problem)) is not None
        and end >= first
    )


STUDY = Study(name="p3sgd-figure-2", title="Loss on training and test data along the run",
              paper=f"{notes.PAPER}, Figure 2", jobs=jobs, table=table, draw=draw, judge=judge)  # fmt: skip
