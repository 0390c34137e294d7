"""Figures 3 and 7: reliability diagrams of SGD, DP-SGD and DP-SGLD, and the members' predictions of one image."""

from collections.abc import Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from experiments.claims import Claim, Verdict, above, count_noise, every
from experiments.figures import bayesian_dp as drawing
from experiments.figures import style
from experiments.papers.bayesian_dp.calibration import PAPER as TABLE_2
from experiments.papers.bayesian_dp.notes import cut
from experiments.papers.bayesian_dp.plans import MLP, image_jobs
from experiments.papers.bayesian_dp.seeds import Measured, mean_shown, measured, smaller
from experiments.papers.bayesian_dp.tables import finished, frame, matching, mean, shown
from experiments.recipes import Scale
from experiments.study import Job, Study

BAYESIAN = ("SGLD", "BBP", "MC Dropout")
DIAGRAMS = (("SGD", "none", False), ("SGD", "none", True), ("SGLD", "none", True), ("SGLD", "normal", True))
"""Of Figure 3: SGD, DP-SGD, and DP-SGLD without and with prior."""
MOVED = 0.1
"""Total variation between mean predictions from which on privacy is said to change them."""


def jobs(scale: Scale, seed: int) -> list[Job]:
    """Runs of Tables 1 and 2, of the first seed."""
    cells = [("SGD", "none", MLP), ("SGLD", "none", MLP), *((name, "normal", MLP) for name in BAYESIAN)]
    return [job for job in image_jobs(cells, scale, seed) if job.tags["seed"] == seed]


def table(jobs: Sequence[Job], folder: Path) -> pl.DataFrame:
    """A row a run (part "run"), a bin of its reliability curve ("bin"), a class of a member's prediction ("member")."""
    rows: list[dict[str, Any]] = []
    for job, result in finished(jobs, folder):
        confidence = result["uncertainty"]["confidence"]
        rows.append({**job.tags, "part": "run", "ece": result["test"]["ece"], "mce": result["test"]["mce"],
                     "confidence_right": confidence["right"], "confidence_wrong": confidence["wrong"],
                     "label": result["image"]["label"],
                     "failure_prob": result["reliability"]["failure_prob"]})  # fmt: skip
        columns = result["reliability"]
        names = ("left", "right", "count", "confidence", "accuracy", "lower", "upper")
        for values in zip(*(columns[name] for name in names), strict=True):
            rows.append({**job.tags, "part": "bin", **dict(zip(names, values, strict=True))})
        for member, probabilities in enumerate(result["image"]["probabilities"]):
            for k, value in enumerate(probabilities):
                rows.append({**job.tags, "part": "member", "member": member, "class": k, "probability": value})
    return frame(rows)


def draw(table: pl.DataFrame, out: Path) -> list[Path]:
    """figure: the reliability diagrams; posteriors: the members' predictions of the image."""
    drawn, grid = style.figure(1, len(DIAGRAMS), width=3.2)
    drawing.reliability(grid[0], table, DIAGRAMS)
    paths = style.save(drawn, out / "figure")
    drawn, grid = style.figure(2, len(BAYESIAN), width=3.6, height=2.6)
    drawing.posteriors(grid, table, BAYESIAN)
    return [*paths, *style.save(drawn, out / "posteriors")]


def judge(table: pl.DataFrame, scale: Scale) -> Verdict:
    """The sentences about Figures 3 and 7; the figures print no numbers."""
    seeds = 0 if table.is_empty() else table["seed"].n_unique()
    note = ("The paper does not say which image Figure 7 shows; here it is one that is hard to read. What the "
            "authors see in one image is judged on all test images where a number can say it.")  # fmt: skip
    return Verdict(claims=(_right(table), _changed(table), _less_sure(table), _sharper(table)),
                   notes=(*cut(scale, seeds=seeds), note, *_largest_gaps(table)))  # fmt: skip


def _predictions(table: pl.DataFrame, algorithm: str, *, private: bool) -> list[np.ndarray]:
    """[members, classes] of the image, for each seed."""
    if table.is_empty():
        return []
    rows = table.filter(part="member", algorithm=algorithm, prior="normal", private=private)
    return [of.sort("member", "class")["probability"].to_numpy().reshape(-1, int(str(of["class"].max())) + 1)
            for of in rows.partition_by("seed")]  # fmt: skip


