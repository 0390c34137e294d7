"""Figure 6: Entropy-SGLD on CIFAR-10 at many gamma and one privacy, beta tau = 2000, with beta 1 and 0.004."""

import math
from pathlib import Path
from typing import Any

import polars as pl

from experiments.claims import Claim, Comparison, Verdict, above, below, count_noise, every
from experiments.config import Run
from experiments.figures import entropy_sgld as drawing
from experiments.figures import style
from experiments.figures.numbers import up
from experiments.papers.entropy_sgld import judging, rows
from experiments.papers.entropy_sgld.cifar import BETAS, EXAMPLES, GAMMA_SIZES, GAMMAS, PRIVACY, notes, one, spaced
from experiments.papers.entropy_sgld.settings import PAPER, Size
from experiments.random_labels_bounds import LETTERS, violations_claim
from experiments.random_labels_gaps import lower, noise_between
from experiments.recipes import Scale
from experiments.study import Job, Study
from pacdp import Architecture

Row = dict[str, Any]
_ALIKE = 0.05
_LEARNT = 0.85
"""A Gibbs error below that of guessing, 0.9, by enough to leave a margin room."""
_NET = Architecture(name="cnn3")


def privacy(size: Size) -> float:
    """βτ: the paper's 2000, and with fewer examples as much less, so that epsilon is the paper's."""
    return PRIVACY * size.n / EXAMPLES


def jobs(scale: Scale, seed: int) -> list[Job]:
    """Each gamma at both betas, on true labels."""
    size = GAMMA_SIZES[scale]
    return [
        one(size, scale=scale, small=_NET, labels="true", tau=privacy(size) / beta, gamma=gamma, beta=beta, seed=seed)
        for beta in BETAS
        for gamma in GAMMAS[scale]
    ]


def draw(table: pl.DataFrame, out: Path) -> list[Path]:
    """The paper's two panels, a beta each."""
    drawn, (line,) = style.figure(1, 2, width=5.0)
    last = rows.final(table)
    for axes, beta in zip(line, BETAS, strict=True):
        part = last.filter((pl.col("beta") - beta).abs() < 1e-12)
        drawing.over_a_setting(axes, part, x="gamma", label="gamma", title=f"beta {beta:g}, epsilon the same")
    drawing.legend(line)
    return style.save(drawn, out / "figure")


def judge(table: pl.DataFrame, scale: Scale) -> Verdict:
    """The caption and Appendix E.2."""
    cold, hot = (sorted(judging.last(table, beta=beta), key=lambda row: row["gamma"]) for beta in BETAS)
    claims = (
        _one_privacy(cold + hot),
        _tighter(cold + hot),
        _alike(cold),
        _best_gamma(cold),
        _over_smoothed(cold),
        _smaller_beta(cold, hot),
        violations_claim(table, "No generalization bounds are violated.", share=0.0),
    )
    others = (
        "The paper's constant C-gen bound can only be the first bound of its Theorem 4.2 (its margin "
        "max(epsilon, (ln(3/delta)/n)^1/2) + n^-1/2): the second depends on the training error.",
        "beta tau is 2000 n/50000, which keeps the paper's epsilon.",
    )
    told = (*notes(scale, GAMMA_SIZES[scale], table, *others), *judging.violation_notes(table))
    return Verdict(comparisons=_comparisons(hot), claims=claims, notes=told)


def _comparisons(hot: list[Row]) -> tuple[Comparison, ...]:
    row = next((row for row in hot if abs(row["gamma"] - 3.0) < 1e-9), None)
    why = "a small network and few epochs below scale paper"
    return (
        judging.compared("Caption: training error at gamma 3, beta 0.004 (about)", 0.06,
                         judging.number(row, "train_error"), why),
        judging.compared("Caption: risk on the test set, likewise (about)", 0.19, judging.number(row, "test_error"),
                         why),
        judging.compared("Caption: PAC-Bayes bound on the risk, likewise (about)", 0.32,
                         judging.number(row, "dp_pac_bayes_2018"), why),
    )  # fmt: skip


def _one_privacy(found: list[Row]) -> Claim:
    sentence = "All runs have the same privacy, so that the H-bound's margin is one value."
    if not found:
        return Claim(sentence=sentence, holds=None, evidence="no run has finished")
    epsilons = [row["epsilon"] for row in found]
    told = f"epsilon {up(min(epsilons))} to {up(max(epsilons))}"
    return Claim(sentence=sentence, holds=spaced(epsilons) < 1e-9 * max(epsilons), evidence=told)


def _tighter(found: list[Row]) -> Claim:
    sentence = "The DP-PAC-Bayes generalization bound is tighter than the C-gen bound for all values tested."
    if not found:
        return Claim(sentence=sentence, holds=None, evidence="no run has finished")
    able = [row for row in found if 1.0 - row["gibbs_train_error"] > _constant_margin(row)]
    told = (f"{len(found) - len(able)} of {len(found)} margins cannot exceed the C-gen bound's, the error being so "
            "large")  # fmt: skip
    told += "".join(f"; {_place(row)}: {_margin(row):.3f} against {_constant_margin(row):.3f}" for row in able)
    seen = [below(_margin(row), _constant_margin(row), _margin_noise(row)) for row in able]
    return Claim(sentence=sentence, holds=every(seen) if len(able) > 1 else None, evidence=told)


