"""Table 2: calibration errors of the MLPs with and without a Gaussian prior."""

from itertools import product
from pathlib import Path

import polars as pl

from experiments.figures import bayesian_dp as drawing
from experiments.figures import style
from experiments.papers.bayesian_dp.notes import cut, numbers_of
from experiments.papers.bayesian_dp.plans import MLP, image_jobs
from experiments.papers.bayesian_dp.tables import below, image_table, mean, more_than_half, shown
from experiments.recipes import Scale
from experiments.studies.study import Claim, Comparison, Job, Study, Verdict

ALGORITHMS = ("BBP", "SGLD", "MC Dropout", "SGD")
PRIORS = {"normal": "w/ prior", "none": "w/o prior"}
PAPER = {
    ("BBP", "normal"): (0.204, 0.641, 0.024, 0.052), ("BBP", "none"): (0.167, 0.141, 0.166, 0.166),
    ("SGLD", "normal"): (0.007, 0.175, 0.035, 0.175), ("SGLD", "none"): (0.126, 0.465, 0.008, 0.289),
    ("MC Dropout", "normal"): (0.008, 0.080, 0.030, 0.041), ("MC Dropout", "none"): (0.078, 0.225, 0.002, 0.725),
    ("SGD", "normal"): (0.013, 0.089, 0.016, 0.139), ("SGD", "none"): (0.106, 0.625, 0.005, 0.299),
}  # fmt: skip
"""DP-ECE, DP-MCE, non-DP ECE, non-DP MCE, as printed."""
_ONE_BIN = (
    "The ECE in the authors' notebooks is |accuracy - mean confidence|, one bin, and their MCE leaves out bins "
    "without a "
    "right prediction; ours have 15 bins, as is usual, so that the numbers do not compare. Column one_bin_ece has "
    "theirs."
)


def jobs(scale: Scale, seed: int) -> list[Job]:
    """Every algorithm with both priors, private or not; those of Table 1 are the same runs."""
    return image_jobs([(algorithm, prior, MLP) for algorithm in ALGORITHMS for prior in PRIORS], scale, seed)


def draw(table: pl.DataFrame, out: Path) -> list[Path]:
    """ECE and MCE of all."""
    drawn, grid = style.figure(1, 2, width=4.6)
    drawing.calibration_errors(grid[0], table)
    return style.save(drawn, out / "figure")


def judge(table: pl.DataFrame, scale: Scale) -> Verdict:
    """Every number of Table 2 and the sentences about it."""
    claims = (_prior_helps(table, private=False), _prior_helps(table, private=True), _privacy_harms(table, "none"),
              _privacy_harms(table, "normal"), _bayes_helps(table))  # fmt: skip
    return Verdict(comparisons=tuple(_comparisons(table)), claims=claims,
                   notes=(*cut(scale), _ONE_BIN, numbers_of(table)))  # fmt: skip


def _comparisons(table: pl.DataFrame) -> list[Comparison]:
    found = []
    for (algorithm, prior), printed in PAPER.items():
        for (private, error), number in zip(product((True, False), ("ece", "mce")), printed, strict=True):
            where = {"algorithm": algorithm, "prior": prior, "network": "MLP", "private": private}
            one_bin = shown(mean(table, "one_bin_ece", **where))
            what = f"Table 2, {'DP-' if private else ''}{algorithm} ({PRIORS[prior]}): {error.upper()}"
            why = f"15 bins; with the authors' one bin {one_bin}" if error == "ece" else "15 bins, none left out"
            found.append(Comparison(what=what, paper=number, ours=mean(table, error, **where), why=why))
    return found


def _mce(table: pl.DataFrame, algorithm: str, prior: str, *, private: bool) -> float | None:
    return mean(table, "mce", algorithm=algorithm, prior=prior, network="MLP", private=private)


def _prior_helps(table: pl.DataFrame, *, private: bool) -> Claim:
    pairs = {
        a: (_mce(table, a, "normal", private=private), _mce(table, a, "none", private=private)) for a in ALGORITHMS
    }
    regime = "DP" if private else "non-DP"
    return Claim(sentence=f'"the Gaussian prior ... significantly improves the MCE" in the {regime} regime (more '
                          "than half of four; printed: 3 with DP, 4 without)",
                 holds=more_than_half([below(*pair) for pair in pairs.values()]),
                 evidence="MCE with, without prior: " + _listed(pairs))  # fmt: skip


def _privacy_harms(table: pl.DataFrame, prior: str) -> Claim:
    pairs = {a: (_mce(table, a, prior, private=False), _mce(table, a, prior, private=True)) for a in ALGORITHMS}
    worse = more_than_half([below(*pair) for pair in pairs.values()])
    if prior == "none":
        sentence = ('"DP exacerbates the mis-calibration: leading to worse MCE when the non-informative prior is used" '
                    "(more than half of four; printed: 2)")  # fmt: skip
        holds = worse
    else:
        sentence = ('"this is usually not the case when DP is guaranteed under the Gaussian prior" (MCE is worse in at '
                    "most half of four; printed: 2)")  # fmt: skip
        holds = None if worse is None else not worse
    return Claim(sentence=sentence, holds=holds, evidence="MCE without, with DP: " + _listed(pairs))


def _bayes_helps(table: pl.DataFrame) -> Claim:
    cells = list(product(("BBP", "SGLD", "MC Dropout"), PRIORS, (True, False)))
    verdicts = [below(_mce(table, a, p, private=d), _mce(table, "SGD", p, private=d)) for a, p, d in cells]
    return Claim(sentence='"BNNs often enjoy smaller MCE than the regular MLP" (more than half of twelve; printed: 8)',
                 holds=more_than_half(verdicts),
                 evidence=f"smaller in {sum(value is True for value in verdicts)} of {len(cells)}")  # fmt: skip


def _listed(pairs: dict[str, tuple[float | None, float | None]]) -> str:
    return "; ".join(f"{name} {shown(one)}, {shown(other)}" for name, (one, other) in pairs.items())


STUDY = Study(
    name="dp-bnn-calibration", title="Calibration of private Bayesian networks, with and without prior",
    paper="Zhang, Bu et al. (2021), Table 2", jobs=jobs, table=image_table, draw=draw, judge=judge,
)  # fmt: skip
