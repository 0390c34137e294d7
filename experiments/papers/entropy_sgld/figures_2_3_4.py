"""The studies of Figures 2, 3 and 4 with what their captions say."""

import math
from pathlib import Path
from typing import Any

import polars as pl

from experiments.claims import Claim, Comparison, Verdict, below, count_noise, every
from experiments.papers.entropy_sgld import judging, rows
from experiments.papers.entropy_sgld.networks import SIZES, named_in, panels, plan
from experiments.papers.entropy_sgld.settings import PAPER
from experiments.random_labels_bounds import LETTERS, PAPER_BOUNDS, excess, nonvacuous_claim, violations_claim
from experiments.random_labels_gaps import HARMLESS, gap, gaps_claim, lower, noise_between, noise_of
from experiments.random_labels_learning import guessing, worse
from experiments.recipes import Scale
from experiments.study import Job, Study

Row = dict[str, Any]
EXCESS = {
    "FC1024": dict.fromkeys(PAPER_BOUNDS, "slightly more than 0.03"),
    "CONV": dict.fromkeys(("dp_pac_bayes_2018", "dp_chernoff_2018"), "about 0.03"),
}  # fmt: skip
"""How far Figure 4's caption has bounds above the test error; of CONV's H-bound it says nothing."""
_VIOLATED = "No bound is violated more frequently than it is expected to be (Section 5)."
_FEWER = "fewer epochs and other step sizes below scale paper"
_BOTH = (("entropy-sgld", "true"), ("entropy-sgld", "random"))
_SGLD = (("sgld", "true"), ("sgld", "random"), ("entropy-sgld", "true"))


def jobs_2(scale: Scale, seed: int) -> list[Job]:
    """Entropy-SGLD on true labels."""
    return plan("2", scale, seed, _BOTH[:1])


def jobs_3(scale: Scale, seed: int) -> list[Job]:
    """SGLD on true and random labels, and Entropy-SGLD on true ones."""
    return plan("3", scale, seed, _SGLD)


def jobs_4(scale: Scale, seed: int) -> list[Job]:
    """Entropy-SGLD on true and random labels."""
    return plan("4", scale, seed, _BOTH)


def draw_2(table: pl.DataFrame, out: Path) -> list[Path]:
    """A panel a network."""
    return panels(table, out, [[(name, "Entropy-SGLD", "true") for name in named_in(table, "2")]])


def draw_3(table: pl.DataFrame, out: Path) -> list[Path]:
    """SGLD on true and random labels, then the Entropy-SGLD of the comparison."""
    (name,) = named_in(table, "3")
    return panels(table, out, [[(name, "SGLD", "true"), (name, "SGLD", "random"), (name, "Entropy-SGLD", "true")]])


def draw_4(table: pl.DataFrame, out: Path) -> list[Path]:
    """A row a network, true labels left."""
    names = named_in(table, "4")
    return panels(table, out, [[(name, "Entropy-SGLD", labels) for labels in ("true", "random")] for name in names])


def judge_2(table: pl.DataFrame, scale: Scale) -> Verdict:
    """The caption of Figure 2."""
    found = judging.last(table, algorithm="Entropy-SGLD", labels="true")
    claims = (
        _similar(found),
        gaps_claim("The true generalization gap is close to zero.", found, most=HARMLESS),
        nonvacuous_claim(
            "All the computed bounds on the test error are loose but nonvacuous.", found, guessing=_chance("2", scale)
        ),
        violations_claim(table, _VIOLATED),
    )
    printed = tuple(
        judging.compared(f"Section 1: test error on MNIST, network not named; ours {row['network']}", "0.03-0.08",
                         row["test_error"], _FEWER)
        for row in found
    )  # fmt: skip
    return _verdict(table, scale, "2", printed, claims)


def judge_3(table: pl.DataFrame, scale: Scale) -> Verdict:
    """The caption of Figure 3."""
    sgld = judging.first(table, algorithm="SGLD", labels="true")
    entropy = judging.first(table, algorithm="Entropy-SGLD", labels="true")
    random = judging.last(table, algorithm="SGLD", labels="random")
    chance = _chance("3", scale)
    claims = (
        worse("On true labels, SGLD learns a network with higher training and test error than Entropy-SGLD's.",
              sgld, entropy, ("train_error", "test_error"), chance),
        gaps_claim("SGLD does not overfit on random labels.", random, most=HARMLESS),
        worse("The C-bound of SGLD's network is worse than that of Entropy-SGLD's mean classifier.", sgld, entropy,
              ("dp_chernoff_2018",), chance),
        violations_claim(table, _VIOLATED),
    )  # fmt: skip
    printed = (
        judging.compared("Caption: test error of SGLD minus that of Entropy-SGLD's mean network (approximately)", 0.03,
                         _difference(sgld, entropy, "test_error"), _FEWER),
        judging.compared("Caption: training error, likewise (approximately)", 0.03,
                         _difference(sgld, entropy, "train_error"), _FEWER),
        judging.compared("Caption: C-bound of SGLD, true labels (around)", 0.08,
                         judging.number(sgld, "dp_chernoff_2018"), _FEWER),
        judging.compared("Caption: C-bound of Entropy-SGLD's mean classifier (roughly)", 0.04,
                         judging.number(entropy, "dp_chernoff_2018"), _FEWER),
    )  # fmt: skip
    return _verdict(table, scale, "3", printed, claims)


