"""Thresholds, monitors and tests of exchangeability on scores with ties and losses that an adversary chooses."""

import numpy as np

import bounds
from tests.adversary.harness import Row, World
from tests.adversary.laws import size


def thresholds(rng, failure):
    """Confidence of few values; the risk among what is answered, false negatives, miscoverage, by group."""
    n, k = size(rng, 60), int(rng.integers(3, 9))
    values, mass = np.sort(rng.random(k)), rng.dirichlet(np.ones(k))
    risk = np.sort(rng.choice([0.0, 0.05, 0.3, 0.6, 1.0], k))[::-1].copy() if rng.random() < 0.5 else rng.random(k)
    risk[0] = max(risk[0], 0.3)  # somebody is positive
    at = rng.choice(k, size=n, p=mass)
    lost = rng.random(n) < risk[at]
    order = np.lexsort((lost, at)) if rng.random() < 0.5 else np.arange(n)
    score, lost = values[at][order], lost[order]
    habit = str(rng.choice(["selective, errors", "selective, losses", "false negatives", "groups"]))
    listed = [float(v) for v in values]

    def selective(at_least):
        some = mass * (values >= at_least)
        return float(some @ risk / some.sum())

    def missed(below):
        some = mass * risk
        return float(some @ (values < below) / some.sum())

    truth = selective if habit.startswith("selective") else missed
    near = rng.choice([0.999, 1.4])  # the target is just below the risk at one of them, or well above
    target = min(0.99, max(0.02, near * truth(listed[rng.integers(k)])))
    shared = {"target": target, "failure_prob": failure}

    def ask():
        if habit.startswith("selective"):
            loss = lost if habit.endswith("errors") else lost.astype(float)
            found = {"": bounds.control_selective_risk(confidence=score, losses=loss, thresholds=listed, **shared)}
        elif habit == "false negatives":
            found = {"": bounds.control_false_negatives(scores=score, positives=lost, **shared)}
        else:
            found = bounds.control_groups(bounds.control_false_negatives, groups=np.arange(n) % 3,
                                          records={"scores": score, "positives": lost}, **shared)  # fmt: skip
        return [Row(f"risk at the threshold {name}", None, one.certificate.value,
                    0.0 if one.threshold is None else truth(one.threshold))
                for name, one in found.items()]  # fmt: skip

    few = habit == "false negatives" or habit == "groups"  # without a positive there is nothing to say
    return World(habit, f"{n} scores {values.round(3)} of {mass.round(3)}, risks {risk.round(3)}, target {target}", ask,
                 honest=not few)  # fmt: skip


def watched(rng, failure):
    """Losses of a fixed rate, a drifting one, one that an adversary raises when it paid; labels that come late."""
    habit = str(rng.choice(["fixed", "drifting", "chosen by the past", "late labels", "kept as JSON"]))
    n, rate = size(rng), float(rng.choice([0.02, 0.2, 0.5]))
    quarters, means, loss, past = rng.random() < 0.3, np.empty(n), np.empty(n), 0.0
    for i in range(n):
        moved = {
            "drifting": rate * (1 + np.sin(i / 9)) / 2,
            "chosen by the past": rate if past > rate * i else rate / 5,
        }
        means[i] = mean = moved.get(habit, rate)
        fine = quarters and mean <= 0.25 and rng.random() < 0.5
        loss[i] = 0.25 * (rng.random() < 4 * mean) if fine else rng.random() < mean
        past += loss[i]
    stops = sorted({int(s) for s in rng.integers(1, n + 1, 2)} | {n})

    def ask():
        monitor = bounds.Monitor.start(max(rate, 1e-3), failure_prob=failure / 2, false_alarm_prob=failure / 2)
        found, begun = [], 0
        for stop in stops:
            places = np.arange(begun, stop)
            if habit == "late labels":
                places = places[np.argsort(loss[begun:stop], kind="stable")]
                monitor = monitor.observe(loss[places], positions=places)
            else:
                monitor = monitor.observe(loss[begun:stop])
            if habit == "kept as JSON":
                monitor = bounds.Monitor.from_json(monitor.to_json())
            begun = stop
            found.append(Row(f"running risk at {stop}", monitor.lower, monitor.upper, float(means[:stop].mean())))
        return [*found, Row("no alarm", None, 1.0, 0.0 if monitor.alarm is None else 2.0)]

    return World(habit, f"{n} losses of mean {rate}, looked at after {stops}", ask)


def exchangeable(rng, failure):
    """Old and new scores of one law, with ties, few old ones, or huge ones."""
    habit = str(rng.choice(["ties", "all alike", "heavy tails", "two values"]))
    old, new = int(rng.integers(1, 60)), size(rng)
    m = old + new
    kinds = {"ties": rng.integers(0, 4, m), "all alike": np.ones(m), "two values": rng.random(m) < 0.03}
    scores = np.asarray(kinds.get(habit, rng.standard_cauchy(m)), dtype=float)
    seed = int(rng.integers(2**31))
    return World(habit, f"{old} old and {new} new scores", lambda: [
        Row("evidence", None, 1 / failure,
            float(bounds.exchangeable(old=scores[:old], new=scores[old:], seed=seed).evidence.max()))
    ])  # fmt: skip
