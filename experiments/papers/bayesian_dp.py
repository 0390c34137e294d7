"""Zhang, Bu, Chen and Long (2021), Differentially Private Bayesian Neural Networks on Accuracy, Privacy and
Reliability: Table 1, test accuracy and time per epoch on MNIST, and Table 2, calibration errors of the MLPs.

Figures 1, 2, 3 and 7 are :mod:`experiments.papers.bayesian_dp_figures`, Table 3 and Figure 4
:mod:`experiments.papers.bayesian_dp_regression`.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import polars as pl

from experiments.claims import (
    Claim,
    Comparison,
    Measured,
    Point,
    Verdict,
    count_noise,
    decide,
    every,
    judging,
    more_than_half,
    point,
    say,
    smaller,
)
from experiments.figures import bayesian_dp as figures
from experiments.papers.bayesian_dp_plans import MLP, SETTINGS, cut, differing, image_jobs, image_rows, numbers_of
from experiments.papers.runs.bayesian import CNN
from experiments.study import Study, drawing, tabled
from experiments.tables import column, epsilon_shown, mean, measured, shown
from pacdp.cli.recipes import Scale
from pacdp.cli.sweep.jobs import Job

CELLS = (
    *(("SGLD", "normal"), ("SGLD", "laplace"), ("BBP", "normal"), ("BBP", "laplace"), ("MC Dropout", "normal")),
    ("SGD", "none"),
)
TWIN = "SGD as SGLD"
TABLE_1_PRINTED = {
    ("SGLD", "normal", "MLP"): (0.90, 0.95),
    ("SGLD", "normal", "CNN"): (0.95, 0.96),
    ("SGLD", "laplace", "MLP"): (0.89, 0.90),
    ("SGLD", "laplace", "CNN"): (0.89, 0.89),
    ("BBP", "normal", "MLP"): (0.80, 0.97),
    ("BBP", "laplace", "MLP"): (0.81, 0.98),
    ("MC Dropout", "normal", "MLP"): (0.78, 0.98),
    ("MC Dropout", "normal", "CNN"): (0.77, 0.97),
    ("SGD", "none", "MLP"): (0.77, 0.97),
    ("SGD", "none", "CNN"): (0.95, 0.99),
}
"""Accuracy with and without privacy, as printed."""
PAPER_SECONDS = {
    **{("SGLD", "normal"): 10.0, ("SGLD", "laplace"): 10.0, ("BBP", "normal"): 480.0, ("BBP", "laplace"): 480.0},
    **{("MC Dropout", "normal"): 9.0, ("SGD", "none"): 10.0},
}
"""Per epoch with privacy, on a P100."""
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
_ONE_BIN = (
    "The ECE in the authors' notebooks is |accuracy - mean confidence|, one bin, and their MCE leaves out bins "
    "without a right prediction; ours have 15 bins, as is usual, so that the numbers do not compare. Column "
    "one_bin_ece has theirs."
)


def mean_shown(found: Measured | None) -> str:
    """For sentences: the mean, or that there is none."""
    return shown(found and found.mean)


def _listed(found: Mapping[str, Measured | None]) -> str:
    return ", ".join(f"{name} {mean_shown(one)}" for name, one in found.items())


def jobs_1(scale: Scale, seed: int) -> list[Job]:
    """BBP on the CNN is left out, as in the paper; DP-SGD at DP-SGLD's numbers (Theorem 1) is added."""
    cells = [*CELLS, (TWIN, "normal")]
    wide = [(algorithm, prior, MLP) for algorithm, prior in cells]
    networks = wide + [(one, prior, CNN) for one, prior in cells if one != "BBP"]
    return image_jobs(networks, scale, seed, seeds=SETTINGS[scale].seeds)


