"""Table 1: test accuracy and time per epoch of private and other Bayesian networks on MNIST."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from experiments.claims import Claim, Comparison, Verdict, count_noise, every
from experiments.figures import bayesian_dp as drawing
from experiments.figures import style
from experiments.papers.bayesian_dp.config import CNN
from experiments.papers.bayesian_dp.notes import cut, differing, numbers_of
from experiments.papers.bayesian_dp.plans import MLP, SETTINGS, image_jobs
from experiments.papers.bayesian_dp.seeds import Measured, mean_shown, measured, smaller
from experiments.papers.bayesian_dp.tables import epsilon_shown, image_table, largest, mean, shown
from experiments.recipes import Scale
from experiments.study import Job, Study

CELLS = [
    ("SGLD", "normal"), ("SGLD", "laplace"), ("BBP", "normal"), ("BBP", "laplace"), ("MC Dropout", "normal"),
    ("SGD", "none"),
]  # fmt: skip
TWIN = "SGD as SGLD"
PAPER = {
    ("SGLD", "normal", "MLP"): (0.90, 0.95), ("SGLD", "normal", "CNN"): (0.95, 0.96),
    ("SGLD", "laplace", "MLP"): (0.89, 0.90), ("SGLD", "laplace", "CNN"): (0.89, 0.89),
    ("BBP", "normal", "MLP"): (0.80, 0.97), ("BBP", "laplace", "MLP"): (0.81, 0.98),
    ("MC Dropout", "normal", "MLP"): (0.78, 0.98), ("MC Dropout", "normal", "CNN"): (0.77, 0.97),
    ("SGD", "none", "MLP"): (0.77, 0.97), ("SGD", "none", "CNN"): (0.95, 0.99),
}  # fmt: skip
"""Accuracy with and without privacy, as printed."""
PAPER_SECONDS = {"SGLD": 10.0, "BBP": 480.0, "MC Dropout": 9.0, "SGD": 10.0}
"""Per epoch with privacy, on a P100."""


def jobs(scale: Scale, seed: int) -> list[Job]:
    """BBP on the CNN is left out, as in the paper; DP-SGD at DP-SGLD's numbers (Theorem 1) is added."""
    wide = [(algorithm, prior, MLP) for algorithm, prior in [*CELLS, (TWIN, "normal")]]
    deep = [(algorithm, prior, CNN) for algorithm, prior in [*CELLS, (TWIN, "normal")] if algorithm != "BBP"]
    return image_jobs(wide + deep, scale, seed)


def draw(table: pl.DataFrame, out: Path) -> list[Path]:
    """Accuracies with and without privacy."""
    drawn, grid = style.figure(1, 2, width=4.6)
    drawing.accuracies(grid[0], table)
    return style.save(drawn, out / "figure")


def judge(table: pl.DataFrame, scale: Scale) -> Verdict:
    """Every number of Table 1 and the sentences about it."""
    claims = (_best(table, "MLP"), _best(table, "CNN"), _similar(table), _langevin_drop(table), _other_drops(table),
              _slow(table), _theorem(table))  # fmt: skip
    return Verdict(comparisons=(*_accuracies(table, scale), *_times(table)), claims=claims,
                   notes=(*cut(scale, seeds=SETTINGS[scale].seeds), numbers_of(table)))  # fmt: skip


def _accuracies(table: pl.DataFrame, scale: Scale) -> list[Comparison]:
    found = []
    for (algorithm, prior, network), printed in PAPER.items():
        for private, number in zip((True, False), printed, strict=True):
            where = {"algorithm": algorithm, "prior": prior, "network": network, "private": private}
            if private:
                why = f"epsilon {epsilon_shown(largest(table, 'epsilon', **where))} (ours, sound); the text prints none"
            else:
                why = differing(scale, network=MLP if network == "MLP" else CNN, several=algorithm != "SGD")
            found.append(Comparison(what=f"Table 1, MNIST, {network}, {'DP-' if private else ''}{algorithm}, prior "
                                         f"{prior}: accuracy", paper=number, ours=mean(table, "accuracy", **where),
                                    why=why))  # fmt: skip
    return found


def _times(table: pl.DataFrame) -> list[Comparison]:
    return [
        Comparison(what=f"Table 1, DP-{algorithm}, MLP: seconds per epoch", paper=seconds,
                   ours=mean(table, "seconds_per_epoch", algorithm=algorithm, private=True, network="MLP"),
                   why="another machine; per-example gradients of Bayesian layers are not formed one by one here")
        for algorithm, seconds in PAPER_SECONDS.items()
    ]  # fmt: skip


def _accuracy(table: pl.DataFrame, algorithm: str, prior: str, network: str, *, private: bool) -> Measured | None:
    where = {"algorithm": algorithm, "prior": prior, "network": network, "private": private}
    found, n = measured(table, "accuracy", **where), mean(table, "n", **where)
    return None if found is None or n is None else found.counted(n)


