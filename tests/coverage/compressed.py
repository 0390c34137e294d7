"""Learners that are run on records they pick, with risks known exactly: thresholds, neighbours, learning by heart; and
networks that are certified by another one."""

import numpy as np

from bounds import Certificate, clopper_pearson_upper, compression, disagreement
from tests.coverage.harness import Cases, Entry
from tests.coverage.tight import none_at
from tests.coverage.worlds import DELTA, TAILS, tail

ROUNDS = 40


def chosen_size(k, n, failure_prob):
    """All of the weight on a size a tenth below n."""
    return compression(k=k, n=n, failure_prob=failure_prob, weights={n - max(1, n // 10): 1.0})


def watched(kept, n, failure_prob):
    """The best of the rounds that were watched, each at its share."""
    return compression(k=int(kept.min()), n=n, failure_prob=failure_prob / len(kept))


def as_test_set(kept, n, failure_prob):
    """The records kept, counted as the errors of a network that saw none of them."""
    return clopper_pearson_upper(int(kept.min()), n, failure_prob)


def beside_another(errors, held_out, differ, m, failure_prob):
    """A network whose stand-in is counted on held-out records, each half at half of the failure probability."""
    value = clopper_pearson_upper(errors, held_out, failure_prob / 2)
    surrogate = Certificate(name="count", value=value, failure_prob=failure_prob / 2, measures="0-1 risk",
                                   hypotheses=(), terms={}, budget={}, reference="a count", inputs={})  # fmt: skip
    return disagreement(surrogate=surrogate, k=differ, n=m, failure_prob=failure_prob / 2)


def on_rows_it_saw(errors, held_out, m, failure_prob):
    """The differences counted on rows from which both networks learnt, where they agree."""
    return beside_another(errors, held_out, 0, m, failure_prob)


def errors_left_out(picked, n, failure_prob):
    """Records picked, and not those on which the last network errs."""
    return compression(k=picked, n=n, failure_prob=failure_prob)


def _until_no_errors(x, y, predict):
    """Rule (a), one record a round, the farthest error first; the first pick is the first record: its u decides."""
    picked = [0]
    while True:
        wrong = predict(x[picked], y[picked], x) != y
        wrong[picked] = False
        if not wrong.any():
            return picked
        distance = np.abs(x[:, None] - x[picked]).min(axis=1)
        picked.append(int(np.argmax(np.where(wrong, 1.0 + distance, 0.0))))


def _threshold(x, y, at):
    """The middle between the classes seen; one class seen is everywhere."""
    if y.min() == y.max():
        return np.full(at.shape, y[0])
    return (at > (x[y == 0].max() + x[y == 1].min()) / 2).astype(int)


def _nearest(x, y, at):
    return y[np.abs(at[:, None] - x).argmin(axis=1)]


def line(n, predict, noise, name):
    """Points of [0, 1], labelled by a threshold at 0.7 and flipped at a rate, learnt until no error is left."""
    grid = (np.arange(4000) + 0.5) / 4000

    def world(rng, datasets):
        k, truth = np.empty(datasets, dtype=int), np.empty(datasets)
        for row in range(datasets):
            x = rng.random(n)
            y = (x > 0.7) ^ (rng.random(n) < noise)
            picked = _until_no_errors(x, y.astype(int), predict)
            wrong = np.mean(predict(x[picked], y[picked].astype(int), grid) != (grid > 0.7))
            k[row], truth[row] = len(picked), noise + (1 - 2 * noise) * wrong
        return Cases({"k": k, "n": n}, truth)

    world.__doc__ = f"n = {n}, {name}, labels flipped at rate {noise:g}"
    return world


def by_heart(n, rate):
    """A learner that knows the records it picked by heart and answers 0 otherwise: it needs every record of class 1."""

    def world(rng, datasets):
        k = rng.binomial(n, rate, datasets)
        return Cases({"k": k, "n": n}, rate)

    world.__doc__ = f"n = {n}, a learner by heart, share of class 1 {rate:.3f}"
    return world


def rounds(n, rate):
    """Every round's network errs independently at one rate; a record is picked a round."""

    def world(rng, datasets):
        picked = np.arange(1, ROUNDS + 1)
        kept = picked + rng.binomial(n - picked, rate, (datasets, ROUNDS))
        return Cases({"kept": kept, "picked": ROUNDS, "n": n}, rate)

    world.__doc__ = f"n = {n}, {ROUNDS} rounds watched, rate {rate:g}"
    return world


def one_record(fraction):
    """One record, which each round's network gets right with the probability that is its share."""
    rate = 1.0 - DELTA**fraction / ROUNDS * (1 - 1e-9)

    def world(rng, datasets):
        kept = 1 * (rng.random((datasets, ROUNDS)) < rate)
        return Cases({"kept": kept, "n": 1}, rate)

    world.__doc__ = f"one record, {ROUNDS} rounds watched, rate {rate:.4f}"
    return world


def apart(held_out, m, rate, differ):
    """A network that errs wherever its stand-in does, and wherever the two differ."""

    def world(rng, datasets):
        columns = {"errors": rng.binomial(held_out, rate, datasets), "held_out": held_out,
                   "differ": rng.binomial(m, differ, datasets), "m": m}  # fmt: skip
        return Cases(columns, rate + differ)

    world.__doc__ = f"stand-in of rate {rate:.3f} on {held_out} held out, differing at rate {differ:g} on {m}"
    return world


def _just_above(errors, held_out, prob):
    return clopper_pearson_upper(errors, held_out, prob) * (1 + 1e-3)


_ALONE = tuple(tail(1, rate=none_at(1, fraction * np.log(1 / DELTA))) for fraction in (2 / 3, 1))
LEARNERS = (
    line(40, _threshold, 0.0, "a threshold between the classes"),
    line(40, _nearest, 0.0, "the nearest of the picked points"),
    line(30, _nearest, 0.2, "the nearest of the picked points"),
    by_heart(60, 0.5),
    by_heart(60, 0.02),
)
WATCHED = (rounds(400, 0.3),)
APART = (apart(300, 300, 0.05, 0.1), apart(40, 10**6, _just_above(3, 40, DELTA / 2), 0.0))
_NEAR = (apart(40, 10**6, _just_above(3, 40, DELTA ** (2 / 3) / 2), 0.0),)
_FEW = (one_record(1.0), one_record(2 / 3))
ENTRIES = [
    Entry("compression", compression, (*TAILS, *LEARNERS), _ALONE, share=0.9),
    Entry("compression, weights chosen", chosen_size, (*TAILS, *LEARNERS), _ALONE, share=0.9),
    Entry("compression, best of the rounds watched", watched, WATCHED, _FEW, share=0.9),
    Entry("disagreement", beside_another, APART, _NEAR, share=0.4),
]
BROKEN = [
    Entry("errors of the compressed network left out", errors_left_out, WATCHED),
    Entry("best of the rounds as a test set", as_test_set, WATCHED),
    Entry("disagreement on rows that the networks saw", on_rows_it_saw, APART),
]
