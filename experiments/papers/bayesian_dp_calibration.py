"""Zhang, Bu, Chen and Long (2021), Table 2: calibration errors of the MLPs, with and without prior and privacy."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import polars as pl

from experiments.claims import (
    RELEVANT,
    Claim,
    Comparison,
    Measured,
    Ratio,
    Verdict,
    every,
    mostly,
    point,
    relevant,
)
from experiments.figures import bayesian_dp as figures
from experiments.job_costs import by_seeds
from experiments.papers.bayesian_dp import mean_shown
from experiments.papers.bayesian_dp_plans import FEWEST, MLP, SETTINGS, cut, image_jobs, image_rows, numbers_of
from experiments.study import Study, drawing, tabled
from experiments.tables import by_key, mean, shown
from pacdp.cli.recipes import Scale
from pacdp.cli.sweep.jobs import Job

TABLE_2_PRINTED = {
    ("BBP", "normal"): (0.204, 0.641, 0.024, 0.052),
    ("BBP", "none"): (0.167, 0.141, 0.166, 0.166),
    ("SGLD", "normal"): (0.007, 0.175, 0.035, 0.175),
    ("SGLD", "none"): (0.126, 0.465, 0.008, 0.289),
    ("MC Dropout", "normal"): (0.008, 0.080, 0.030, 0.041),
    ("MC Dropout", "none"): (0.078, 0.225, 0.002, 0.725),
    ("SGD", "normal"): (0.013, 0.089, 0.016, 0.139),
    ("SGD", "none"): (0.106, 0.625, 0.005, 0.299),
}
"""DP-ECE, DP-MCE, non-DP ECE, non-DP MCE, as printed."""
ALGORITHMS = ("BBP", "SGLD", "MC Dropout", "SGD")
PRIORS = {"normal": "w/ prior", "none": "w/o prior"}
FILLED = "filled_mce"
_FILLED = "MCE of filled bins"
_ONE_BIN = (
    "The ECE in the authors' notebooks is |accuracy - mean confidence|, one bin, and their MCE leaves out bins "
    "without a right prediction; ours have 15 bins, as is usual, so that the numbers do not compare. Column "
    "one_bin_ece has theirs."
)


def jobs_2(scale: Scale, seed: int) -> list[Job]:
    """Every algorithm with both priors, private or not; those of Table 1 are the same runs."""
    cells = [(algorithm, prior, MLP) for algorithm in ALGORITHMS for prior in PRIORS]
    return image_jobs(cells, scale, seed, seeds=SETTINGS[scale].calibration_seeds)


def numbers_2(table: pl.DataFrame) -> Iterator[Comparison]:
    """Every number of Table 2."""
    for (algorithm, prior), printed in TABLE_2_PRINTED.items():
        for (private, error), number in zip(product((True, False), ("ece", "mce")), printed, strict=True):
            where = {"algorithm": algorithm, "prior": prior, "network": "MLP", "private": private}
            one_bin = shown(mean(table, "one_bin_ece", **where))
            what = f"Table 2, {'DP-' if private else ''}{algorithm} ({PRIORS[prior]}): {error.upper()}"
            why = f"15 bins; with the authors' one bin {one_bin}" if error == "ece" else "15 bins, none left out"
            yield Comparison(what, number, mean(table, error, **where), why)


class _Cell(NamedTuple):
    """A number of the table's MCE columns."""

    algorithm: str
    prior: str
    private: bool


def smaller_by_a_tenth(one: dict[int, float], other: dict[int, float]) -> bool | None:
    """Whether one error is smaller than another by a tenth of it, by runs of one seed."""
    level = Measured.of(list(other.values()))
    margin = None if level is None else RELEVANT * level.mean
    return relevant("", Measured.between(other, one), margin).holds


