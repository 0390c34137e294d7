"""Figures 3 and 7: reliability diagrams of SGD, DP-SGD and DP-SGLD, and the members' predictions of one image."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from experiments.figures import bayesian_dp as drawing
from experiments.figures import style
from experiments.papers.bayesian_dp.notes import cut
from experiments.papers.bayesian_dp.plans import MLP, image_jobs
from experiments.papers.bayesian_dp.tables import below, every, finished, frame, mean, shown
from experiments.recipes import Scale
from experiments.studies.study import Claim, Job, Study, Verdict

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
    note = ("The paper does not say which image Figure 7 shows; here it is one that is hard to read. What the "
            "authors see in one image is judged on all test images where a number can say it. "
            "One seed: small differences are its own.")  # fmt: skip
    return Verdict(
        claims=(_right(table), _changed(table), _less_sure(table), _sharper(table)), notes=(*cut(scale), note)
    )


def _predictions(table: pl.DataFrame, algorithm: str, *, private: bool) -> np.ndarray | None:
    """[members, classes] of the image."""
    if table.is_empty():
        return None
    rows = table.filter(part="member", algorithm=algorithm, prior="normal", private=private)
    if rows.is_empty():
        return None
    rows = rows.sort("member", "class")
    return rows["probability"].to_numpy().reshape(-1, int(str(rows["class"].max())) + 1)


def _right(table: pl.DataFrame) -> Claim:
    label = mean(table, "label")
    shares = {}
    for name in BAYESIAN:
        found = _predictions(table, name, private=False)
        shares[name] = None if found is None or label is None else float((found.argmax(1) == int(label)).mean())
    return Claim(sentence='"non-DP BNNs usually predict correctly" (the image, more than half of the members of each)',
                 holds=every([below(0.5, share) for share in shares.values()]),
                 evidence="; ".join(f"{name} {shown(share, 2)}" for name, share in shares.items()))  # fmt: skip


def _changed(table: pl.DataFrame) -> Claim:
    moved: dict[str, float | None] = {}
    for name in BAYESIAN:
        one, other = (_predictions(table, name, private=private) for private in (False, True))
        if one is None or other is None:
            moved[name] = None
        else:
            moved[name] = float(0.5 * np.abs(one.mean(0) - other.mean(0)).sum())
    return Claim(sentence='"DP changes the empirical posterior probabilities significantly" (the image: mean '
                          f"predictions differ by {MOVED} or more in total variation, each)",
                 holds=every([below(MOVED - 1e-12, value) for value in moved.values()]),
                 evidence="; ".join(f"{name} {shown(value, 2)}" for name, value in moved.items()))  # fmt: skip


def _less_sure(table: pl.DataFrame) -> Claim:
    one, other = (mean(table, "confidence_wrong", part="run", algorithm=name, prior="normal", private=True)
                  for name in ("SGLD", "BBP"))  # fmt: skip
    return Claim(sentence='"DP-SGLD is less confident about its mistake compared to DP-BBP" (mean confidence of all '
                          "wrong predictions)", holds=below(one, other),
                 evidence=f"DP-SGLD {shown(one)}, DP-BBP {shown(other)}")  # fmt: skip


def _sharper(table: pl.DataFrame) -> Claim:
    one, other = (
        mean(table, "mce", part="run", algorithm="SGLD", prior=prior, private=True) for prior in ("normal", "none")
    )
    return Claim(sentence="Figure 3, right two: DP-SGLD is better calibrated with the Gaussian prior than without "
                          "(MCE; Table 2: 0.175 against 0.465)",
                 holds=below(one, other), evidence=f"with {shown(one)}, without {shown(other)}")  # fmt: skip


STUDY = Study(
    name="dp-bnn-reliability", title="Reliability diagrams and one image's posterior predictions",
    paper="Zhang, Bu et al. (2021), Figures 3 and 7", jobs=jobs, table=table, draw=draw, judge=judge,
)  # fmt: skip
