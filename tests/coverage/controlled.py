"""Worlds of rules with a threshold, of losses after deployment and of scores: what is promised against what is true.

Each adapter returns by how much its promise exceeds the truth, so that the truth of every world here is 0 and a
negative number is a failure.
"""

from functools import lru_cache
from math import log

import numpy as np

import bounds
from bounds import Monitor, betting_upper, clopper_pearson_upper
from tests.coverage import tight
from tests.coverage.harness import FRACTIONS, Cases, Entry
from tests.coverage.worlds import DELTA

MOST = FRACTIONS[0]
_ABOVE = 1 + 1e-9
_LATER = (8, 13, 21)


def nested(n, risks, target, name):
    """Rules of rising risk: an example on which one errs is an error of all later ones."""
    listed = np.asarray(risks)

    def world(rng, datasets):
        losses = rng.random((datasets, n, 1)) < listed
        return Cases({"losses": losses.astype(np.int8), "risks": np.tile(listed, (datasets, 1)), "target": target})

    world.__doc__ = f"n = {n}, rules of risk {', '.join(f'{one:.3g}' for one in listed)}, target {target:.3g}, {name}"
    return world


def answering(counts, risk, name):
    """A predictor of several levels of confidence, with so many examples of each and the same risk at all."""
    levels = np.arange(len(counts), 0, -1) / len(counts)
    confidence = np.repeat(levels, counts)

    def world(rng, datasets):
        losses = (rng.random((datasets, confidence.size)) < risk * _ABOVE).astype(np.int8)
        return Cases(
            {"confidence": np.tile(confidence, (datasets, 1)), "losses": losses, "target": risk, "risk": risk * _ABOVE}
        )

    world.__doc__ = f"{' and '.join(map(str, counts))} examples by confidence, risk and target {risk:.3g}, {name}"
    return world


def sizes(n, size):
    """Sets of one of one labels, or of none."""

    def world(rng, datasets):
        taken = rng.random((datasets, n)) < size
        return Cases({"scores": taken.astype(np.float64), "most": size / _ABOVE, "size": size})

    world.__doc__ = f"n = {n}, sets of {size:.3f} labels, target just below"
    return world


def uniform_scores(n, target, name):
    """Scores of positives, uniform: the rate of misses below a threshold is the threshold."""

    def world(rng, datasets):
        return Cases({"scores": rng.random((datasets, n)), "target": target})

    world.__doc__ = f"n = {n}, uniform scores, target {target:.3g}, {name}"
    return world


def stream(n, rate):
    """Losses one after another."""

    def world(rng, datasets):
        losses = (rng.random((datasets, n)) < rate).astype(np.float64)
        return Cases({"losses": losses, "rate": rate})

    world.__doc__ = f"{n} losses at rate {rate:g}"
    return world


def scores_of_one_law(old, new, kinds=0):
    """Old and new scores of one law."""

    def world(rng, datasets):
        drawn = rng.random((datasets, old + new)) if kinds == 0 else rng.integers(0, kinds, (datasets, old + new))
        return Cases(
            {"old": drawn[:, :old].astype(float), "new": drawn[:, old:].astype(float), "seed": np.arange(datasets)}
        )

    world.__doc__ = f"{old} old and {new} new scores{f' of {kinds} values' if kinds else ''}"
    return world


def control_risk(losses, risks, target, failure_prob):
    found = bounds.control_risk(losses=losses, thresholds=range(len(risks)), target=target, failure_prob=failure_prob)
    return found.certificate.value - (risks[int(found.threshold)] if found.qualifies else 0.0)


def control_risk_by_betting(losses, risks, target, failure_prob):
    return control_risk(losses.astype(np.float64), risks, target, failure_prob)


def control_selective_risk(confidence, losses, target, risk, failure_prob, starts=None):
    found = bounds.control_selective_risk(
        confidence=confidence, losses=losses, thresholds=np.unique(confidence).tolist(), target=target,
        failure_prob=failure_prob, starts=starts,
    )  # fmt: skip
    return found.certificate.value - (risk if found.qualifies else 0.0)


def control_set_size(scores, most, size, failure_prob):
    found = bounds.control_set_size(
        scores=scores[:, None], thresholds=[0.5], most_labels=most, failure_prob=failure_prob
    )
    return found.certificate.value - (size if found.qualifies else 0.0)


