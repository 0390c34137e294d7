"""Figure 5: Entropy-SGLD on CIFAR-10 at many tau, with gamma 0.03 and 3, on true and random labels."""

import math
from pathlib import Path
from typing import Any

import polars as pl

from experiments.figures import entropy_sgld as drawing
from experiments.figures import style
from experiments.papers.chance import rises
from experiments.papers.entropy_sgld import judging, rows
from experiments.papers.entropy_sgld.cifar import SWEEP_GAMMAS, TAU_SIZES, TAUS, notes, one
from experiments.papers.entropy_sgld.settings import LABELS, PAPER
from experiments.recipes import Scale
from experiments.studies.study import Claim, Comparison, Job, Study, Verdict
from pacdp import Architecture

Row = dict[str, Any]
_GOOD = 0.3
_OVERFITTED = 0.1
_NET = Architecture(name="cnn5")


def jobs(scale: Scale, seed: int) -> list[Job]:
    """Each tau at both gammas, on true and random labels; beta 1."""
    return [
        one(TAU_SIZES[scale], scale=scale, small=_NET, labels=labels, tau=tau, gamma=gamma, beta=1.0, seed=seed)
        for gamma in SWEEP_GAMMAS
        for labels in LABELS
        for tau in TAUS[scale]
    ]


def draw(table: pl.DataFrame, out: Path) -> list[Path]:
    """The paper's four panels: a row a gamma, true labels left."""
    drawn, grid = style.figure(2, 2, width=5.0)
    last = rows.final(table)
    for line, gamma in zip(grid, SWEEP_GAMMAS, strict=True):
        for axes, labels in zip(line, LABELS, strict=True):
            part = last.filter((pl.col("gamma") - gamma).abs() < 1e-12, pl.col("labels") == labels)
            drawing.over_a_setting(axes, part, x="tau", label="tau", title=f"gamma {gamma:g}, {labels} labels")
    drawing.legend([axes for line in grid for axes in line])
    return style.save(drawn, out / "figure")


def judge(table: pl.DataFrame, scale: Scale) -> Verdict:
    """The caption and Appendix E.1."""
    wide, narrow = ([row for row in _sorted(table, gamma, "random")] for gamma in SWEEP_GAMMAS)
    true = _sorted(table, SWEEP_GAMMAS[0], "true")
    claims = (
        _only_where_vacuous(true),
        judging.gaps_claim("Very little overfitting occurs for small tau (the smallest here), on true and random "
                           "labels.", [line[0] for line in (wide, true) if line], most=0.02),
        _largest_gap(wide),
        judging.gaps_claim("At the largest tau random labels are overfitted, gamma 0.03.", wide[-1:],
                           least=_OVERFITTED),
        _onset(wide, narrow),
        judging.violations_claim(table, "No generalization bounds are violated.", share=0.0),
    )  # fmt: skip
    others = ("With fewer examples overfitting sets in at a smaller tau than the paper's: tau/n is what counts.",)
    return Verdict(comparisons=_comparisons(wide, narrow, true), claims=claims,
                   notes=(*notes(scale, TAU_SIZES[scale], *others), *judging.violation_notes(table)))  # fmt: skip


def _sorted(table: pl.DataFrame, gamma: float, labels: str) -> list[Row]:
    return sorted(judging.last(table, gamma=gamma, labels=labels), key=lambda row: row["tau"])


def _comparisons(wide: list[Row], narrow: list[Row], true: list[Row]) -> tuple[Comparison, ...]:
    why = "the smallest tau of our grid with a gap beyond 0.1; a small network and subset below scale paper"
    largest = max((judging.gap(row) for row in true), default=None)
    return (
        judging.compared("Caption: tau beyond which random labels are overfitted, gamma 0.03", ">5e4",
                         _first_overfitted(wide), why),
        judging.compared("Caption: tau beyond which random labels are overfitted, gamma 3", ">2e2",
                         _first_overfitted(narrow), why),
        judging.compared("Appendix E.1: largest generalization error on true labels, gamma 0.03", "<=0.2", largest,
                         "a small network and subset below scale paper"),
    )  # fmt: skip


def _first_overfitted(line: list[Row]) -> float | None:
    return next((row["tau"] for row in line if judging.gap(row) > _OVERFITTED + judging.noise_of(row)), None)


def _only_where_vacuous(true: list[Row]) -> Claim:
    sentence = ("At gamma 0.03 Entropy-SGLD finds good classifiers (test error lower than 0.3) only at the values of "
                "tau for which both generalization bounds are vacuous.")  # fmt: skip
    good = [row for row in true if row["test_error"] < _GOOD]
    if not good:
        best = min((row["test_error"] for row in true), default=math.nan)
        return Claim(sentence=sentence, holds=None, evidence=f"no test error is below 0.3; the best is {best:.3f}")
    told = "; ".join(f"tau {row['tau']:g}: test {row['test_error']:.3f}, PAC-Bayes {row['dp_pac_bayes_2018']:.3f}, "
                     f"C-bound {row['dp_chernoff_2018']:.3f}" for row in good)  # fmt: skip
    vacuous = all(row[name] >= 1.0 for row in good for name in ("dp_pac_bayes_2018", "dp_chernoff_2018"))
    return Claim(sentence=sentence, holds=vacuous, evidence=told)


def _largest_gap(line: list[Row]) -> Claim:
    sentence = "On random labels the generalization gap increases with tau."
    if len(line) < 2:
        return Claim(sentence=sentence, holds=None, evidence="fewer than two runs have finished")
    told = "; ".join(f"tau {row['tau']:g}: {judging.gap(row):.3f}" for row in line)
    holds = rises([judging.gap(row) for row in line], [judging.noise_of(row) for row in line])
    return Claim(sentence=sentence, holds=holds, evidence=told)


def _onset(wide: list[Row], narrow: list[Row]) -> Claim:
    sentence = "At gamma 3 Entropy-SGLD starts overfitting random labels at a lower tau than at gamma 0.03."
    first, second = _first_overfitted(wide), _first_overfitted(narrow)
    told = f"first tau with a gap beyond 0.1: {first} at gamma 0.03, {second} at gamma 3"
    if not wide or not narrow or first == second:  # the same step of a coarse grid, or none
        return Claim(sentence=sentence, holds=None, evidence=told)
    return Claim(sentence=sentence, holds=(second or math.inf) < (first or math.inf), evidence=told)


STUDY = Study(
    name="entropy-sgld-figure-5", title="Entropy-SGLD on CIFAR-10: from private to overfitted as tau grows",
    paper=f"{PAPER}, Figure 5", jobs=jobs, table=rows.table, draw=draw, judge=judge,
)  # fmt: skip
