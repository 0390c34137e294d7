"""Figure 1: SGD, SGLD, Entropy-SGD at many thermal noises, Entropy-SGLD at tau = sqrt(n); CONV on two-class MNIST."""

import math
from pathlib import Path

import polars as pl

from experiments.figures import random_labels as drawing
from experiments.figures import style
from experiments.papers.chance import every
from experiments.papers.entropy_sgld import judging, rows
from experiments.papers.entropy_sgld.settings import CAREFUL, LABELS, PAPER, SMALL, Size, job, mnist, smoke
from experiments.random_labels import NOISES
from experiments.recipes import Scale, tau_of
from experiments.studies.study import Claim, Comparison, Job, Study, Verdict
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
_HARMLESS = 0.02
"""A gap that counts as almost none, beyond chance."""
_OVERFITTED = 0.1


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
        scale, SIZES[scale], *_private_note(scale),
        "Thermal noises are the paper's. The same noise on fewer examples leaves each example more weight (tau/n), so "
        "that overfitting reaches up to larger noises than the paper's sentences say.",
    )  # fmt: skip
    return Verdict(comparisons=_comparisons(table), claims=_claims(table),
                   notes=(*notes, *judging.violation_notes(table)))  # fmt: skip


def _private_note(scale: Scale) -> tuple[str, ...]:
    size = PRIVATE_SIZES[scale]
    if size == SIZES[scale]:
        return ()
    return (
        f"Entropy-SGLD learns from all {size.n} examples, for {size.epochs:g} epochs: with its tau = sqrt(n) it would "
        "learn little from the part that the others have. Their errors are not to be compared with its.",
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
                 "ours has the loss's exact oscillation, 3.98 for the paper's 4, and the n of this scale"),
        compared("Section 5.2: thermal noise at tau = sqrt(n) (approximately)", 0.09,
                 number(private, "thermal_noise"), "the n of this scale"),
        compared("Caption: risk of SGLD at thermal noise 0.1 on true labels (close to)", 0.5,
                 number(hot, "test_error"), "ours has a Gaussian base measure; not run at scale cpu"),
    )  # fmt: skip


def _claims(table: pl.DataFrame) -> tuple[Claim, ...]:
    last, gaps = judging.last, judging.gaps_claim
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
        gaps("On random labels SGD overfits.", last(table, algorithm="SGD", labels="random"), least=_OVERFITTED),
        gaps("On random labels, SGLD has high generalization error for thermal noise values 0.01 and below.", cold,
             least=_OVERFITTED),
        gaps("At 0.05 thermal noise, SGLD has almost zero generalization error on both true and random labels.",
             moderate, most=_HARMLESS),
        gaps("On random labels, Entropy-SGD overfits for thermal noise values 0.005 and below.",
             [row for row in entropy if row["thermal_noise"] < 0.0051], least=_OVERFITTED),
        gaps("At 0.01 thermal noise, Entropy-SGD has low generalization error on both true and random labels.", good,
             most=0.05),
        gaps("On random labels, Entropy-SGLD does not overfit.", random, most=_HARMLESS),
        gaps("On true labels, the generalization error for networks learned by Entropy-SGLD is close to zero.", true,
             most=_HARMLESS),
        judging.nonvacuous_claim("On true labels all bounds of Entropy-SGLD are nonvacuous.", true),
        _tightness_claim(true),
        judging.violations_claim(table, "We see almost no violations in the data."),
    )  # fmt: skip


def _sgd_claim(table: pl.DataFrame) -> Claim:
    sentence = "SGD achieves the smallest training and test error on true labels, of SGD and SGLD."
    found = judging.last(table, algorithm="SGD", labels="true")
    others = judging.last(table, algorithm="SGLD", labels="true")
    if not found or not others:
        return Claim(sentence=sentence, holds=None, evidence="no such run has finished")
    least = {name: min(others, key=lambda row, name=name: row[name]) for name in ("train_error", "test_error")}
    told = "; ".join(f"{name}: SGD {found[0][name]:.4f}, best SGLD {row[name]:.4f}" for name, row in least.items())
    holds = every([judging.lower(found[0], row, name) for name, row in least.items()])
    return Claim(sentence=sentence, holds=holds, evidence=told)


def _tightness_claim(true: list[dict[str, float]]) -> Claim:
    sentence = "The PAC-Bayes bounds are generally tighter than the H- and C-bounds (Entropy-SGLD, true labels)."
    if not true:
        return Claim(sentence=sentence, holds=None, evidence="no such run has finished")
    values = {name: true[0][name] for name in judging.PAPER_BOUNDS}
    told = ", ".join(f"{name} {value:.4f}" for name, value in values.items())
    return Claim(sentence=sentence, holds=min(values, key=lambda name: values[name]) == "dp_pac_bayes_2018",
                 evidence=told)  # fmt: skip


STUDY = Study(
    name="entropy-sgld-figure-1", title="Overfitting at each thermal noise, CONV on two-class MNIST",
    paper=f"{PAPER}, Figure 1", jobs=jobs, table=rows.table, draw=draw, judge=judge,
)  # fmt: skip
