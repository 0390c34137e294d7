"""Figure 1: SGD, SGLD, Entropy-SGD at many thermal noises, Entropy-SGLD at tau = sqrt(n); CONV on two-class MNIST."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from experiments.claims import Claim, Comparison, Verdict, every
from experiments.figures import random_labels as drawing
from experiments.figures import style
from experiments.papers.entropy_sgld import judging, rows
from experiments.papers.entropy_sgld.settings import CAREFUL, LABELS, PAPER, SMALL, Size, job, mnist, smoke
from experiments.random_labels import NOISES
from experiments.random_labels_bounds import epsilon_why, nonvacuous_claim, tightness_claim, violations_claim
from experiments.random_labels_gaps import HARMLESS, HIGH, OVERFITS, contrast_claim, gaps_claim, lower
from experiments.random_labels_learning import guessing
from experiments.recipes import Scale, tau_of
from experiments.study import Job, Study
from pacdp import Architecture, GibbsSettings

SIZES: dict[Scale, Size] = {
    "smoke": smoke("digits2"),
    "cpu": Size(
        dataset="mnist2",
        train_size=2000,
        epochs=200.0,
        records=4,
        track=GibbsSettings(epochs=10.0, prior_draws=10, test_draws=10),
    ),
    "paper": mnist("mnist2"),
}
PRIVATE_SIZES = SIZES | {"cpu": Size(dataset="mnist2", epochs=25.0, records=4, track=CAREFUL)}
"""Of Entropy-SGLD, which with tau = sqrt(n) learns little from few examples: all of them at every scale but smoke."""
_PAPER_N = mnist("mnist2").n


def jobs(scale: Scale, seed: int) -> list[Job]:
    """SGD, Entropy-SGLD at the private setting, then the others at their noises, on true and on random labels. SGLD at
    the private setting is Figure 3's."""
    network = SMALL if scale == "smoke" else Architecture(name="conv")
    found = []
    for labels in LABELS:
        plan = [("sgd", None), ("entropy-sgld", None)]
        plan += [(algorithm, tau_of(noise)) for algorithm, noises in NOISES[scale].items() for noise in noises]
        for algorithm, tau in plan:
            size = (PRIVATE_SIZES if algorithm == "entropy-sgld" else SIZES)[scale]
            found.append(job(algorithm, size, scale=scale, network=network, labels=labels, seed=seed, tau=tau))
    return found


def draw(table: pl.DataFrame, out: Path) -> list[Path]:
    """The paper's six panels."""
    drawn, grid = style.figure(3, 2, width=5.0)
    drawing.draw(grid, table)
    return style.save(drawn, out / "figure")


def judge(table: pl.DataFrame, scale: Scale) -> Verdict:
    """The caption's sentences and Section 5.2's."""
    notes = judging.scale_notes(
        scale, SIZES[scale], table, *_private_note(scale), *_other_study(scale),
        "Thermal noises are the paper's. The same noise on fewer examples leaves each example more weight (tau/n), so "
        "that overfitting reaches up to larger noises than the paper's sentences say.",
    )  # fmt: skip
    return Verdict(comparisons=_comparisons(table), claims=_claims(table, guessing(SIZES[scale].dataset)),
                   notes=(*notes, *judging.violation_notes(table)))  # fmt: skip


def _private_note(scale: Scale) -> tuple[str, ...]:
    size = PRIVATE_SIZES[scale]
    if size == SIZES[scale]:
        return ()
    return (
        f"Entropy-SGLD learns from all {size.n} examples, for {size.epochs:g} epochs: with its tau = sqrt(n) it would "
        "learn little from the part that the others have. Their errors are not to be compared with its.",
    )


def _other_study(scale: Scale) -> tuple[str, ...]:
    size = SIZES[scale]
    if scale == "paper":
        return ()
    return (
        f"random-labels judges the same sentences in a setting of its own, and need not decide them alike: here SGD, "
        f"SGLD and Entropy-SGD have {size.n} examples of {size.dataset} and {size.epochs:g} epochs.",
    )


