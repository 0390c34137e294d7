"""Reports on predictions fail no more often than they say where the truth is known, and faults are caught.

A law of labels and predictions is drawn from many times; a report fails when any of its rows is false. The number of
failures is binomial with a rate of at most the failure probability: the test refutes that at 1e-4. Each fault is one
that is made in practice, and the same test must refute it.
"""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from worlds import THREE, World, probabilities

import pacdp
from pacdp import PredictionReport

TRIALS = 400
FAILURE = 0.2
"""High, so that few trials have power."""
Truths = dict[str, float]


def _false(found: PredictionReport, truths: Truths) -> bool:
    rows = [(row, truths[row.quantity]) for row in found.statements if row.quantity in truths]
    assert rows
    return any(not (row.lower is None or row.lower <= truth) or not (row.upper is None or truth <= row.upper)
               for row, truth in rows)  # fmt: skip


def _failures(report: Callable[[np.random.Generator], tuple[PredictionReport, Truths]], trials: int = TRIALS) -> int:
    rng = np.random.default_rng(7)
    return sum(_false(*report(rng)) for _ in range(trials))


def _refuted(failures: int, trials: int = TRIALS, rate: float = FAILURE) -> bool:
    return stats.binomtest(failures, trials, rate, alternative="greater").pvalue < 1e-4


def _truths(world: World) -> Truths:
    each = zip(world.wrong, world.precision, world.false_alarms, strict=True)
    return {"error": world.error} | {
        name: value
        for c, (wrong, precision, alarms) in enumerate(each)
        for name, value in (
            (f"error on class {c}", wrong), (f"recall of class {c}", 1 - wrong),
            (f"precision of class {c}", precision), (f"false-alarm rate of class {c}", alarms),
        )
    }  # fmt: skip


def _plain(rng: np.random.Generator, n: int = 150, failure_prob: float = FAILURE) -> tuple[PredictionReport, Truths]:
    labels, said = THREE.draw(n, rng)
    return pacdp.certify_predictions(
        labels, said, classes=[0, 1, 2], failure_prob=failure_prob, interval=True
    ), _truths(THREE)  # fmt: skip


def test_all_rows_hold_together():
    failures = _failures(_plain)
    assert not _refuted(failures)
    assert failures > 0.02 * TRIALS, "not absurdly rarely either"


def test_a_failure_probability_that_is_not_shared_out_is_caught():
    """Each row at the whole failure probability: 13 rows, two ends each."""
    unpaid = 1 - (1 - FAILURE) ** 0.999
    assert _refuted(_failures(lambda rng: _plain(rng, failure_prob=min(0.999, 12 * unpaid)), 100), 100)


def test_a_factor_of_one_and_a_half_on_the_error_alone_is_caught():
    def error(rng: np.random.Generator, failure_prob: float) -> tuple[PredictionReport, Truths]:
        labels, said = THREE.draw(2000, rng)
        return pacdp.certify_predictions(labels, said, ask="error", failure_prob=failure_prob), _truths(THREE)

    assert not _refuted(_failures(lambda rng: error(rng, FAILURE)))
    assert _refuted(_failures(lambda rng: error(rng, 1.5 * FAILURE)))


SIX = tuple(f"g{k}" for k in range(6))


def _groups(rng: np.random.Generator, *, paid: bool) -> tuple[PredictionReport, Truths]:
    """Six groups with errors of 0.1 to 0.35, all compared."""
    group, rates = rng.integers(0, 6, 600), 0.1 + 0.05 * np.arange(6)
    labels = rng.integers(0, 2, 600)
    said = np.where(rng.random(600) < rates[group], 1 - labels, labels)
    names = np.array(SIX)[group]
    truths = {f"error in group {name!r}": float(rate) for name, rate in zip(SIX, rates, strict=True)}
    # half of the failure probability is the error's, of which nothing is asked here; unpaid, a group has all of it
    share = 2 * FAILURE if paid else 0.9999
    return pacdp.certify_predictions(labels, said, groups=names, ask="groups", failure_prob=share), truths


def test_groups_hold_together_and_groups_that_are_not_paid_for_are_caught():
    assert not _refuted(_failures(lambda rng: _groups(rng, paid=True)))
    assert _refuted(_failures(lambda rng: _groups(rng, paid=False)))


def test_the_largest_gap_holds_where_the_group_to_blame_was_chosen_by_looking():
    def gap(rng: np.random.Generator) -> tuple[PredictionReport, Truths]:
        found, _ = _groups(rng, paid=True)
        return found, {"largest gap between groups": 0.25}

    assert not _refuted(_failures(gap))