def _listed(found: Mapping[str, Measured | None]) -> str:
    return ", ".join(f"{name} {mean_shown(one)}" for name, one in found.items())


def _best(table: pl.DataFrame, network: str) -> Claim:
    ours = _accuracy(table, "SGLD", "normal", network, private=True)
    others = {
        f"DP-{algorithm} ({prior})": _accuracy(table, algorithm, prior, network, private=True)
        for algorithm, prior in CELLS if algorithm != "SGLD" and (algorithm, prior, network) in PAPER
    }  # fmt: skip
    twin = mean(table, "accuracy", algorithm=TWIN, network=network, private=True)
    return Claim(
        sentence=f"{network}: \"DP-SGLD outperforms other Bayesian and non-Bayesian methods under almost identical "
                 "privacy budgets\" (more accurate than each, prior normal)",
        holds=every([smaller(other, ours) for other in others.values()]),
        evidence=f"DP-SGLD {mean_shown(ours)}; " + _listed(others)
                 + f"; not counted: DP-SGD at DP-SGLD's own numbers {shown(twin)}",
    )  # fmt: skip


def _similar(table: pl.DataFrame) -> Claim:
    values = [_accuracy(table, *cell, private=False) for cell in PAPER]
    known = [value for value in values if value is not None]
    low, high = (pick(known, default=None, key=lambda one: one.mean) for pick in (min, max))
    spread = None if low is None or high is None else high.minus(low)
    return Claim(sentence='"all of non-DP methods have similar high test accuracy" (within 0.11: printed 0.10, '
                          "rounded)",
                 holds=None if spread is None or len(known) < len(values) else spread.below(0.11),
                 evidence=f"spread {mean_shown(spread)}, from {mean_shown(low)} to {mean_shown(high)}")  # fmt: skip


def _drop(table: pl.DataFrame, algorithm: str, prior: str) -> Measured | None:
    plain = _accuracy(table, algorithm, prior, "MLP", private=False)
    private = _accuracy(table, algorithm, prior, "MLP", private=True)
    return None if plain is None or private is None else plain.minus(private)


def _langevin_drop(table: pl.DataFrame) -> Claim:
    drop = _drop(table, "SGLD", "normal")
    return Claim(sentence='MLP: "DP-SGLD ... does not deteriorate comparing to its non-DP version" (drop below 0.06: '
                          "printed 0.05, rounded)", holds=None if drop is None else drop.below(0.06),
                 evidence=f"drop {mean_shown(drop)}")  # fmt: skip


def _other_drops(table: pl.DataFrame) -> Claim:
    drops = {f"{a} ({p})": _drop(table, a, p) for a, p in CELLS if a != "SGLD"}
    return Claim(sentence='MLP: "other methods experience an accuracy drop ≈ 20%" (at least 0.1 each)',
                 holds=every([None if drop is None else drop.above(0.1) for drop in drops.values()]),
                 evidence="drops: " + _listed(drops))  # fmt: skip


def _slow(table: pl.DataFrame) -> Claim:
    slow, quick = (
        mean(table, "seconds_per_epoch", algorithm=name, private=True, network="MLP") for name in ("BBP", "SGLD")
    )
    ratio = None if slow is None or not quick else slow / quick
    return Claim(sentence='"DP-SGLD requires only 10 sec/epoch, while DP-BBP takes 480 sec/epoch" (a factor of 10 or '
                          'more)',
                 holds=None if ratio is None else ratio > 10.0,
                 evidence=f"DP-BBP {shown(slow, 2)} s, DP-SGLD {shown(quick, 2)} s: factor "
                          f"{shown(ratio, 1)}")  # fmt: skip


def _within(gap: float | None, table: pl.DataFrame, accuracy: float | None) -> bool | None:
    """gap < 0.005; None where only the noise of two counts lies beyond."""
    n = mean(table, "n", algorithm="SGLD", private=True)
    if gap is None or accuracy is None or gap < 0.005:
        return None if gap is None else True
    noise = 0.0 if n is None else count_noise((accuracy, n), (accuracy, n))
    return None if gap <= 0.005 + noise else False


def _theorem(table: pl.DataFrame) -> Claim:
    one = mean(table, "last_accuracy", algorithm="SGLD", prior="normal", network="MLP", private=True)
    other = mean(table, "accuracy", algorithm=TWIN, network="MLP", private=True)
    gap = None if one is None or other is None else abs(one - other)
    return Claim(sentence='"every DP-SGLD is equivalent to some DP-SGD" (Theorem 1: same noise, last weights within '
                          "0.005 in accuracy)", holds=_within(gap, table, one),
                 evidence=f"DP-SGLD's last weights {shown(one, 4)}, DP-SGD at lr n η {shown(other, 4)}")  # fmt: skip


STUDY = Study(
    name="dp-bnn-accuracy", title="Accuracy and time of private Bayesian networks",
    paper="Zhang, Bu et al. (2021), Table 1", jobs=jobs, table=image_table, draw=draw, judge=judge,
)  # fmt: skip