def _place(row: Row) -> str:
    return f"beta {row['beta']:g}, gamma {row['gamma']:g}"


def _margin(row: Row) -> float:
    """DP-PAC-Bayes bound on risk minus the empirical error."""
    return row["dp_pac_bayes_2018"] - row["gibbs_train_error"]


def _margin_noise(row: Row) -> float:
    return count_noise((row["gibbs_train_error"], row["n"]))


def _constant_margin(row: Row) -> float:
    """ε̄ + 1/√n of Theorem 4.2, whose bound on the risk may be clipped at 1 in the table."""
    failure_prob = Run().failure_prob
    return max(row["epsilon"], math.sqrt(math.log(3.0 / failure_prob) / row["n"])) + row["n"] ** -0.5


def _alike(cold: list[Row]) -> Claim:
    sentence = "For gamma from 0.03 to 10 the DP-PAC-Bayes bounds on the generalization error are similar (beta 1)."
    part = [row for row in cold if 0.029 < row["gamma"] < 10.1]
    able = [row for row in part if row["gibbs_train_error"] < _LEARNT]
    out = "".join(f"; {_place(row)} left out: its Gibbs error is {row['gibbs_train_error']:.3f}, its margin at most "
                  f"{1.0 - row['gibbs_train_error']:.3f}" for row in part if row not in able)  # fmt: skip
    if len(able) < 2:
        return Claim(sentence=sentence, holds=None, evidence=f"fewer than two runs have finished and learnt{out}")
    low, high = (choose(able, key=_margin) for choose in (min, max))
    spread, noise = _margin(high) - _margin(low), math.hypot(_margin_noise(low), _margin_noise(high))
    gammas = ", ".join(f"{row['gamma']:g}" for row in able)
    told = f"those of gamma {gammas} differ by {spread:.4f}"
    return Claim(sentence=sentence, holds=below(spread, _ALIKE, noise),
                 evidence=f"{told}; similar below {_ALIKE:g}{out}")  # fmt: skip


def _best_gamma(cold: list[Row]) -> Claim:
    sentence = ("gamma in [1, 3] yields the smallest bound on the risk and the best performing classifiers (beta 1; "
                "the paper prints tau for gamma).")  # fmt: skip
    if len(cold) < 2:
        return Claim(sentence=sentence, holds=None, evidence="fewer than two runs have finished")
    bound, error = (min(cold, key=lambda row, name=name: row[name]) for name in ("dp_pac_bayes_2018", "test_error"))
    told = (f"smallest PAC-Bayes bound {up(bound['dp_pac_bayes_2018'])} at gamma {bound['gamma']:g}, smallest test "
            f"error {error['test_error']:.3f} at gamma {error['gamma']:g}")  # fmt: skip
    inside = [row for row in cold if 0.99 < row["gamma"] < 3.01]
    outside = [row for row in cold if row not in inside]
    seen = [_best_inside(inside, outside, name) for name in ("dp_pac_bayes_2018", "test_error")]
    return Claim(sentence=sentence, holds=every(seen), evidence=told)


def _best_inside(inside: list[Row], outside: list[Row], name: str) -> bool | None:
    if not inside or not outside:
        return None
    one, other = (min(rows, key=lambda row: row[name]) for rows in (inside, outside))
    return lower(one, other, name)


def _over_smoothed(cold: list[Row]) -> Claim:
    sentence = "At gamma 0.003 and beta 1 Entropy-SGLD fails to find a good classifier, unlike at the best gamma."
    row = next((row for row in cold if abs(row["gamma"] - 0.003) < 1e-9), None)
    if row is None or len(cold) < 2:
        return Claim(sentence=sentence, holds=None, evidence="the run has not finished, or is not of this scale")
    best = min(cold, key=lambda other: other["test_error"])
    told = f"test error {row['test_error']:.3f}, at the best gamma {best['test_error']:.3f}; fails if larger by 0.1"
    holds = above(row["test_error"], best["test_error"] + 0.1, noise_between(row, best, "test_error"))
    return Claim(sentence=sentence, holds=holds, evidence=told)


def _smaller_beta(cold: list[Row], hot: list[Row]) -> Claim:
    sentence = "With beta 0.004 training error, test error and PAC-Bayes bound are lower than the best with beta 1."
    if not cold or not hot:
        return Claim(sentence=sentence, holds=None, evidence="one of the two sweeps has not finished")
    names = ("train_error", "test_error", "dp_pac_bayes_2018")
    pairs = {name: [min(line, key=lambda row, name=name: row[name]) for line in (hot, cold)] for name in names}
    told = "; ".join(f"{LETTERS.get(name, name.replace('_', ' '))}: {one[name]:.4f} against {other[name]:.4f}"
                     for name, (one, other) in pairs.items())  # fmt: skip
    seen = [lower(one, other, name) for name, (one, other) in pairs.items()]
    return Claim(sentence=sentence, holds=every(seen), evidence=told)


STUDY = Study(
    name="entropy-sgld-figure-6", title="Entropy-SGLD on CIFAR-10 at one privacy: scope of the local entropy",
    paper=f"{PAPER}, Figure 6", jobs=jobs, table=rows.table, draw=draw, judge=judge,
)  # fmt: skip