def control_false_negatives(scores, target, failure_prob):
    found = bounds.control_false_negatives(
        scores=scores, positives=np.ones(scores.size, dtype=bool), target=target, failure_prob=failure_prob
    )
    return _missed(found)


def control_miscoverage(scores, target, failure_prob):
    both = np.stack([scores, np.zeros(scores.size)], axis=1)
    found = bounds.control_miscoverage(
        scores=both, labels=np.zeros(scores.size, dtype=int), target=target, failure_prob=failure_prob
    )
    return _missed(found)


def control_groups(scores, target, failure_prob):
    """Two groups, each with a threshold of its own; the worse of them."""
    found = bounds.control_groups(
        bounds.control_false_negatives,
        groups=np.arange(scores.size) % 2,
        records={"scores": scores, "positives": np.ones(scores.size, dtype=bool)},
        target=target,
        failure_prob=failure_prob,
    )
    return min(map(_missed, found.values()))


def monitor_upper(losses, rate, failure_prob):
    """The upper limit at several times, at the whole failure probability."""
    return min(upper - rate for upper in _watched(losses, failure_prob, "upper"))


def monitor_lower(losses, rate, failure_prob):
    return min(rate - lower for lower in _watched(losses, failure_prob, "lower"))


def monitor_alarm(losses, rate, failure_prob, positions=None):
    """1 without an alarm, -1 with one; what is promised is the rate."""
    start = Monitor.start(rate, failure_prob=0.5, false_alarm_prob=failure_prob)
    return 1.0 if start.observe(losses, positions=positions).alarm is None else -1.0


def monitor_alarm_late(losses, rate, failure_prob):
    """The same, when the labels of small losses come first."""
    order = np.argsort(losses, kind="stable")
    return monitor_alarm(losses[order], rate, failure_prob, order)


def exchangeable(old, new, failure_prob, seed):
    """1 without an alarm, -1 with one."""
    return 1.0 if bounds.exchangeable(old=old, new=new, seed=seed).alarm(failure_prob) is None else -1.0


def _missed(found):
    return found.certificate.value - (found.threshold if found.qualifies else 0.0)


def _watched(losses, failure_prob, side):
    at, monitor = (0, Monitor.start(0.5, failure_prob=min(0.999, 2 * failure_prob), false_alarm_prob=0.5))
    for later in _LATER:
        monitor = monitor.observe(losses[at:later])
        at = later
        yield _limit(monitor.n, monitor.loss_sum, monitor.spread, monitor.failure_prob, side)


@lru_cache(maxsize=2**16)
def _limit(n, loss_sum, spread, failure_prob, side):
    """The limit on one side, which depends on the sums alone."""
    at = {"n": n, "loss_sum": loss_sum, "spread": spread, "failure_prob": failure_prob}
    return getattr(Monitor(promised=0.5, false_alarm_prob=0.5, **at), side)


def starts_unpaid(confidence, losses, target, risk, failure_prob):
    """Each threshold tested at the whole failure probability."""
    levels = np.unique(confidence).size
    return control_selective_risk(confidence, losses, target, risk, min(0.999, levels * failure_prob))


def threshold_at_the_target(scores, target):
    """The threshold at which the records themselves miss the target share: no confidence limit."""
    return target - np.sort(scores)[int(target * scores.size)]


def groups_unpaid(scores, target, failure_prob):
    """Each group at the whole failure probability."""
    return control_groups(scores, target, 2 * failure_prob)


def limit_at_one_time(losses, rate, failure_prob):
    """The exact limit for one number of records, looked at as they come."""
    counts = np.cumsum(losses)
    return min(clopper_pearson_upper(int(counts[n - 1]), n, failure_prob) - rate for n in range(5, losses.size + 1, 5))


def labels_as_they_come(losses, rate, failure_prob):
    """Large losses are reported first, and counted in that order."""
    return monitor_alarm(np.sort(losses)[::-1], rate, failure_prob)


def scores_of_training_records(old, new, failure_prob, seed):
    """The old scores are those of records that the predictor was trained on, all lower by a tenth."""
    return exchangeable(old - 0.1, new, failure_prob, seed)


