"""Dziugaite and Roy (2018), Appendix E: Entropy-SGLD on CIFAR-10. Figure 5 has many tau with gamma 0.03 and 3, on true
and on random labels; Figure 6 many gamma at one privacy, beta tau = 2000, with beta 1 and 0.004.

The paper's outer steps there start at 0.1 and decay as t^-0.1. An inner step pulls towards the centre by a share of
h_i γ: with h_1 = 1 the inner chain diverges at the paper's largest γ (50 in Figure 6), so that steps are 1/γ of that
for γ > 1. Printed are no values of the grids beyond those that the text names; ours span the same ranges."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from experiments.claims import Claim, Comparison, Point, above, below, count_noise, every, judging, rises
from experiments.figures import chains as figures
from experiments.job_costs import on_a_gpu
from experiments.papers.chains import (
    CAREFUL,
    COLUMNS,
    EXAMPLES,
    LABELS,
    PAPER_TRACK,
    SMALL,
    Line,
    Size,
    compared,
    final,
    job,
    last,
    records,
    smoke,
)  # fmt: skip
from experiments.papers.entropy_sgld import PAPER
from experiments.papers.gaps import (
    HARMLESS,
    HIGH,
    LETTERS,
    gap,
    gaps_claim,
    learns,
    little_learnt,
    lower,
    noise_between,
    noise_of,
    scale_notes,
    unlearnt,
    violations_claim,
)
from experiments.study import Study, drawing, tabled
from pacdp import Architecture, GibbsSettings
from pacdp.cli.config import Run
from pacdp.cli.figures.numbers import up
from pacdp.cli.recipes import Scale
from pacdp.cli.sweep.jobs import Job

_N = EXAMPLES["cifar10"]
PRIVACY = 2000.0
"""βτ of Figure 6."""
TAUS: dict[Scale, tuple[float, ...]] = {
    **{"smoke": (1e2, 1e4, 1e6), "cpu": (1e2, 1e3, 1e4, 1e6), "gpu": (1e2, 1e3, 1e4, 1e5, 1e6)},
    "paper": (1e1, 3e1, 1e2, 3e2, 1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6, 1e7, 1e8),
}
GAMMAS: dict[Scale, tuple[float, ...]] = {
    **{"smoke": (0.03, 3.0), "cpu": (0.003, 0.03, 0.3, 3.0, 30.0), "gpu": (0.003, 0.03, 0.3, 1.0, 3.0, 30.0)},
    "paper": (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 20.0, 50.0),
}
ONSETS = {0.03: 5e4, 3.0: 2e2}
"""The rows of Figure 5: the caption's tau by gamma, beyond which random labels are overfitted."""
BETAS = (1.0, 0.004)
"""The panels of Figure 6."""
_PAPER = Size("cifar10", 2000.0, 1, replace(PAPER_TRACK, epochs=50.0))
_FEW = Size("cifar10", 200.0, 1, GibbsSettings(epochs=10.0, prior_draws=10, test_draws=4), train_size=1000)
_AN_HOUR = Size("cifar10", 60.0, 2, CAREFUL)
TAU_SIZES: dict[Scale, Size] = {"smoke": smoke("digits"), "cpu": _FEW, "gpu": _AN_HOUR, "paper": _PAPER}
GAMMA_SIZES: dict[Scale, Size] = {**TAU_SIZES, "cpu": Size("cifar10", 30.0, 1, CAREFUL)}
_GOOD, _ALIKE = 0.3, 0.05


def one(size: Size, small: str, *, scale: Scale, tau: float, gamma: float, beta: float, **where: Any) -> Job:
    """A run of Entropy-SGLD: All-CNN-C with group normalisation, the network ``small`` at scale cpu."""
    network = {"smoke": SMALL, "cpu": Architecture(name=small)}.get(scale, Architecture(name="allcnn", norm="group"))  # type: ignore[arg-type]
    outer = 0.1 if scale == "paper" else min(2.0, 0.5 * tau * gamma * beta)
    steps = {"outer_step_size": outer, "outer_decay": 0.1, "inner_step_size": 2.0 / max(1.0, gamma)}
    temperatures = {"tau": tau, "gamma": gamma, "beta": beta}
    return job("entropy-sgld", size, scale=scale, network=network, **temperatures, **steps, **where)