def _crowd(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sixty people with twenty examples each; of a fifth of them nearly all are wrong, of the others hardly any."""
    rate = np.where(rng.random(60) < 0.2, 0.9, 0.05)
    wrong = rng.random((60, 20)) < rate[:, None]
    labels = rng.integers(0, 2, (60, 20))
    return labels.ravel(), np.where(wrong, 1 - labels, labels).ravel(), np.repeat(np.arange(60), 20)


CROWD = {"error": 0.2 * 0.9 + 0.8 * 0.05}


def test_people_as_the_unit_hold_and_examples_in_their_place_are_caught():
    def of(rng: np.random.Generator, counted: bool) -> tuple[PredictionReport, Truths]:
        labels, said, people = _crowd(rng)
        return pacdp.certify_predictions(
            labels, said, people=people if counted else None, ask="error", failure_prob=FAILURE
        ), CROWD  # fmt: skip

    assert not _refuted(_failures(lambda rng: of(rng, True)))
    assert _refuted(_failures(lambda rng: of(rng, False)))


def test_recall_of_people_holds_for_those_who_have_the_class():
    def recall(rng: np.random.Generator) -> tuple[PredictionReport, Truths]:
        labels, said, people = _crowd(rng)
        found = pacdp.certify_predictions(labels, said, people=people, ask="recall", failure_prob=FAILURE)
        return found, {"error on class 0": 0.22, "error on class 1": 0.22}

    assert not _refuted(_failures(recall, 150), 150)


def test_differences_hold_and_shrinking_them_is_caught():
    def difference(rng: np.random.Generator, shrink: float) -> tuple[PredictionReport, Truths]:
        labels = rng.integers(0, 2, 400)
        first = np.where(rng.random(400) < 0.2, 1 - labels, labels)
        second = np.where(rng.random(400) < 0.15, 1 - first, first)  # 0.2 * 0.85 + 0.8 * 0.15 = 0.29 wrong
        found = pacdp.certify_predictions(
            labels, {"a": first, "b": second}, ask="differences", failure_prob=2 * FAILURE
        )
        row = found.statement("error of b minus error of a")
        assert row.lower is not None
        assert row.upper is not None
        if shrink == 1:
            return found, {row.quantity: 0.09}
        ends = {name: row.measured + shrink * (getattr(row, name) - row.measured) for name in ("lower", "upper")}
        broken = pacdp.PredictionReport(
            statements=(type(row)(family="differences", quantity=row.quantity, of=row.of, measured=row.measured,
                                  n=row.n, **ends),),
            certificates=found.certificates, failure_prob=found.failure_prob, budget=found.budget, n=found.n,
            unit=found.unit, examples=found.examples,
        )  # fmt: skip
        return broken, {row.quantity: 0.09}

    assert not _refuted(_failures(lambda rng: difference(rng, 1), 300), 300)
    assert _refuted(_failures(lambda rng: difference(rng, 0.4), 300), 300)


def test_weighted_error_holds_and_forgetting_the_weights_is_caught():
    truth = {"weighted error": (0.5 * 1.0 * 0.4 + 0.5 * 0.2 * 0.1) / (0.5 * 1.0 + 0.5 * 0.2)}

    def weighted(rng: np.random.Generator, given: bool) -> tuple[PredictionReport, Truths]:
        heavy = rng.random(400) < 0.5
        labels = rng.integers(0, 2, 400)
        said = np.where(rng.random(400) < np.where(heavy, 0.4, 0.1), 1 - labels, labels)
        weights = np.where(heavy, 1.0, 0.2) if given else None
        found = pacdp.certify_predictions(labels, said, weights=weights, ask="error", failure_prob=FAILURE)
        return found, {found.statements[0].quantity: truth["weighted error"]}

    assert not _refuted(_failures(lambda rng: weighted(rng, True), 300), 300)
    assert _refuted(_failures(lambda rng: weighted(rng, False), 300), 300)


def test_brier_and_calibration_hold_against_a_large_sample():
    rng = np.random.default_rng(3)
    many = rng.integers(0, 3, 400_000)
    soft = probabilities(many, rng)
    brier = float(((soft - np.eye(3)[many]) ** 2).sum(1).mean())
    gap = (soft.argmax(1) == many) - soft.max(1)
    slot = np.minimum((soft.max(1) * 15).astype(int), 14)
    truths = {
        "Brier risk": brier,
        "calibration error (ECE)": sum(abs(gap[slot == b].sum()) for b in range(15)) / many.size,
    }
    truths |= {f"calibration gap at confidence {b / 15:.2f} to {(b + 1) / 15:.2f}": abs(float(gap[slot == b].mean()))
               for b in range(15) if (slot == b).any()}  # fmt: skip

    def soft_report(rng: np.random.Generator) -> tuple[PredictionReport, Truths]:
        labels = rng.integers(0, 3, 300)
        found = pacdp.certify_predictions(
            labels, probabilities=probabilities(labels, rng), ask=["brier", "calibration", "bins"],
            failure_prob=2 * FAILURE,
        )  # fmt: skip
        return found, truths

    assert not _refuted(_failures(soft_report, 150), 150)


@pytest.mark.parametrize("order", ["by error", "by class"])
def test_rows_that_were_sorted_do_not_mislead_the_betting_bounds(order):
    rng = np.random.default_rng(11)
    loss = rng.random(500) ** 2
    moved = np.sort(loss) if order == "by error" else np.concatenate([loss[::2], loss[1::2]])
    found = [pacdp.certify_predictions(losses={"loss": each}).statements[0].upper for each in (loss, moved)]
    assert found[1] == pytest.approx(found[0], rel=0.03)