class _Pairs:
    """Pairs of cells by name: whether the first error is smaller than the second by a tenth, by runs of one seed."""

    def __init__(self, table: pl.DataFrame, pairs: dict[str, tuple[_Cell, _Cell]], error: str = FILLED) -> None:
        self.pairs = {
            name: [by_key(table, error, by="seed", network="MLP", **cell._asdict()) for cell in cells]
            for name, cells in pairs.items()
        }
        self.verdicts = [smaller_by_a_tenth(*cells) for cells in self.pairs.values()]
        self.over_all = Ratio.over_all([(one, other) for one, other in self.pairs.values()])
        numbers = [[TABLE_2_PRINTED[cell[:2]][1 if cell.private else 3] for cell in cells] for cells in pairs.values()]
        self.printed = sum(one < other for one, other in numbers)
        """In how many pairs the first MCE that the paper prints is the smaller one."""

    @property
    def mostly(self) -> bool | None:
        """Whether the first error is the smaller one in more than half of the pairs, or over all."""
        return mostly(self.verdicts, self.over_all)

    @property
    def told(self) -> str:
        """The pairs as evidence."""
        seen = zip(self.pairs.items(), self.verdicts, strict=True)
        shown = (
            f"{name} {', '.join(mean_shown(Measured.of(list(cell.values()))) for cell in cells)}"
            f"{' (open)' if holds is None else ''}"
            for (name, cells), holds in seen
        )
        return f"{'; '.join(shown)}; the first over the second, over all: {self.over_all or 'missing'}"


def _groups(table: pl.DataFrame, error: str = FILLED) -> list[_Pairs]:
    """The pairs of the sentences about MCE, in their order."""
    priors = [{a: (_Cell(a, "normal", dp), _Cell(a, "none", dp)) for a in ALGORITHMS} for dp in (False, True)]
    costs = [{a: (_Cell(a, p, False), _Cell(a, p, True)) for a in ALGORITHMS} for p in ("none", "normal")]
    cells = product(ALGORITHMS[:3], PRIORS, (True, False))
    bayes = {f"{a} {p} {'DP' if d else 'non-DP'}": (_Cell(a, p, d), _Cell("SGD", p, d)) for a, p, d in cells}
    return [_Pairs(table, pairs, error) for pairs in (*priors, *costs, bayes)]


def judge_2(table: pl.DataFrame, scale: Scale) -> Verdict:
    """Every number of Table 2 and the sentences about it."""
    plain, private, flat, spared, bayes = groups = _groups(table)
    claims = [
        Claim(
            f'"the Gaussian prior ... significantly improves the MCE" in the {regime} regime (by a tenth in more than '
            f"half of {len(pairs.verdicts)}; printed: in {pairs.printed})",
            pairs.mostly,
            f"{_FILLED} with, without prior: {pairs.told}",
        )
        for regime, pairs in (("non-DP", plain), ("DP", private))
    ]
    claims.append(
        Claim(
            '"DP exacerbates the mis-calibration: leading to worse MCE when the non-informative prior is used" (by a '
            f"tenth in more than half of {len(flat.verdicts)}; printed: in {flat.printed})",
            flat.mostly,
            f"{_FILLED} without, with DP: {flat.told}",
        )
    )
    worse = spared.mostly
    claims.append(
        Claim(
            '"this is usually not the case when DP is guaranteed under the Gaussian prior" (MCE is worse by a tenth in '
            f"at most half of {len(spared.verdicts)}; printed: in {spared.printed})",
            None if worse is None else not worse,
            f"{_FILLED} without, with DP: {spared.told}",
        )
    )
    verdicts = bayes.verdicts
    claims.append(
        Claim(
            f'"BNNs often enjoy smaller MCE than the regular MLP" (by a tenth in more than half of {len(verdicts)}; '
            f"printed: in {bayes.printed})",
            bayes.mostly,
            f"smaller in {verdicts.count(True)}, not in {verdicts.count(False)}, open in {verdicts.count(None)}; "
            f"{_FILLED} of the BNN, of the MLP: {bayes.told}",
        )
    )
    claims = [*claims, _diagrams(private), *_ece_claims(table)]
    settled_by = by_seeds(jobs_2)
    claims = [
        one if one.holds is not None else replace(one, settled_by=settled_by(table, scale, one)) for one in claims
    ]
    notes = (*cut(scale, seeds=SETTINGS[scale].calibration_seeds), _ONE_BIN, _left(table, groups), numbers_of(table))
    points = [
        point(claims, words, f"{said}: {_first(claims, words)}")
        for words, said in (
            ("non-DP regime", "A Gaussian prior improves the MCE of networks without privacy"),
            ("the DP regime", "A Gaussian prior improves the MCE of private networks"),
            ("DP exacerbates", "Privacy makes MCE worse where the prior is flat"),
            ("BNNs often", "Bayesian networks have a smaller MCE than the MLP, private or not"),
        )
    ]
    return Verdict(comparisons=tuple(numbers_2(table)), claims=tuple(claims), notes=notes, points=(*points,))