_EXACT = clopper_pearson_upper(3, 100, DELTA)
_NONE = tight.none_at(40, -MOST * log(DELTA))
_BET = betting_upper(np.zeros(3), DELTA**MOST)
_SPARED = clopper_pearson_upper(0, 20, DELTA**MOST / 2) * (1 + 1e-10)

RULES = (
    nested(100, (_EXACT / 4, _EXACT * _ABOVE, 2 * _EXACT), _EXACT, "just below the second"),
    nested(60, (0.02, 0.05, 0.1, 0.15, 0.2), 0.12, "between them"),
)
NO_ERROR = (nested(40, (_NONE * _ABOVE,), _NONE * (1 + 1e-10), "just below"),)
FEW = (nested(3, (_BET * _ABOVE,), _BET * (1 + 1e-10), "just below"),)
LEVELS = (answering((20, 20), _SPARED, "two levels"), answering((10, 20, 70), 0.1, "three levels"))
MANY_LEVELS = (answering((15, 30, 60, 120, 240, 480), 0.2, "six levels"),)
SIZES = (sizes(3, _BET * (1 + 1e-8)),)
SCORES = (uniform_scores(100, _EXACT, "the exact bound at 3 misses"), uniform_scores(60, 0.2, "a fifth"))
FIRST = (uniform_scores(40, _NONE * (1 + 1e-10), "the bound at no miss"),)
TWO_GROUPS = (uniform_scores(200, _EXACT, "the exact bound at 3 misses in each of two groups"),)
EACH = (uniform_scores(80, clopper_pearson_upper(0, 40, DELTA**MOST / 2) * (1 + 1e-10), "two groups"),)
LOW, HIGH, LONGER = (stream(21, 0.2625),), (stream(21, 0.7375),), (stream(60, 0.3),)
LONG, SHORTER = (stream(2000, 0.4), stream(2000, 0.1)), (stream(800, 0.4),)
ONE_LAW = (scores_of_one_law(20, 500, kinds=3), scores_of_one_law(200, 800))

_MIXED = "limits at all times, where these losses are looked at three times; mixtures of 84 bets for each limit"
_SAME = "the bets of the alarm above, on fewer losses"
_JUMPS = (
    "alarms at any time, of evidence that jumps over its limit; 20,000 data sets show that two thirds are too little"
)
ENTRIES = [
    Entry("control_risk", control_risk, RULES, NO_ERROR, 0.9),
    Entry("control_risk, by betting", control_risk_by_betting, RULES[1:], FEW),
    Entry("control_selective_risk", control_selective_risk, (*LEVELS, *MANY_LEVELS), LEVELS[:1], 0.4),
    Entry("control_set_size", control_set_size, (), SIZES),
    Entry("control_false_negatives", control_false_negatives, SCORES, FIRST, 0.9),
    Entry("control_miscoverage", control_miscoverage, SCORES[:1], FIRST, 0.9),
    Entry("control_groups of control_false_negatives", control_groups, (*SCORES, *TWO_GROUPS), EACH, 0.4),
    Entry("Monitor, upper limit", monitor_upper, (), LOW, caught=FRACTIONS[3], why=_MIXED),
    Entry("Monitor, lower limit", monitor_lower, (), HIGH, caught=FRACTIONS[3], why=_MIXED),
    Entry("Monitor, alarm", monitor_alarm, LONG, LONG[:1], 0.3),
    Entry("Monitor, alarm by late labels", monitor_alarm_late, (), SHORTER, caught=FRACTIONS[1], why=_SAME),
    Entry("exchangeable, alarm", exchangeable, ONE_LAW, ONE_LAW[:1], 0.3, caught=FRACTIONS[1], why=_JUMPS),
]
BROKEN = [
    Entry("thresholds without a union", starts_unpaid, MANY_LEVELS),
    Entry("threshold at the target itself", threshold_at_the_target, SCORES),
    Entry("groups without a union", groups_unpaid, TWO_GROUPS),
    Entry("a limit for one time, looked at all the time", limit_at_one_time, LONGER),
    Entry("large losses reported first", labels_as_they_come, SHORTER),
    Entry("old scores of training records", scores_of_training_records, ONE_LAW[1:]),
]