def judge_4(table: pl.DataFrame, scale: Scale) -> Verdict:
    """The caption of Figure 4."""
    true = judging.last(table, labels="true")
    random = judging.last(table, labels="random")
    claims = (
        gaps_claim("On true labels the generalization gap is close to zero.", true, most=HARMLESS),
        gaps_claim(
            "On random labels Entropy-SGLD overfits by about 2% at most (here: less than 3%).", random, most=0.03
        ),
        _guessing(random),
        _networks_order(true),
        nonvacuous_claim("On true labels all bounds are nonvacuous.", true, guessing=_chance("4", scale)),
        violations_claim(table, _VIOLATED),
    )
    printed: list[Comparison] = []
    for row in true:
        for name, about in EXCESS.get(row["network"], {}).items():
            printed.append(judging.compared(f"Caption: {LETTERS[name]} minus test error, {row['network']}", about,
                                            excess(row, name), _FEWER))  # fmt: skip
    overfitting = {"FC1024": "about 0.02", "CONV": "<0.01"}
    for row in random:
        printed.append(judging.compared(f"Caption: overfitting of random labels, {row['network']}",
                                        overfitting.get(row["network"]), gap(row), _FEWER))  # fmt: skip
    return _verdict(table, scale, "4", tuple(printed), claims)


def _verdict(
    table: pl.DataFrame, scale: Scale, figure: str, printed: tuple[Comparison, ...], claims: tuple[Claim, ...]
) -> Verdict:
    norm = "No network has batch normalisation, with which the bounds are about no mean over examples."
    stand_in = ("Small fully connected networks stand in for the figure's at this scale.",) if scale == "smoke" else ()
    notes = judging.scale_notes(scale, SIZES[figure][scale], table, norm, *stand_in)
    return Verdict(comparisons=printed, claims=claims, notes=(*notes, *judging.violation_notes(table)))


def _chance(figure: str, scale: Scale) -> float:
    return guessing(SIZES[figure][scale].dataset)


def _difference(one: Row | None, other: Row | None, name: str) -> float | None:
    return None if one is None or other is None else one[name] - other[name]


def _similar(found: list[Row]) -> Claim:
    sentence = "Both training error and generalization error are similar for both network architectures."
    if len(found) < 2:
        return Claim(sentence=sentence, holds=None, evidence="fewer than two networks have finished")
    one, other = found[:2]
    spread = {
        "training error": (one["train_error"] - other["train_error"], noise_between(one, other, "train_error")),
        "generalization error": (gap(one) - gap(other),
                                 math.hypot(noise_of(one), noise_of(other))),
    }  # fmt: skip
    told = "; ".join(f"{name} differs by {abs(value):.4f}" for name, (value, _) in spread.items())
    holds = every([below(abs(value), HARMLESS, noise) for value, noise in spread.values()])
    return Claim(sentence=sentence, holds=holds, evidence=f"{told}; similar below {HARMLESS:g}")


def _guessing(random: list[Row]) -> Claim:
    sentence = "On random labels CONV's training and test error remain close to the guessing rate (90%)."
    row = next((row for row in random if row["network"] == "CONV"), None)
    if row is None:
        return Claim(sentence=sentence, holds=None, evidence="CONV has not finished")
    told = f"{row['train_error']:.4f}, {row['test_error']:.4f}; close within 0.03"
    names = (("train_error", "n"), ("test_error", "n_test"))
    close = [below(abs(row[name] - 0.9), 0.03, count_noise((row[name], row[n]))) for name, n in names]
    return Claim(sentence=sentence, holds=every(close), evidence=told)


def _networks_order(true: list[Row]) -> Claim:
    sentence = "On true labels CONV has lower training and test errors than FC1024."
    found = {row["network"]: row for row in true}
    if not {"CONV", "FC1024"} <= found.keys():
        return Claim(sentence=sentence, holds=None, evidence="the table has not both networks")
    told = "; ".join(f"{name}: {found[name]['train_error']:.4f}, {found[name]['test_error']:.4f}"
                     for name in ("CONV", "FC1024"))  # fmt: skip
    seen = [lower(found["CONV"], found["FC1024"], name) for name in ("train_error", "test_error")]
    return Claim(sentence=sentence, holds=every(seen), evidence=told)


FIGURE_2 = Study(
    name="entropy-sgld-figure-2", title="Entropy-SGLD with FC600 and FC1200 on two-class MNIST",
    paper=f"{PAPER}, Figure 2", jobs=jobs_2, table=rows.table, draw=draw_2, judge=judge_2,
)  # fmt: skip
FIGURE_3 = Study(
    name="entropy-sgld-figure-3", title="SGLD at Entropy-SGLD's privacy, CONV on two-class MNIST",
    paper=f"{PAPER}, Figure 3", jobs=jobs_3, table=rows.table, draw=draw_3, judge=judge_3,
)  # fmt: skip
FIGURE_4 = Study(
    name="entropy-sgld-figure-4", title="Entropy-SGLD with FC1024 and CONV on ten-class MNIST",
    paper=f"{PAPER}, Figure 4", jobs=jobs_4, table=rows.table, draw=draw_4, judge=judge_4,
)  # fmt: skip