def jobs_5(scale: Scale, seed: int) -> list[Job]:
    """Each tau at both gammas, on true and random labels; beta 1."""
    return [
        one(TAU_SIZES[scale], "cnn5", scale=scale, labels=labels, tau=tau, gamma=gamma, beta=1.0, seed=seed)
        for gamma in ONSETS
        for labels in LABELS
        for tau in TAUS[scale]
    ]


def jobs_6(scale: Scale, seed: int) -> list[Job]:
    """Each gamma at both betas, on true labels; βτ is 2000, and with fewer examples as much less, so that epsilon is
    the paper's."""
    size = GAMMA_SIZES[scale]
    spent = PRIVACY * size.n / _N
    return [
        one(size, "cnn3", scale=scale, labels="true", tau=spent / beta, gamma=gamma, beta=beta, seed=seed)
        for beta in BETAS
        for gamma in GAMMAS[scale]
    ]


def notes(size: Size, table: pl.DataFrame, scale: Scale, *others: str) -> Iterator[str]:
    """Cuts, network, steps."""
    nets = {
        "smoke": "digits and a small network stand in for CIFAR-10 and All-CNN-C.",
        "cpu": "A small convolutional network stands in for All-CNN-C.",
        "gpu": "All-CNN-C has group normalisation where the paper's has batch normalisation.",
    }
    diverges = "with the paper's 1/i the inner chain diverges at its largest gamma."
    steps = f"Inner steps are divided by gamma where it exceeds 1: {diverges}"
    return scale_notes(scale, size, table, steps, nets.get(scale, nets["gpu"]), *others)


# Figure 5


def sweeps(table: pl.DataFrame) -> tuple[list[Line], list[Line], list[Line]]:
    """Runs by tau: random labels at gamma 0.03 and at 3, true ones at 0.03."""
    cells = ((0.03, "random"), (3.0, "random"), (0.03, "true"))
    wide, narrow, true = (last(table, gamma=gamma, labels=labels) for gamma, labels in cells)
    return _by(wide, "tau"), _by(narrow, "tau"), _by(true, "tau")


def _by(rows: Sequence[Line], name: str) -> list[Line]:
    return sorted(rows, key=lambda row: row[name])


def numbers_5(table: pl.DataFrame, scale: Scale) -> Iterator[Comparison]:
    """The caption and Appendix E.1."""
    wide, narrow, true = sweeps(table)
    cut = "a small network and subset below scale paper"
    why = f"the smallest tau of our grid with a gap beyond {HIGH:g}; {cut}"
    onset = "Caption: tau beyond which random labels are overfitted, gamma"
    yield Comparison(f"{onset} 0.03", ">5e4", _first(wide, HIGH), why)
    yield Comparison(f"{onset} 3", ">2e2", _first(narrow, HIGH), why)
    largest = max((gap(row) for row in true), default=None)
    yield Comparison("Appendix E.1: largest generalization error on true labels, gamma 0.03", "<=0.2", largest, cut)


