"""Private calibration as a frontier: accuracy against calibration at a fixed epsilon, over clip norm, step size, number
of steps, falling steps, noise before clipping, and averaging."""

from collections.abc import Iterator

import polars as pl

from experiments.claims import judging
from experiments.papers.runs.frontier_plans import jobs
from experiments.study import Done, Row, Study, columns, drawing, tabled

COLUMNS = columns(
    (pl.String, "bench method"),
    (pl.Boolean, "averaged"),
    (pl.String, "slot"),
    (pl.Float64, "clip_norm reach"),
    (pl.Boolean, "decay"),
    (pl.Float64, "pre_noise"),
    (pl.Int64, "steps passes seed"),
    (pl.Float64, "accuracy ece sce ace nll_nats mce rmsce mean_confidence sigma epsilon clipped_share"),
)


def by_prediction(done: Done) -> Iterator[Row]:
    """One row for the last weights (or one draw of random ones) and one for the mean of several predictions."""
    result = done.result
    own = {name: _short(result.get(name), up=name == "epsilon") for name in ("sigma", "epsilon", "clipped_share")}
    for name, scores in result["scores"].items():
        rounded = {key: _short(value) for key, value in scores.items() if key in COLUMNS}
        yield {**done.tags, **own, **rounded, "averaged": name == "averaged"}


def _short(value: float | None, *, up: bool = False) -> float | None:
    """Five decimals, so that the table stays small; an epsilon is rounded up."""
    return None if value is None else round(value + (5e-6 if up else 0.0), 5)


FRONTIER = Study(
    name="private-calibration",
    title="Accuracy against calibration at a fixed epsilon",
    paper="Knolle et al. (2021) and Zhang, Bu et al. (2021), their sentences on calibration",
    jobs=jobs,
    table=tabled(by_prediction, COLUMNS),
    draw=drawing(),
    judge=judging(claims=lambda table, scale: (), notes=lambda table, scale: ()),
)
STUDIES = (FRONTIER,)
