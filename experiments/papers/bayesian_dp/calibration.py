"""Table 2: calibration errors of the MLPs with and without a Gaussian prior."""

from itertools import product
from pathlib import Path
from typing import NamedTuple

import polars as pl

from experiments.claims import Claim, Comparison, Verdict, every
from experiments.figures import bayesian_dp as drawing
from experiments.figures import style
from experiments.papers.bayesian_dp.notes import cut, numbers_of
from experiments.papers.bayesian_dp.plans import MLP, SETTINGS, image_jobs
from experiments.papers.bayesian_dp.seeds import Measured, mean_shown, measured, more_than_half, smaller
from experiments.papers.bayesian_dp.tables import image_table, mean, shown
from experiments.recipes import Scale
from experiments.study import Job, Study

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
    "without a right prediction; ours have 15 bins, as is usual, so that the numbers do not compare. Column "
    "one_bin_ece has theirs."
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
    found = (_prior_helps(table, private=False), _prior_helps(table, private=True), _privacy_harms(table),
             _privacy_spares(table), _bayes_helps(table))  # fmt: skip
    judged = [verdict for one in found for verdict in one.verdicts]
    left = (f"MCE is the largest gap of any bin, however few images are in it: of {len(judged)} pairs compared, the "
            f"seeds leave {sum(verdict is None for verdict in judged)} open (a difference within two standard errors, "
            "or one seed).")  # fmt: skip
    return Verdict(comparisons=tuple(_comparisons(table)), claims=(*(one.claim for one in found), *_ece_claims(table)),
                   notes=(*cut(scale, seeds=SETTINGS[scale].seeds), _ONE_BIN, left, numbers_of(table)))  # fmt: skip


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


class _Judged(NamedTuple):
    claim: Claim
    verdicts: list[bool | None]
    """Of its pairs: whether the first MCE is the smaller one."""


class _Cell(NamedTuple):
    """A number of the table's MCE columns."""

    algorithm: str
    prior: str
    private: bool


_Pairs = dict[str, tuple[_Cell, _Cell]]


def _of(table: pl.DataFrame, cell: _Cell, error: str) -> Measured | None:
    return measured(table, error, network="MLP", **cell._asdict())


def _smaller(table: pl.DataFrame, pairs: _Pairs, error: str = "mce") -> list[bool | None]:
    return [smaller(_of(table, one, error), _of(table, other, error)) for one, other in pairs.values()]


def _printed(pairs: _Pairs) -> int:
    """In how many pairs the first MCE that the paper prints is the smaller one."""
    numbers = [[PAPER[cell.algorithm, cell.prior][1 if cell.private else 3] for cell in pair]
               for pair in pairs.values()]  # fmt: skip
    return sum(one < other for one, other in numbers)


def _prior_helps(table: pl.DataFrame, *, private: bool) -> _Judged:
    pairs = {a: (_Cell(a, "normal", private), _Cell(a, "none", private)) for a in ALGORITHMS}
    verdicts = _smaller(table, pairs)
    sentence = (f'"the Gaussian prior ... significantly improves the MCE" in the {"DP" if private else "non-DP"} '
                f"regime (in more than half of {len(pairs)}; printed: in {_printed(pairs)})")  # fmt: skip
    claim = Claim(sentence=sentence, holds=more_than_half(verdicts),
                  evidence="MCE with, without prior: " + _listed(table, pairs))  # fmt: skip
    return _Judged(claim, verdicts)


def _with_privacy(table: pl.DataFrame, prior: str) -> tuple[_Pairs, list[bool | None], str]:
    """MCEs without and with privacy, whether the first is the smaller one, and the pairs as evidence."""
    pairs = {a: (_Cell(a, prior, False), _Cell(a, prior, True)) for a in ALGORITHMS}
    return pairs, _smaller(table, pairs), "MCE without, with DP: " + _listed(table, pairs)


def _privacy_harms(table: pl.DataFrame) -> _Judged:
    pairs, verdicts, evidence = _with_privacy(table, "none")
    sentence = ('"DP exacerbates the mis-calibration: leading to worse MCE when the non-informative prior is used" '
                f"(in more than half of {len(pairs)}; printed: in {_printed(pairs)})")  # fmt: skip
    return _Judged(Claim(sentence=sentence, holds=more_than_half(verdicts), evidence=evidence), verdicts)


def _privacy_spares(table: pl.DataFrame) -> _Judged:
    pairs, verdicts, evidence = _with_privacy(table, "normal")
    worse = more_than_half(verdicts)
    sentence = ('"this is usually not the case when DP is guaranteed under the Gaussian prior" (MCE is worse in at '
                f"most half of {len(pairs)}; printed: in {_printed(pairs)})")  # fmt: skip
    return _Judged(Claim(sentence=sentence, holds=None if worse is None else not worse, evidence=evidence), verdicts)


def _bayes_helps(table: pl.DataFrame) -> _Judged:
    pairs = {f"{a} {p} {d}": (_Cell(a, p, d), _Cell("SGD", p, d))
             for a, p, d in product(ALGORITHMS[:3], PRIORS, (True, False))}  # fmt: skip
    verdicts = _smaller(table, pairs)
    less, more, unknown = (sum(verdict is kind for verdict in verdicts) for kind in (True, False, None))
    claim = Claim(sentence='"BNNs often enjoy smaller MCE than the regular MLP" (in more than half of '
                           f"{len(pairs)}; printed: in {_printed(pairs)})", holds=more_than_half(verdicts),
                  evidence=f"smaller in {less}, larger in {more}, open in {unknown}")  # fmt: skip
    return _Judged(claim, verdicts)


def _ece_claims(table: pl.DataFrame) -> tuple[Claim, ...]:
    """What Knolle et al. say of ECE, of these runs."""
    harmed = {PRIORS[p]: (_Cell("SGD", p, False), _Cell("SGD", p, True)) for p in PRIORS}
    mended = {PRIORS[p]: (_Cell("SGLD", p, True), _Cell("SGD", p, True)) for p in PRIORS}
    return (
        Claim(sentence="DP-SGD has a larger ECE than SGD, with either prior (the claim of Knolle et al.)",
              holds=every(_smaller(table, harmed, "ece")),
              evidence="ECE of SGD, DP-SGD: " + _listed(table, harmed, "ece")),
        Claim(sentence="DP-SGLD, averaged over its members, has a smaller ECE than DP-SGD at equal epsilon, with "
                       "either prior (the claim of Knolle et al., who do not average)",
              holds=every(_smaller(table, mended, "ece")),
              evidence="ECE of DP-SGLD, DP-SGD: " + _listed(table, mended, "ece")),
    )  # fmt: skip


def _listed(table: pl.DataFrame, pairs: _Pairs, error: str = "mce") -> str:
    said = []
    for (name, cells), verdict in zip(pairs.items(), _smaller(table, pairs, error), strict=True):
        one, other = (mean_shown(_of(table, cell, error)) for cell in cells)
        said.append(f"{name} {one}, {other}{' (open)' if verdict is None else ''}")
    return "; ".join(said)


STUDY = Study(
    name="dp-bnn-calibration", title="Calibration of private Bayesian networks, with and without prior",
    paper="Zhang, Bu et al. (2021), Table 2", jobs=jobs, table=image_table, draw=draw, judge=judge,
)  # fmt: skip