def claims_5(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """The caption and Appendix E.1."""
    wide, narrow, true = sweeps(table)
    yield _only_where_vacuous(true)
    little = "Very little overfitting occurs for small tau (the smallest here), on true and random labels."
    where: dict[str, Any] = {"among": last(table), "chance": TAU_SIZES[scale].guessing}
    yield gaps_claim(little, [line[0] for line in (wide, true) if line], **where, most=HARMLESS)
    grows = "On random labels the generalization gap increases with tau."
    if len(wide) < 2:
        yield Claim(grows, None, "fewer than two runs have finished")
    else:
        told = "; ".join(f"tau {row['tau']:g}: {gap(row):.3f}" for row in wide)
        yield Claim(grows, rises([gap(row) for row in wide], [noise_of(row) for row in wide]), told)
    yield gaps_claim("At the largest tau random labels are overfitted, gamma 0.03.", wide[-1:], **where, least=HIGH)
    yield _onset(wide, narrow, **where)
    yield violations_claim(table, "No generalization bounds are violated.", share=0.0)


def notes_5(table: pl.DataFrame, scale: Scale) -> Iterator[str]:
    """Between which values of the grids overfitting sets in, and where the paper has it."""
    lines = zip(ONSETS.items(), sweeps(table), strict=False)
    return notes(TAU_SIZES[scale], table, scale, *(_onset_note(*of, line) for of, line in lines if line))


def _first(line: Sequence[Line], limit: float) -> float | None:
    """The smallest tau with a gap above the limit, beyond two standard errors."""
    return next((row["tau"] for row in line if above(gap(row), limit, noise_of(row))), None)


def _only_where_vacuous(true: Sequence[Line]) -> Claim:
    sentence = (
        "At gamma 0.03 Entropy-SGLD finds good classifiers (test error lower than 0.3) only at the values of tau for "
        "which both generalization bounds are vacuous."
    )
    good = [row for row in true if row["test_error"] < _GOOD]
    if not good:
        best = min((row["test_error"] for row in true), default=math.nan)
        return Claim(sentence, None, f"no test error is below 0.3; the best is {best:.3f}")
    bounds = {"PAC-Bayes": "dp_pac_bayes_2018", "C-bound": "dp_chernoff_2018"}
    told = (
        f"tau {row['tau']:g}: test {row['test_error']:.3f}, "
        + ", ".join(f"{word} {row[name]:.3f}" for word, name in bounds.items())
        for row in good
    )
    return Claim(sentence, all(row[name] >= 1.0 for row in good for name in bounds.values()), "; ".join(told))


def _onset(wide: Sequence[Line], narrow: Sequence[Line], **where: Any) -> Claim:
    sentence = "At gamma 3 Entropy-SGLD starts overfitting random labels at a lower tau than at gamma 0.03."
    onsets = [_first(line, HARMLESS) for line in (wide, narrow)]
    shown = ["none" if tau is None else f"{tau:g}" for tau in onsets]
    told = f"first tau with a gap above {HARMLESS:g} beyond two standard errors: gamma 0.03 {shown[0]}"
    told += f", gamma 3 {shown[1]}"
    if not wide or not narrow or onsets[0] == onsets[1]:  # the same step of a coarse grid, or none
        return Claim(sentence, None, told)
    early = min(tau for tau in onsets if tau is not None)
    there = [row for line in (wide, narrow) for row in line if row["tau"] == early]
    if len(there) < 2:
        return Claim(sentence, None, f"{told}; one gamma has no run at {early:g}")
    gaps = [gap(row) for row in there]
    holds = above(gaps[1], gaps[0], math.hypot(*(noise_of(row) for row in there)))
    little = unlearnt([row for row, own in zip(there, gaps, strict=True) if own == min(gaps)], **where)
    told += f"; at tau {early:g} the gaps are {gaps[0]:.3f} and {gaps[1]:.3f}{little}"
    return Claim(sentence, None if little else holds, told)


def _onset_note(gamma: float, paper: float, line: Sequence[Line]) -> str:
    taus, onset = [row["tau"] for row in line], _first(line, HARMLESS)
    grid = f"At gamma {gamma:g} tau takes {', '.join(f'{tau:g}' for tau in taus)} on random labels."
    if onset is None:
        return f"{grid} None shows overfitting; the paper's begins beyond {paper:g}."
    below = max((tau for tau in taus if tau < onset), default=0.0)
    where = f"{grid} Overfitting is seen first at {onset:g}, so that it sets in between {below:g} and {onset:g}"
    if below < paper <= onset:
        return f"{where}, as the paper's {paper:g} does: the grid shows no difference."
    if onset < paper:
        return f"{where}, earlier than the paper's {paper:g}."
    n, steps = line[0]["n"], line[0]["step"]
    few = f"although n is {n} ({_N / n:g} times smaller), after {steps} outer steps."
    return f"{where}, later than the paper's {paper:g}, {few}"


# Figure 6


def by_beta(table: pl.DataFrame) -> tuple[list[Line], list[Line]]:
    """Runs by gamma, at beta 1 and at beta 0.004."""
    cold, hot = (_by(last(table, beta=beta), "gamma") for beta in BETAS)
    return cold, hot


def numbers_6(table: pl.DataFrame, scale: Scale) -> Iterator[Comparison]:
    """The caption."""
    row = next((row for row in by_beta(table)[1] if abs(row["gamma"] - 3.0) < 1e-9), None)
    for what, paper, name in (
        ("training error at gamma 3, beta 0.004 (about)", 0.06, "train_error"),
        ("risk on the test set, likewise (about)", 0.19, "test_error"),
        ("PAC-Bayes bound on the risk, likewise (about)", 0.32, "dp_pac_bayes_2018"),
    ):
        yield compared(f"Caption: {what}", paper, row, name, "a small network and few epochs below scale paper")


def claims_6(table: pl.DataFrame, scale: Scale) -> Iterator[Claim]:
    """The caption and Appendix E.2."""
    cold, hot = by_beta(table)
    chance = GAMMA_SIZES[scale].guessing
    yield _one_privacy([row["epsilon"] for row in (*cold, *hot)])
    yield _tighter([*cold, *hot], chance)
    yield _alike(cold, chance)
    for claim, rows in (
        *((claim, cold) for claim in (_best_gamma(cold), _over_smoothed(cold))),
        (_smaller_beta(cold, hot), [*cold, *hot]),
    ):
        little = unlearnt([_least(rows, "train_error")], rows, chance) if rows else ""
        yield replace(claim, holds=None if little else claim.holds, evidence=claim.evidence + little)
    yield violations_claim(table, "No generalization bounds are violated.", share=0.0)


def notes_6(table: pl.DataFrame, scale: Scale) -> Iterator[str]:
    """What the constant bound is, and what keeps epsilon."""
    constant = (
        "The paper's constant C-gen bound can only be the first bound of its Theorem 4.2 (its margin "
        "max(epsilon, (ln(3/delta)/n)^1/2) + n^-1/2): the second depends on the training error."
    )
    same = "beta tau is 2000 n/50000, which keeps the paper's epsilon."
    return notes(GAMMA_SIZES[scale], table, scale, constant, same)


def points_6(table: pl.DataFrame, scale: Scale, claims: Sequence[Claim]) -> Iterator[Point]:
    """How much was learnt of CIFAR-10."""
    yield little_learnt(last(table), GAMMA_SIZES[scale].guessing, "The sentences about CIFAR-10", claims)


def _one_privacy(spent: Sequence[float]) -> Claim:
    sentence = "All runs have the same privacy, so that the H-bound's margin is one value."
    if not spent:
        return Claim(sentence, None, "no run has finished")
    least, most = min(spent), max(spent)
    return Claim(sentence, most - least < 1e-9 * most, f"epsilon {up(least)} to {up(most)}")


def _place(row: Line) -> str:
    return f"beta {row['beta']:g}, gamma {row['gamma']:g}"


def _margin(row: Line) -> float:
    """DP-PAC-Bayes bound on risk minus the empirical error."""
    return row["dp_pac_bayes_2018"] - row["gibbs_train_error"]


def _margin_noise(row: Line) -> float:
    return count_noise((row["gibbs_train_error"], row["n"]))


def _constant_margin(row: Line) -> float:
    """ε̄ + 1/√n of Theorem 4.2, whose bound on the risk may be clipped at 1 in the table."""
    return max(row["epsilon"], math.sqrt(math.log(3.0 / Run().failure_prob) / row["n"])) + row["n"] ** -0.5


def _tighter(found: Sequence[Line], chance: float) -> Claim:
    sentence = "The DP-PAC-Bayes generalization bound is tighter than the C-gen bound for all values tested."
    if not found:
        return Claim(sentence, None, "no run has finished")
    able = [row for row in found if 1.0 - row["gibbs_train_error"] > _constant_margin(row)]
    told = f"{len(found) - len(able)} of {len(found)} margins cannot exceed the C-gen bound's, the error being so large"
    told += "".join(f"; {_place(row)}: {_margin(row):.3f} against {_constant_margin(row):.3f}" for row in able)
    learnt = [row for row in able if learns(row, found, chance, "gibbs_")]
    told += unlearnt([row for row in able if row not in learnt], found, chance)
    seen = [below(_margin(row), _constant_margin(row), _margin_noise(row)) for row in learnt]
    return Claim(sentence, every(seen) if len(learnt) > 1 else None, told)


def _alike(cold: Sequence[Line], chance: float) -> Claim:
    sentence = "For gamma from 0.03 to 10 the DP-PAC-Bayes bounds on the generalization error are similar (beta 1)."
    part = [row for row in cold if 0.029 < row["gamma"] < 10.1]
    able, out = [row for row in part if learns(row, cold, chance, "gibbs_")], ""
    for row in (row for row in part if row not in able):
        error = row["gibbs_train_error"]
        out += f"; {_place(row)} left out: its Gibbs training error is {error:.3f}, not below half of guessing"
    if len(able) < 2:
        return Claim(sentence, None, f"fewer than two runs have finished and learnt{out}")
    low, high = (choose(able, key=_margin) for choose in (min, max))
    spread, noise = _margin(high) - _margin(low), math.hypot(_margin_noise(low), _margin_noise(high))
    gammas = ", ".join(f"{row['gamma']:g}" for row in able)
    told = f"those of gamma {gammas} differ by {spread:.4f}"
    return Claim(sentence, below(spread, _ALIKE, noise), f"{told}; similar below {_ALIKE:g}{out}")


def _least(rows: Sequence[Line], name: str) -> Line:
    return min(rows, key=lambda row: row[name])


def _best_gamma(cold: Sequence[Line]) -> Claim:
    sentence = (
        "gamma in [1, 3] yields the smallest bound on the risk and the best performing classifiers (beta 1; the paper "
        "prints tau for gamma)."
    )
    if len(cold) < 2:
        return Claim(sentence, None, "fewer than two runs have finished")
    names = ("dp_pac_bayes_2018", "test_error")
    bound, error = (_least(cold, name) for name in names)
    told = f"smallest PAC-Bayes bound {up(bound['dp_pac_bayes_2018'])} at gamma {bound['gamma']:g}, smallest test error"
    inside = [row for row in cold if 0.99 < row["gamma"] < 3.01]
    outside = [row for row in cold if row not in inside]
    seen = [lower(_least(inside, name), _least(outside, name), name) if inside and outside else None for name in names]
    return Claim(sentence, every(seen), f"{told} {error['test_error']:.3f} at gamma {error['gamma']:g}")


def _over_smoothed(cold: Sequence[Line]) -> Claim:
    sentence = "At gamma 0.003 and beta 1 Entropy-SGLD fails to find a good classifier, unlike at the best gamma."
    row = next((row for row in cold if abs(row["gamma"] - 0.003) < 1e-9), None)
    if row is None or len(cold) < 2:
        return Claim(sentence, None, "the run has not finished, or is not of this scale")
    best = _least(cold, "test_error")
    told = f"test error {row['test_error']:.3f}, at the best gamma {best['test_error']:.3f}; fails if larger by 0.1"
    holds = above(row["test_error"], best["test_error"] + 0.1, noise_between(row, best, "test_error"))
    return Claim(sentence, holds, told)


def _smaller_beta(cold: Sequence[Line], hot: Sequence[Line]) -> Claim:
    sentence = "With beta 0.004 training error, test error and PAC-Bayes bound are lower than the best with beta 1."
    if not cold or not hot:
        return Claim(sentence, None, "one of the two sweeps has not finished")
    names = ("train_error", "test_error", "dp_pac_bayes_2018")
    pairs = {name: (_least(hot, name), _least(cold, name)) for name in names}
    told = (
        f"{LETTERS.get(name, name.replace('_', ' '))}: {one[name]:.4f} against {other[name]:.4f}"
        for name, (one, other) in pairs.items()
    )
    return Claim(sentence, every(lower(one, other, name) for name, (one, other) in pairs.items()), "; ".join(told))


def _study(figure: int, title: str, jobs: Any, cells: figures.Cells, x: str, **judged: Any) -> Study:
    return Study(
        name=f"entropy-sgld-figure-{figure}",
        title=f"Entropy-SGLD on CIFAR-10{title}",
        paper=f"{PAPER}, Figure {figure}",
        jobs=jobs,
        table=tabled(records, COLUMNS),
        draw=drawing(figure=lambda table: figures.over_settings(final(table), cells, x)),
        scales=("smoke", "cpu", "gpu", "paper"),
        judge=judging(**judged, settled_by=on_a_gpu(jobs)),
    )


_TAUS = [[({"gamma": g, "labels": to}, f"gamma {g:g}, {to} labels") for to in LABELS] for g in ONSETS]
_GAMMAS = [[({"beta": beta}, f"beta {beta:g}, epsilon the same") for beta in BETAS]]
_FROM, _AT = ": from private to overfitted as tau grows", " at one privacy: scope of the local entropy"
FIGURE_5 = _study(5, _FROM, jobs_5, _TAUS, "tau", numbers=numbers_5, claims=claims_5, notes=notes_5)
_JUDGED: dict[str, Any] = {"numbers": numbers_6, "claims": claims_6, "notes": notes_6, "points": points_6}
FIGURE_6 = _study(6, _AT, jobs_6, _GAMMAS, "gamma", **_JUDGED)
STUDIES = (FIGURE_5, FIGURE_6)