def _first(claims: Sequence[Claim], words: str) -> str:
    """The first number that a sentence is judged by."""
    return next(claim.evidence for claim in claims if words in claim.sentence).split(";")[0]


def _diagrams(private: _Pairs) -> Claim:
    """Figure 3's right two diagrams, which are the private pair of SGLD."""
    with_, without = private.pairs["SGLD"]
    printed = " against ".join(str(TABLE_2_PRINTED["SGLD", prior][1]) for prior in PRIORS)
    shown = (mean_shown(Measured.of(list(cell.values()))) for cell in (with_, without))
    return Claim(
        f"Figure 3, right two: DP-SGLD is better calibrated with the Gaussian prior than without (MCE, by a tenth; "
        f"printed: {printed})",
        smaller_by_a_tenth(with_, without),
        f"{_FILLED} with, without prior: {', '.join(shown)}",
    )


def _left(table: pl.DataFrame, groups: list[_Pairs]) -> str:
    """How many pairs the seeds leave open, by the measure that decides and by the paper's."""
    judged, raw = ([one for pairs in of for one in pairs.verdicts] for of in (groups, _groups(table, "mce")))
    return (
        "MCE is the largest gap of any bin, however few images are in it. The sentences are judged by the largest gap "
        f"of the bins that hold {FEWEST:.0%} of the images (column filled_mce), by differences between runs of one "
        "seed, and where these leave a majority open by the geometric mean over all pairs. Of "
        f"{len(judged)} pairs compared, the seeds leave {judged.count(None)} open, of MCE itself {raw.count(None)}."
    )


def _ece_claims(table: pl.DataFrame) -> Iterator[Claim]:
    """What Knolle et al. say of ECE, of these runs."""
    harmed = _Pairs(table, {PRIORS[p]: (_Cell("SGD", p, False), _Cell("SGD", p, True)) for p in PRIORS}, "ece")
    mended = _Pairs(table, {PRIORS[p]: (_Cell("SGLD", p, True), _Cell("SGD", p, True)) for p in PRIORS}, "ece")
    yield Claim(
        "DP-SGD has a larger ECE than SGD, with either prior (the claim of Knolle et al.)",
        every(harmed.verdicts),
        f"ECE of SGD, DP-SGD: {harmed.told}",
    )
    yield Claim(
        "DP-SGLD, averaged over its members, has a smaller ECE than DP-SGD at equal epsilon, with either prior (the "
        "claim of Knolle et al., who do not average; clip norm and step size differ, other than in "
        "private-calibration)",
        every(mended.verdicts),
        f"ECE of DP-SGLD, DP-SGD: {mended.told}",
    )


TABLE_2 = Study(
    name="dp-bnn-calibration",
    title="Calibration of private Bayesian networks, with and without prior",
    paper="Zhang, Bu et al. (2021), Table 2",
    jobs=jobs_2,
    table=tabled(image_rows),
    draw=drawing(figure=figures.calibration_errors),
    judge=judge_2,
)
STUDIES = (TABLE_2,)
