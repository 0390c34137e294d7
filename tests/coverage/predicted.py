"""Reports on predictions where the truth is known, each with a fault that is made in practice.

A law of labels and predictions is drawn from many times; a report fails when any of its rows is false. The number of
failures is binomial with a rate of at most the failure probability: a binomial test at 1e-4 may not refute that, and
must refute it of the fault.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
from numpy.random import default_rng
from scipy.stats import binomtest, norm

import bounds
import pacdp
from pacdp import Report
from tests.coverage.labelled import THREE, probabilities

TRIALS = 400
FAILURE = 0.2
"""High, so that few trials have power."""
SIX = tuple(f"g{k}" for k in range(6))
Case = tuple[Report, dict[str, float]]
"""A report, and what is true of some of its rows."""
World = Callable[[np.random.Generator], Case]


def false(found, truths):
    rows = [(row, truths[row.quantity]) for row in found.statements if row.quantity in truths]
    assert rows
    return any(not (row.lower is None or row.lower <= truth) or not (row.upper is None or truth <= row.upper)
               for row, truth in rows)  # fmt: skip


def failures(report, trials):
    rng = default_rng(7)
    return sum(false(*report(rng)) for _ in range(trials))


def refuted(failed, trials):
    return binomtest(failed, trials, FAILURE, alternative="greater").pvalue < 1e-4


def _truths(world):
    wrong = np.array(world.wrong)
    of_classes = {"error on": wrong, "recall of": 1 - wrong, "precision of": world.precision,
                  "false-alarm rate of": world.false_alarms}  # fmt: skip
    each = {f"{what} class {c}": value for what, values in of_classes.items() for c, value in enumerate(values)}
    return {"error": world.error, **each}


def plain(rng, *, apart=False):
    """Error, recall, precision and false alarms of three classes, in one report or ``apart``, a report for each."""
    labels, said = THREE.draw(150, rng)
    asked = {
        "error": FAILURE,
        **dict.fromkeys(("recall", "precision", "false-alarms"), 2 * FAILURE),
    }  # half: the error's
    made = [pacdp.certify_predictions(labels, said, classes=[0, 1, 2], ask=ask, failure_prob=each, interval=True)
            for ask, each in (asked.items() if apart else [(None, FAILURE)])]  # fmt: skip
    return replace(made[0], statements=tuple(row for one in made for row in one.statements)), _truths(THREE)


def error(rng, *, factor=1.0):
    labels, said = THREE.draw(2000, rng)
    return pacdp.certify_predictions(labels, said, ask="error", failure_prob=factor * FAILURE), _truths(THREE)


def groups(rng, *, paid=True, gap=False):
    """Six groups with errors of 0.1 to 0.35, all compared."""
    group, rates = rng.integers(0, 6, 600), 0.1 + 0.05 * np.arange(6)
    labels = rng.integers(0, 2, 600)
    said = np.where(rng.random(600) < rates[group], 1 - labels, labels)
    truths = {f"error in group {name!r}": float(rate) for name, rate in zip(SIX, rates, strict=True)}
    # half of the failure probability is the error's, of which nothing is asked here; unpaid, a group has five times its
    share = 2 * FAILURE if paid else 0.9999
    found = pacdp.certify_predictions(labels, said, groups=np.array(SIX)[group], ask="groups", failure_prob=share)
    return found, {"largest gap between groups": 0.25} if gap else truths


def crowd(rng, *, ask="error", counted=True):
    """Sixty people with twenty examples each; of a fifth of them nearly all are wrong, of the others hardly any."""
    rate = np.where(rng.random(60) < 0.2, 0.9, 0.05)
    wrong = rng.random((60, 20)) < rate[:, None]
    labels = rng.integers(0, 2, (60, 20))
    said, people = np.where(wrong, 1 - labels, labels).ravel(), np.repeat(np.arange(60), 20)
    whose = people if counted else None
    found = pacdp.certify_predictions(labels.ravel(), said, people=whose, ask=ask, failure_prob=FAILURE)
    return found, {"error": 0.22, "error on class 0": 0.22, "error on class 1": 0.22}


def difference(rng, *, shrunk=1.0):
    """Two models, of which one errs on 0.2 and the other on 0.29; the interval shrunk towards what was measured."""
    labels = rng.integers(0, 2, 400)
    first = np.where(rng.random(400) < 0.2, 1 - labels, labels)
    second = np.where(rng.random(400) < 0.15, 1 - first, first)
    told = {"a": first, "b": second}
    found = pacdp.certify_predictions(labels, told, ask="differences", failure_prob=2 * FAILURE)
    row = found.statement("error of b minus error of a")
    ends = {name: row.measured + shrunk * (getattr(row, name) - row.measured) for name in ("lower", "upper")}
    return replace(found, statements=(replace(row, **ends),)), {row.quantity: 0.09}


def tied(rng, *, paid=True):
    """Four models that err alike on 0.3, each for itself: none may be told apart from another."""
    labels = rng.integers(0, 2, 300)
    told = {name: np.where(rng.random(300) < 0.3, 1 - labels, labels) for name in "abcd"}
    share = 2 * FAILURE
    if paid:
        found = pacdp.certify_predictions(labels, told, ask="leaderboard", failure_prob=share)
        rows = [row for row in found.statements if row.family == "leaderboard"]
    else:  # a report for each
        pairs = [{one: told[one], other: told[other]} for one in told for other in told if one < other]
        made = [pacdp.certify_predictions(labels, pair, ask="differences", failure_prob=share) for pair in pairs]
        found, rows = made[0], [one.statements[-1] for one in made]
    return replace(found, statements=tuple(rows)), {row.quantity: 0.0 for row in rows}


def area(rng, *, pairs=False, people=False, counted=True):
    """Scores of two normal laws one apart, of area Φ(1/√2); as the records, pairs, or people of forty examples."""
    labels = rng.integers(0, 2, 60)
    score = labels + rng.normal(size=60)
    if people:
        labels, score = np.repeat(labels, 40), np.repeat(score, 40) + 1e-3 * rng.normal(size=2400)
    whose = np.arange(60).repeat(40) if people and counted else None
    p = 1 / (1 + np.exp(-score))
    soft = np.column_stack([1 - p, p])
    found = pacdp.certify_predictions(labels, probabilities=soft, people=whose, ask="auc", failure_prob=2 * FAILURE)
    row = found.statement("AUC")
    if pairs:
        nats = np.log(1 / FAILURE) / (labels.sum() * (60 - labels.sum()))
        row = replace(row, lower=1 - bounds.binary_kl_upper(1 - row.measured, nats))
    return replace(found, statements=(row,)), {"AUC": float(norm.cdf(np.sqrt(0.5)))}


def numbers(rng, *, range_known=True):
    """Small numbers, predicted by 0, and rarely a large one, which a range that is that of the sample may not know."""
    truth = np.where(rng.random(30) < 0.03, 1.0, 0.02 * rng.random(30))
    within = (0.0, 1.0) if range_known else (0.0, float(truth.max()))
    found = pacdp.certify_predictions(truth, np.zeros(30), within=within, ask="error", failure_prob=FAILURE)
    row = found.statements[0]
    share = replace(row, upper=row.upper * within[1], quantity="absolute error")
    return replace(found, statements=(share,)), {"absolute error": 0.03 + 0.97 * 0.01}


def weighted(rng, *, given=True):
    """Half of the examples weigh five times what the others do, and are four times as hard."""
    heavy = rng.random(400) < 0.5
    labels = rng.integers(0, 2, 400)
    said = np.where(rng.random(400) < np.where(heavy, 0.4, 0.1), 1 - labels, labels)
    weights = np.where(heavy, 1.0, 0.2) if given else None
    found = pacdp.certify_predictions(labels, said, weights=weights, ask="error", failure_prob=FAILURE)
    return found, {found.statements[0].quantity: (0.4 + 0.2 * 0.1) / 1.2}


@lru_cache
def _soft():
    """Brier risk and calibration of a law, by 400,000 draws."""
    rng = default_rng(3)
    many = rng.integers(0, 3, 400_000)
    soft = probabilities(many, rng)
    gap = (soft.argmax(1) == many) - soft.max(1)
    slot = np.minimum((soft.max(1) * 15).astype(int), 14)
    bins = {f"calibration gap at confidence {b / 15:.2f} to {(b + 1) / 15:.2f}": abs(float(gap[slot == b].mean()))
            for b in range(15) if (slot == b).any()}  # fmt: skip
    ece = sum(abs(gap[slot == b].sum()) for b in range(15)) / many.size
    return {"Brier risk": float(((soft - np.eye(3)[many]) ** 2).sum(1).mean()), "calibration error (ECE)": ece, **bins}


def calibration(rng, *, people=False):
    labels = rng.integers(0, 3, 300)
    ask = ["brier", "calibration"] if people else ["brier", "calibration", "bins"]
    found = pacdp.certify_predictions(
        labels, probabilities=probabilities(labels, rng), people=np.arange(300) // 2 if people else None, ask=ask,
        failure_prob=2 * FAILURE,
    )  # fmt: skip
    return found, _soft()


class Row(NamedTuple):
    """A line of the table: what must hold, and a fault that must be caught."""

    name: str
    sound: World
    fault: str = ""
    broken: World | None = None
    trials: int = TRIALS


ROWS = [
    Row("the error alone", error, "a factor of 1.5 on the failure probability", partial(error, factor=1.5), 800),
    Row(
        "error, recall, precision, false alarms of three classes",
        plain,
        "a report for each, at the whole failure probability",
        partial(plain, apart=True),
    ),
    Row("six groups", groups, "groups that are not paid for", partial(groups, paid=False)),
    Row("the largest gap between six groups", partial(groups, gap=True)),
    Row("people of unequal difficulty", crowd, "examples counted in their place", partial(crowd, counted=False)),
    Row("recall of such people", partial(crowd, ask="recall"), trials=150),
    Row(
        "a difference of two models",
        difference,
        "an interval of 0.4 of its length",
        partial(difference, shrunk=0.4),
        300,
    ),
    Row("ranks of four models that err alike", tied, "pairs that are not paid for", partial(tied, paid=False), 300),
    Row("the area under the ROC curve", area, "pairs counted as records", partial(area, pairs=True), 300),
    Row(
        "the area of people",
        partial(area, people=True),
        "examples counted in their place",
        partial(area, people=True, counted=False),
        300,
    ),
    Row("numbers in a range", numbers, "the range that was seen", partial(numbers, range_known=False), 300),
    Row("a weighted population", weighted, "weights forgotten", partial(weighted, given=False), 300),
    Row("Brier risk, calibration error and bins", calibration, trials=150),
    Row("Brier risk and calibration error of people", partial(calibration, people=True), trials=150),
]


def lines(trials):
    """The rows with how often each was false, and whether the test says what it should."""
    found = []
    for row in ROWS:
        sound = failures(row.sound, trials)
        broken = None if row.broken is None else failures(row.broken, trials)
        found.append({
            "report": row.name, "nominal": FAILURE, "trials": trials, "false": sound / trials, "fault": row.fault,
            "false_with_the_fault": None if broken is None else broken / trials,
            "as_it_should_be": bool(not refuted(sound, trials) and (broken is None or refuted(broken, trials))),
        })  # fmt: skip
    return found
