"""What the calibration frontier's own seeds leave open, asked of new seeds.

The frontier chooses among settings on half of its seeds and judges on the other half. Where these are too few, all of
its seeds choose here, and seeds that it has not seen judge: two runs a seed in the place of a whole grid. The chosen
settings are written down (:mod:`experiments.papers.runs.frontier_plans`), and a test holds them against the frontier's
table.
"""

from collections.abc import Iterator, Sequence

import polars as pl

from experiments.claims import Claim, Point, judging, point
from experiments.figures import calibration_pairs as figures
from experiments.job_costs import by_seeds
from experiments.papers import calibration_claims as rules
from experiments.papers.calibration_cells import Cells, Pair
from experiments.papers.calibration_frontier import COLUMNS, by_prediction, clip_norm_point
from experiments.papers.runs.frontier_plans import BENCHES, BEST_CLIP, TWO_CLIPS, jobs_of_pairs
from experiments.study import Study, drawing, tabled
from experiments.tables import part
from pacdp.cli.recipes import Scale


def two_clips(cells: Cells, scale: Scale) -> Pair | None:
    """The two clip norms that the frontier has chosen, with the seeds that judge them."""
    chosen = TWO_CLIPS[scale].get(cells.name)
    if chosen is None:
        return None
    one, other = (cells.at(clip, reach=chosen.reach, steps=chosen.steps) for clip in (chosen.more, chosen.less))
    return Pair(one, other, cells.shared([one, other]))


def claims(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """The sentences that the frontier leaves open, bench by bench."""
    for cells in _cells(table, scale):
        pair, best = two_clips(cells, scale), BEST_CLIP[scale].get(cells.name)
        if pair is not None:
            yield rules.clip_norm_alone(cells, pair)
        if best is not None:
            rival = cells.at(best.clip)
            yield rules.beyond_clip_norm(cells, rival, set(cells.values("ece", rival)))


def _cells(table: pl.DataFrame, scale: Scale) -> list[Cells]:
    return [Cells(part(table, bench=bench.name), bench) for bench in BENCHES[scale]]


def points(table: pl.DataFrame, scale: Scale, made: Sequence[Claim]) -> Iterator[Point]:
    """What the clip norm does alone, where the frontier leaves it open."""
    for cells in _cells(table, scale):
        pair = two_clips(cells, scale)
        if pair is not None:
            yield point(made, f"{cells.name}: {rules.alone(cells.bench)}", clip_norm_point(cells, pair))


def notes(table: pl.DataFrame, scale: Scale) -> Iterator[str]:
    """Who chose and who judges."""
    if scale == "smoke":
        yield "scikit-learn's 8x8 digits stand in for the papers' data, in settings that nothing has chosen."
    else:
        yield (
            "The settings are those that all seeds of private-calibration choose: of two clip norms whose mean "
            "accuracies differ by at most a hundredth those of the greatest ratio of mean ECE; for noise before "
            "clipping DP-SGD's clip norm of least mean ECE. The seeds here are others and judge alone. All are judged "
            "on one test set, which chose too. Budgets, units and rules are private-calibration's. On clip norms the "
            "answer is that of those which private-calibration has, on the five-layer CNN three: between others the "
            "ratio may be larger."
        )


PAIRS = Study(
    name="private-calibration-pairs",
    title="Accuracy against calibration, asked of new seeds",
    paper="Knolle et al. (2021), what private-calibration leaves open",
    jobs=jobs_of_pairs,
    table=tabled(by_prediction, COLUMNS),
    draw=drawing(figure=figures.draw),
    judge=judging(claims=claims, notes=notes, points=points, settled_by=by_seeds(jobs_of_pairs)),
    scales=("smoke", "cpu"),
)
STUDIES = (PAIRS,)