def numbers_1(table: pl.DataFrame, scale: Scale) -> Iterator[Comparison]:
    """Every number of Table 1."""
    for (algorithm, prior, network), printed in TABLE_1_PRINTED.items():
        for private, number in zip((True, False), printed, strict=True):
            where = {"algorithm": algorithm, "prior": prior, "network": network, "private": private}
            why = differing(scale, network=MLP if network == "MLP" else CNN, several=algorithm != "SGD")
            if private:
                most = max(column(table, "epsilon", where), default=None)
                why = f"epsilon {epsilon_shown(most)} (ours, sound); the text prints none"
            what = f"Table 1, MNIST, {network}, {'DP-' if private else ''}{algorithm}, prior {prior}: accuracy"
            yield Comparison(what, number, mean(table, "accuracy", **where), why)
    for (algorithm, prior), seconds in PAPER_SECONDS.items():
        ours = mean(table, "seconds_per_epoch", algorithm=algorithm, prior=prior, private=True, network="MLP")
        why = "another machine; per-example gradients of Bayesian layers are not formed one by one here; both on one "
        why += "machine would tell which counts"
        yield Comparison(f"Table 1, DP-{algorithm}, MLP, prior {prior}: seconds per epoch", seconds, ours, why)


def _accuracy(table: pl.DataFrame, algorithm: str, prior: str, network: str, *, private: bool) -> Measured | None:
    where = {"algorithm": algorithm, "prior": prior, "network": network, "private": private}
    found, n = measured(table, "accuracy", **where), mean(table, "n", **where)
    return None if found is None or n is None else found.counted(n)


def _drop(table: pl.DataFrame, algorithm: str, prior: str) -> Measured | None:
    plain, private = (_accuracy(table, algorithm, prior, "MLP", private=private) for private in (False, True))
    return None if plain is None or private is None else plain.minus(private)