def _right(table: pl.DataFrame) -> Claim:
    label = mean(table, "label")
    shares: dict[str, float | None] = {}
    verdicts: list[bool | None] = []
    for name in BAYESIAN:
        found = [] if label is None else _predictions(table, name, private=False)
        share, members = min(((float((one.argmax(1) == label).mean()), len(one)) for one in found), default=(None, 0))
        shares[name] = share
        verdicts.append(None if share is None else above(share, 0.5, count_noise((share, members))))
    return Claim(sentence='"non-DP BNNs usually predict correctly" (the image, more than half of the members of each)',
                 holds=every(verdicts),
                 evidence="; ".join(f"{name} {shown(share, 2)}" for name, share in shares.items()))  # fmt: skip


def _distance(one: np.ndarray, other: np.ndarray) -> float:
    """Total variation between mean predictions."""
    return float(0.5 * np.abs(one.mean(0) - other.mean(0)).sum())


def _moves(moved: list[float], control: list[float]) -> bool | None:
    """Whether privacy moves the prediction by MOVED at each pair of seeds, and further than another seed does."""
    if not moved or not control:
        return None
    if max(moved) < MOVED:
        return False
    return True if min(moved) >= MOVED and min(moved) > max(control) else None


def _changed(table: pl.DataFrame) -> Claim:
    verdicts, said, seeds, controls = [], [], [], []
    for name in BAYESIAN:
        plain, private = (_predictions(table, name, private=private) for private in (False, True))
        moved = [_distance(one, other) for one, other in product(plain, private)]
        control = [_distance(*pair) for runs in (plain, private) for pair in combinations(runs, 2)]
        verdicts.append(_moves(moved, control))
        said.append(f"{name} {shown(min(moved, default=None), 2)}")
        controls.append(control)
        seeds.append(f"{name} {shown(max(control, default=None), 2)}")
    beside = ("between seeds " + "; ".join(seeds)) if any(controls) else "one seed: what another changes is not known"
    return Claim(sentence='"DP changes the empirical posterior probabilities significantly" (the image: mean '
                          f"predictions differ by {MOVED} or more in total variation, and by more than two seeds do, "
                          "each)", holds=every(verdicts),
                 evidence="; ".join([*said, beside]))  # fmt: skip


def _wrong(table: pl.DataFrame, name: str) -> Measured | None:
    """Mean confidence of wrong predictions, and its noise: of the images, at most as of counts, and of the seeds."""
    where: dict[str, Any] = {"algorithm": name, "prior": "normal", "private": True}
    found = measured(table, "confidence_wrong", part="run", **where)
    if found is None:
        return None
    runs = matching(table, "confidence_wrong", {"part": "run", **where}).len()
    bins = table.filter(pl.col("part") == "bin", pl.col("count") > 0, **where)
    return found.counted(float((bins["count"] * (1.0 - bins["accuracy"])).sum()) / runs)


def _less_sure(table: pl.DataFrame) -> Claim:
    one, other = (_wrong(table, name) for name in ("SGLD", "BBP"))
    noise = one.minus(other).noise if one and other else None
    return Claim(sentence='"DP-SGLD is less confident about its mistake compared to DP-BBP" (mean confidence of all '
                          "wrong predictions)",
                 holds=smaller(one, other),
                 evidence=f"DP-SGLD {mean_shown(one)}, DP-BBP {mean_shown(other)}; two standard errors of the "
                          f"difference {shown(noise)}")  # fmt: skip


def _sharper(table: pl.DataFrame) -> Claim:
    one, other = (
        measured(table, "mce", part="run", algorithm="SGLD", prior=prior, private=True) for prior in ("normal", "none")
    )
    single = any(found is not None and found.noise is None for found in (one, other))
    return Claim(sentence="Figure 3, right two: DP-SGLD is better calibrated with the Gaussian prior than without "
                          f"(MCE; Table 2: {TABLE_2['SGLD', 'normal'][1]} against {TABLE_2['SGLD', 'none'][1]})",
                 holds=smaller(one, other),
                 evidence=f"with {mean_shown(one)}, without {mean_shown(other)}"
                          + ("; one seed" if single else ""))  # fmt: skip


def _largest_gaps(table: pl.DataFrame) -> tuple[str, ...]:
    """How many images the bins hold that set the MCEs."""
    if table.is_empty():
        return ()
    bins = table.filter(pl.col("part") == "bin", pl.col("count") > 0)
    gaps = bins.with_columns(gap=(pl.col("confidence") - pl.col("accuracy")).abs()).sort("gap", descending=True)
    counts = gaps.group_by("algorithm", "prior", "private", "seed", maintain_order=True).first()["count"]
    return (f"MCE is the largest gap of any bin, however few images are in it: here {counts.min()} to {counts.max()}.",)


STUDY = Study(
    name="dp-bnn-reliability", title="Reliability diagrams and one image's posterior predictions",
    paper="Zhang, Bu et al. (2021), Figures 3 and 7", jobs=jobs, table=table, draw=draw, judge=judge,
)  # fmt: skip
