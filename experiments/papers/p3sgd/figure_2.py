"""Figure 2: loss on training and test data along the run, SGD and P3SGD."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from experiments.figures import p3sgd as figures
from experiments.figures.style import figure, save
from experiments.papers.chance import above
from experiments.papers.p3sgd import notes
from experiments.papers.p3sgd.problems import PRIVATE, SGD, problems, seeds
from experiments.papers.p3sgd.rows import by_record, decide, mean, ordered, shown
from experiments.recipes import Scale
from experiments.studies.study import Claim, Comparison, Job, Study, Verdict


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
    ends = last(table)
    gap = {name: mean(ends, "loss_gap", problem=problem, strategy=name) for name in (SGD, PRIVATE)}
    test = {name: mean(ends, "test_loss", problem=problem, strategy=name) for name in (SGD, PRIVATE)}
    best = mean(ends, "best_test_loss", problem=problem, strategy=SGD)
    return [
        Claim(sentence=f"{problem}: P3SGD significantly reduces the overfitting compared to SGD (caption of Figure 2; "
                       "here: its test loss exceeds its training loss by less than half of SGD's excess)",
              holds=decide(lambda ours, sgd: ours < sgd / 2.0 if sgd > 0.0 else None, gap[PRIVATE], gap[SGD]),
              evidence=f"{shown(gap[PRIVATE], 3)} nats against {shown(gap[SGD], 3)}"),
        Claim(sentence=f"{problem}: P3SGD ends with a lower test loss than SGD (our reading of Figure 2, whose "
                       "curves are not in the text; None within a tenth)",
              holds=decide(lambda ours, sgd: above(sgd, ours, 0.1 * sgd), test[PRIVATE], test[SGD]),
              evidence=f"{shown(test[PRIVATE], 3)} nats against {shown(test[SGD], 3)}"),
        Claim(sentence=f"{problem}: SGD overfits, its test loss ends a tenth above its lowest (Section 4.2: it "
                       "obviously overfits; the tenth is ours)",
              holds=decide(lambda end, low: end > 1.1 * low, test[SGD], best),
              evidence=f"lowest {shown(best, 3)}, at the end {shown(test[SGD], 3)} nats"),
    ]  # fmt: skip


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