def claims_1(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """The sentences about Table 1."""
    for network in ("MLP", "CNN"):
        ours = _accuracy(table, "SGLD", "normal", network, private=True)
        cells = [cell for cell in CELLS if cell[0] != "SGLD" and (*cell, network) in TABLE_1_PRINTED]
        others = {f"DP-{a} ({p})": _accuracy(table, a, p, network, private=True) for a, p in cells}
        twin = shown(mean(table, "accuracy", algorithm=TWIN, network=network, private=True))
        yield Claim(
            f'{network}: "DP-SGLD outperforms other Bayesian and non-Bayesian methods under almost identical privacy '
            'budgets" (more accurate than each, prior normal)',
            every(smaller(other, ours) for other in others.values()),
            f"DP-SGLD {mean_shown(ours)}; {_listed(others)}; not counted: DP-SGD at DP-SGLD's own numbers {twin}",
        )
    values = [_accuracy(table, *cell, private=False) for cell in TABLE_1_PRINTED]
    known = [value for value in values if value is not None]
    low, high = (pick(known, default=None, key=lambda one: one.mean) for pick in (min, max))
    spread = None if low is None or high is None else high.minus(low)
    yield Claim(
        '"all of non-DP methods have similar high test accuracy" (within 0.11: printed 0.10, rounded)',
        None if spread is None or len(known) < len(values) else spread.below(0.11),
        f"spread {mean_shown(spread)}, from {mean_shown(low)} to {mean_shown(high)}",
    )
    drop = _drop(table, "SGLD", "normal")
    yield Claim(
        'MLP: "DP-SGLD ... does not deteriorate comparing to its non-DP version" (drop below 0.06: printed 0.05, '
        "rounded)",
        None if drop is None else drop.below(0.06),
        f"drop {mean_shown(drop)}",
    )
    drops = {f"{a} ({p})": _drop(table, a, p) for a, p in CELLS if a != "SGLD"}
    yield Claim(
        'MLP: "other methods experience an accuracy drop ≈ 20%" (at least 0.1 each)',
        every(None if one is None else one.above(0.1) for one in drops.values()),
        f"drops: {_listed(drops)}",
    )
    where = {"private": True, "network": "MLP"}
    slow, quick = (mean(table, "seconds_per_epoch", algorithm=name, **where) for name in ("BBP", "SGLD"))
    ratio = None if slow is None or not quick else slow / quick
    yield Claim(
        '"DP-SGLD requires only 10 sec/epoch, while DP-BBP takes 480 sec/epoch" (a factor of 10 or more)',
        None if ratio is None else ratio > 10.0,
        f"DP-BBP {shown(slow, 2)} s, DP-SGLD {shown(quick, 2)} s: factor {shown(ratio, 1)}",
    )
    one = mean(table, "last_accuracy", algorithm="SGLD", prior="normal", **where)
    other = mean(table, "accuracy", algorithm=TWIN, **where)
    yield Claim(
        '"every DP-SGLD is equivalent to some DP-SGD" (Theorem 1: same noise, last weights within 0.005 in accuracy)',
        _within(one, other, mean(table, "n", algorithm="SGLD", private=True)),
        f"DP-SGLD's last weights {shown(one, 4)}, DP-SGD at lr n η {shown(other, 4)}",
    )


def _within(one: float | None, other: float | None, n: float | None) -> bool | None:
    """Whether they differ by less than 0.005; None where only the noise of two counts lies beyond."""
    if one is None or other is None:
        return None
    gap, noise = abs(one - other), 0.0 if n is None else count_noise((one, n), (one, n))
    return True if gap < 0.005 else None if gap <= 0.005 + noise else False


def points_1(table: pl.DataFrame, scale: Scale, claims: Sequence[Claim]) -> Iterator[Point]:
    """What privacy costs each method, and whether DP-SGLD is the best."""
    where = {"network": "MLP", "private": True}
    ours, other = (mean(table, "accuracy", algorithm=one, prior=p, **where) for one, p in (CELLS[0], CELLS[-1]))
    said = "DP-SGLD is more accurate than any other private network: {ours:.3f} on the MLP, DP-SGD {other:.3f}"
    by = "the paper's scale: hidden layers of 1200, 15 epochs, five seeds"
    yield point(claims, 'MLP: "DP-SGLD outperforms', say(said, ours=ours, other=other), settled_by=by)
    drops = [one.mean for one in (_drop(table, *cell) for cell in CELLS if cell[0] != "SGLD") if one]
    said = "BBP, MC Dropout and SGD lose about 20 % in accuracy to privacy: ours lose {least:.0%} to {most:.0%}"
    ends = {"least": min(drops, default=None), "most": max(drops, default=None)}
    yield point(claims, "accuracy drop", say(said, **ends))
    slow, quick = (mean(table, "seconds_per_epoch", algorithm=one, **where) for one in ("BBP", "SGLD"))
    said, printed = "DP-BBP takes {printed:.0f} times as long as DP-SGLD: ours {factor:.1f} times", PAPER_SECONDS
    factors = {"printed": printed["BBP", "normal"] / printed["SGLD", "normal"]}
    factors |= {"factor": decide(lambda slow, quick: slow / quick, slow, quick)}
    yield point(claims, "480 sec/epoch", say(said, **factors))


def notes_1(table: pl.DataFrame, scale: Scale) -> Iterator[str]:
    """Cuts, sources, epsilons."""
    yield from cut(scale, seeds=SETTINGS[scale].seeds)
    yield numbers_of(table)


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


class _Pairs:
    """Pairs of cells by name: whether the first error is the smaller one."""

    def __init__(self, table: pl.DataFrame, pairs: dict[str, tuple[_Cell, _Cell]], error: str = "mce") -> None:
        self.pairs = {
            name: [measured(table, error, network="MLP", **cell._asdict()) for cell in cells]
            for name, cells in pairs.items()
        }
        self.verdicts = [smaller(*cells) for cells in self.pairs.values()]
        numbers = [[TABLE_2_PRINTED[cell[:2]][1 if cell.private else 3] for cell in cells] for cells in pairs.values()]
        self.printed = sum(one < other for one, other in numbers)
        """In how many pairs the first MCE that the paper prints is the smaller one."""

    @property
    def told(self) -> str:
        """The pairs as evidence."""
        seen = zip(self.pairs.items(), self.verdicts, strict=True)
        return "; ".join(
            f"{name} {mean_shown(one)}, {mean_shown(other)}{' (open)' if holds is None else ''}"
            for (name, (one, other)), holds in seen
        )


def judge_2(table: pl.DataFrame, scale: Scale) -> Verdict:
    """Every number of Table 2 and the sentences about it."""
    plain, private = (
        _Pairs(table, {a: (_Cell(a, "normal", dp), _Cell(a, "none", dp)) for a in ALGORITHMS}) for dp in (False, True)
    )
    flat, spared = (
        _Pairs(table, {a: (_Cell(a, p, False), _Cell(a, p, True)) for a in ALGORITHMS}) for p in ("none", "normal")
    )
    cells = product(ALGORITHMS[:3], PRIORS, (True, False))
    bayes = _Pairs(table, {f"{a} {p} {d}": (_Cell(a, p, d), _Cell("SGD", p, d)) for a, p, d in cells})
    claims = [
        Claim(
            f'"the Gaussian prior ... significantly improves the MCE" in the {regime} regime (in more than half of '
            f"{len(pairs.verdicts)}; printed: in {pairs.printed})",
            more_than_half(pairs.verdicts),
            f"MCE with, without prior: {pairs.told}",
        )
        for regime, pairs in (("non-DP", plain), ("DP", private))
    ]
    claims.append(
        Claim(
            '"DP exacerbates the mis-calibration: leading to worse MCE when the non-informative prior is used" (in '
            f"more than half of {len(flat.verdicts)}; printed: in {flat.printed})",
            more_than_half(flat.verdicts),
            f"MCE without, with DP: {flat.told}",
        )
    )
    worse = more_than_half(spared.verdicts)
    claims.append(
        Claim(
            '"this is usually not the case when DP is guaranteed under the Gaussian prior" (MCE is worse in at most '
            f"half of {len(spared.verdicts)}; printed: in {spared.printed})",
            None if worse is None else not worse,
            f"MCE without, with DP: {spared.told}",
        )
    )
    less, more, unknown = (bayes.verdicts.count(kind) for kind in (True, False, None))
    claims.append(
        Claim(
            f'"BNNs often enjoy smaller MCE than the regular MLP" (in more than half of {len(bayes.verdicts)}; '
            f"printed: in {bayes.printed})",
            more_than_half(bayes.verdicts),
            f"smaller in {less}, larger in {more}, open in {unknown}",
        )
    )
    judged = [verdict for pairs in (plain, private, flat, spared, bayes) for verdict in pairs.verdicts]
    left = (
        f"MCE is the largest gap of any bin, however few images are in it: of {len(judged)} pairs compared, the seeds "
        f"leave {judged.count(None)} open (a difference within two standard errors, or one seed)."
    )
    notes = (*cut(scale, seeds=SETTINGS[scale].calibration_seeds), _ONE_BIN, left, numbers_of(table))
    said = f"The prior and privacy change MCE: of {len(judged)} pairs the seeds leave {judged.count(None)} open"
    by = "more seeds, and bins with enough images that one of them does not set MCE"
    points = (point(claims, "MCE", said, settled_by=by),)
    claims += _ece_claims(table)
    return Verdict(comparisons=tuple(numbers_2(table)), claims=tuple(claims), notes=notes, points=points)


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
        "claim of Knolle et al., who do not average)",
        every(mended.verdicts),
        f"ECE of DP-SGLD, DP-SGD: {mended.told}",
    )


_PAPER = "Zhang, Bu et al. (2021)"
TABLE_1 = Study(
    name="dp-bnn-accuracy",
    title="Accuracy and time of private Bayesian networks",
    paper=f"{_PAPER}, Table 1",
    jobs=jobs_1,
    table=tabled(image_rows),
    draw=drawing(figure=figures.accuracies),
    judge=judging(numbers=numbers_1, claims=claims_1, notes=notes_1, points=points_1),
)
TABLE_2 = Study(
    name="dp-bnn-calibration",
    title="Calibration of private Bayesian networks, with and without prior",
    paper=f"{_PAPER}, Table 2",
    jobs=jobs_2,
    table=tabled(image_rows),
    draw=drawing(figure=figures.calibration_errors),
    judge=judge_2,
)
STUDIES = (TABLE_1, TABLE_2)
