"""Figure 5: Entropy-SGLD on CIFAR-10 at many tau, with gamma 0.03 and 3, on true and random labels."""

import math
from pathlib import Path
from typing import Any

import polars as pl

from experiments.claims import Claim, Comparison, Verdict, above, rises
from experiments.figures import entropy_sgld as drawing
from experiments.figures import style
from experiments.papers.entropy_sgld import judging, rows
from experiments.papers.entropy_sgld.cifar import EXAMPLES, SWEEP_GAMMAS, TAU_SIZES, TAUS, notes, one
from experiments.papers.entropy_sgld.settings import LABELS, PAPER
from experiments.random_labels_bounds import violations_claim
from experiments.random_labels_gaps import HARMLESS, HIGH, gap, gaps_claim, noise_of
from experiments.recipes import Scale
from experiments.study import Job, Study
from pacdp import Architecture

Row = dict[str, Any]
_GOOD = 0.3
_PAPER_ONSETS = dict(zip(SWEEP_GAMMAS, (5e4, 2e2), strict=True))
"""The caption's tau by gamma, beyond which random labels are overfitted."""
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
        gaps_claim("Very little overfitting occurs for small tau (the smallest here), on true and random "
                   "labels.", [line[0] for line in (wide, true) if line], most=HARMLESS),
        _largest_gap(wide),
        gaps_claim("At the largest tau random labels are overfitted, gamma 0.03.", wide[-1:], least=HIGH),
        _onset(wide, narrow),
        violations_claim(table, "No generalization bounds are violated.", share=0.0),
    )  # fmt: skip
    others = [_onset_note(gamma, line) for gamma, line in zip(SWEEP_GAMMAS, (wide, narrow), strict=True) if line]
    told = (*notes(scale, TAU_SIZES[scale], table, *others), *judging.violation_notes(table))
    return Verdict(comparisons=_comparisons(wide, narrow, true), claims=claims, notes=told)


def _sorted(table: pl.DataFrame, gamma: float, labels: str) -> list[Row]:
    return sorted(judging.last(table, gamma=gamma, labels=labels), key=lambda row: row["tau"])


def _comparisons(wide: list[Row], narrow: list[Row], true: list[Row]) -> tuple[Comparison, ...]:
    why = f"the smallest tau of our grid with a gap beyond {HIGH:g}; a small network and subset below scale paper"
    largest = max((gap(row) for row in true), default=None)
    return (
        judging.compared("Caption: tau beyond which random labels are overfitted, gamma 0.03", ">5e4",
                         _first(wide, HIGH), why),
        judging.compared("Caption: tau beyond which random labels are overfitted, gamma 3", ">2e2",
                         _first(narrow, HIGH), why),
        judging.compared("Appendix E.1: largest generalization error on true labels, gamma 0.03", "<=0.2", largest,
                         "a small network and subset below scale paper"),
    )  # fmt: skip


def _first(line: list[Row], limit: float) -> float | None:
    """The smallest tau with a gap above the limit, beyond two standard errors."""
    return next((row["tau"] for row in line if above(gap(row), limit, noise_of(row))), None)


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
    told = "; ".join(f"tau {row['tau']:g}: {gap(row):.3f}" for row in line)
    holds = rises([gap(row) for row in line], [noise_of(row) for row in line])
    return Claim(sentence=sentence, holds=holds, evidence=told)


def _onset(wide: list[Row], narrow: list[Row]) -> Claim:
    sentence = "At gamma 3 Entropy-SGLD starts overfitting random labels at a lower tau than at gamma 0.03."
    first, second = _first(wide, HARMLESS), _first(narrow, HARMLESS)
    shown = ["none" if tau is None else f"{tau:g}" for tau in (first, second)]
    told = f"first tau with a gap above {HARMLESS:g} beyond two standard errors: "
    told += f"gamma 0.03 {shown[0]}, gamma 3 {shown[1]}"
    if not wide or not narrow or first == second:  # the same step of a coarse grid, or none
        return Claim(sentence=sentence, holds=None, evidence=told)
    early = min(tau for tau in (first, second) if tau is not None)
    there = [row for line in (wide, narrow) for row in line if row["tau"] == early]
    if len(there) < 2:
        return Claim(sentence=sentence, holds=None, evidence=f"{told}; one gamma has no run at {early:g}")
    gaps, noise = [gap(row) for row in there], math.hypot(*(noise_of(row) for row in there))
    told += f"; at tau {early:g} the gaps are {gaps[0]:.3f} and {gaps[1]:.3f}"
    return Claim(sentence=sentence, holds=above(gaps[1], gaps[0], noise), evidence=told)


def _onset_note(gamma: float, line: list[Row]) -> str:
    """Between which values of the grid overfitting sets in, and where the paper has it."""
    taus, onset, paper = [row["tau"] for row in line], _first(line, HARMLESS), _PAPER_ONSETS[gamma]
    grid = f"At gamma {gamma:g} tau takes {', '.join(f'{tau:g}' for tau in taus)} on random labels."
    if onset is None:
        return f"{grid} None shows overfitting; the paper's begins beyond {paper:g}."
    lower = max((tau for tau in taus if tau < onset), default=0.0)
    where = f"{grid} Overfitting is seen first at {onset:g}, so that it sets in between {lower:g} and {onset:g}"
    if lower < paper <= onset:
        return f"{where}, as the paper's {paper:g} does: the grid shows no difference."
    if onset < paper:
        return f"{where}, earlier than the paper's {paper:g}."
    n, steps = line[0]["n"], line[0]["step"]
    return (
        f"{where}, later than the paper's {paper:g}, although n is {n} ({EXAMPLES / n:g} times smaller), after {steps} "
        "outer steps."
    )


STUDY = Study(
    name="entropy-sgld-figure-5", title="Entropy-SGLD on CIFAR-10: from private to overfitted as tau grows",
    paper=f"{PAPER}, Figure 5", jobs=jobs, table=rows.table, draw=draw, judge=judge,
)  # fmt: skip