def _comparisons(table: pl.DataFrame) -> tuple[Comparison, ...]:
    private = judging.first(table, algorithm="Entropy-SGLD", labels="true")
    hot = judging.first(table, algorithm="SGLD", labels="true", thermal_noise=0.1)
    number, compared = judging.number, judging.compared
    fewer = "fewer epochs and other step sizes below scale paper"
    return (
        compared("Section 5.2, true labels, Entropy-SGLD at tau = sqrt(n): test error of the mean classifier (about)",
                 0.02, number(private, "test_error"), fewer),
        compared("Section 5.2, the same: test error of the Gibbs classifier (about)", 0.02,
                 number(private, "gibbs_test_error"), fewer),
        compared("Section 5.2, the same: differentially private PAC-Bayes bound (roughly)", 0.03,
                 number(private, "dp_pac_bayes_2018"), fewer),
        compared("Caption: epsilon at tau = sqrt(n) of 60000 (approximately)", 0.0327, number(private, "epsilon"),
                 epsilon_why(private, paper_n=_PAPER_N)),
        compared("Section 5.2: thermal noise at tau = sqrt(n) (approximately)", 0.09,
                 number(private, "thermal_noise"), _noise_why(private)),
        compared("Caption: risk of SGLD at thermal noise 0.1 on true labels (close to)", 0.5,
                 number(hot, "test_error"), "ours has a Gaussian base measure; not run at scale cpu"),
    )  # fmt: skip


def _noise_why(private: Mapping[str, Any] | None) -> str:
    if private is None:
        return "not run"
    return "the paper rounds" if private["n"] == _PAPER_N else f"n is {private['n']}"


def _claims(table: pl.DataFrame, chance: float) -> tuple[Claim, ...]:
    last, gaps = judging.last, gaps_claim
    private = last(table, algorithm="Entropy-SGLD")
    true = [row for row in private if row["labels"] == "true"]
    random = [row for row in private if row["labels"] == "random"]
    sgld, entropy = (
        last(table, algorithm="SGLD", labels="random"),
        last(table, algorithm="Entropy-SGD", labels="random"),
    )
    moderate = [row for row in last(table, algorithm="SGLD") if math.isclose(row["thermal_noise"], 0.05)]
    good = [row for row in last(table, algorithm="Entropy-SGD") if math.isclose(row["thermal_noise"], 0.01)]
    cold = [row for row in sgld if row["thermal_noise"] < 0.011]
    return (
        _sgd_claim(table),
        gaps("On random labels SGD overfits.", last(table, algorithm="SGD", labels="random"), least=OVERFITS),
        gaps("On random labels, SGLD has high generalization error for thermal noise values 0.01 and below.", cold,
             least=HIGH),
        gaps("At 0.05 thermal noise, SGLD has almost zero generalization error on both true and random labels.",
             moderate, most=HARMLESS),
        gaps("On random labels, Entropy-SGD overfits for thermal noise values 0.005 and below.",
             [row for row in entropy if row["thermal_noise"] < 0.0051], least=OVERFITS),
        gaps("At 0.01 thermal noise, Entropy-SGD has low generalization error on both true and random labels.", good,
             most=OVERFITS),
        gaps("On random labels, Entropy-SGLD does not overfit.", random, most=HARMLESS),
        gaps("On true labels, the generalization error for networks learned by Entropy-SGLD is close to zero.", true,
             most=HARMLESS),
        contrast_claim(last(table)),
        nonvacuous_claim("On true labels all bounds of Entropy-SGLD are nonvacuous.", true, guessing=chance),
        tightness_claim("The PAC-Bayes bounds are generally tighter (bound minus the test error of its classifier) "
                        "than the H- and C-bounds (Entropy-SGLD, true labels).", true),
        violations_claim(table, "We see almost no violations in the data (Section 5.2)."),
    )  # fmt: skip


def _sgd_claim(table: pl.DataFrame) -> Claim:
    sentence = "SGD achieves the smallest training and test error on true labels, of SGD and SGLD."
    found = judging.last(table, algorithm="SGD", labels="true")
    others = judging.last(table, algorithm="SGLD", labels="true")
    if not found or not others:
        return Claim(sentence=sentence, holds=None, evidence="no such run has finished")
    least = {name: min(others, key=lambda row, name=name: row[name]) for name in ("train_error", "test_error")}
    told = "; ".join(
        f"{name.replace('_', ' ')}: SGD {found[0][name]:.4f}, best SGLD {row[name]:.4f}" for name, row in least.items()
    )
    holds = every([lower(found[0], row, name) for name, row in least.items()])
    return Claim(sentence=sentence, holds=holds, evidence=told)


STUDY = Study(
    name="entropy-sgld-figure-1", title="Overfitting at each thermal noise, CONV on two-class MNIST",
    paper=f"{PAPER}, Figure 1", jobs=jobs, table=rows.table, draw=draw, judge=judge,
)  # fmt: skip
