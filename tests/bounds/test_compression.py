"""Sample compression: the number at 60 digits and by its definition; property (P) by brute force over learners."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, count, product
from math import comb

import compression_by_mpmath as slow
import mpmath as mp
import pytest
from cells import read_again
from hypothesis import given
from hypothesis.strategies import floats, integers, none
from numpy.random import default_rng

from bounds import clopper_pearson_upper, compression, compression_weights

UNIFORM = [
    (0, 1, 0.05), (1, 2, 0.5), (39, 40, 1e-6), (1137, 60_000, 0.05), (59_999, 60_000, 0.05), (5, 10**6, 1e-300),
    (0, 10**9, 0.05), (10**6, 10**9, 1e-300),
]  # fmt: skip


every_size = pytest.mark.parametrize(("k", "n", "failure_prob"), UNIFORM)


def is_the_root(exact, **told):
    """Above the exact root, and idle by a part in 10⁹ at most."""
    value = compression(**told).value
    with mp.workdps(60):
        assert value == 1.0 or exact(v=value, **told) > 1
        assert exact(v=value * (1 - 1e-9), **told) < 1


@pytest.mark.every_case
@every_size
def test_formal_guarantee_above_the_exact_root_and_close(k, n, failure_prob):
    is_the_root(slow.uniform, k=k, n=n, failure_prob=failure_prob)


@every_size
def test_weights_are_above_the_exact_root_and_close(k, n, failure_prob):
    sizes = sorted({k, k + (n - 1 - k) // 2, n - 1 - (n - 1 - k) // 50, n - 1})
    weights = dict(zip(sizes, (0.1, 0.2, 0.3, 0.4), strict=False))
    is_the_root(slow.weighted, k=k, n=n, failure_prob=failure_prob, weights=weights)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 12])
def test_the_sum_is_that_of_the_theorem_in_fractions(n):
    for k, failure_prob in product(range(n), (0.9, 0.05, 1e-9)):
        value = compression(k=k, n=n, failure_prob=failure_prob).value
        for v, above in ((Fraction(value), True), (Fraction(value) * (1 - Fraction(1, 10**8)), False)):
            terms = (Fraction(comb(m, k), comb(n, k)) * (1 - v) ** (m - n) for m in range(k, n))
            assert (Fraction(failure_prob) / n * sum(terms) > 1) == above


def test_the_chosen_size_is_the_best_one_and_two_are_shared():
    n, k = 3000, 90
    (best,) = compression_weights(n=n, expected=[k], failure_prob=0.05)

    def value(m):
        return compression(k=k, n=n, failure_prob=0.05, weights={m: 1.0}).value

    assert value(best) <= min(map(value, range(2000, n, 10))) * (1 + 1e-6)
    two = compression_weights(n=n, expected=[10, 1000], failure_prob=0.05)
    assert len(two) == 2
    for kept in (10, 1000):
        shared = compression(k=kept, n=n, failure_prob=0.05, weights=two).value
        assert shared < compression(k=kept, n=n, failure_prob=0.05).value


@given(n=integers(1, 10**6), share=floats(0, 1), failure_prob=floats(1e-300, 1 - 1e-9), placed=none() | floats(0, 1))
def test_laws(n, share, failure_prob, placed):
    k = min(n, int(share * n))
    weights = None if placed is None else {min(n - 1, int(placed * n)): 1.0}
    told = {"n": n, "failure_prob": failure_prob, "weights": weights}
    made = compression(k=k, **told)
    assert k / n <= made.value <= 1.0
    assert read_again(made) == made
    room = 1 + 1e-9
    if k < n:
        assert made.value <= compression(k=k + 1, **told).value * room
    assert made.value <= compression(k=k, **(told | {"failure_prob": failure_prob / 2})).value * room
    if weights is None:
        assert compression(k=k, n=2 * n, failure_prob=failure_prob).value <= made.value * room
        held_out = clopper_pearson_upper(k, n, failure_prob)
        assert made.value >= held_out / room  # a fixed network is a learner that picks nothing


def test_nothing_is_said_where_everything_was_kept_or_nothing_was_put():
    def value(k, weights=None):
        return compression(k=k, n=5, failure_prob=0.5, weights=weights).value

    assert value(5) == value(3, {2: 1.0}) == 1.0
    assert value(2, {2: 1.0, 4: 0.0}) < 1.0
    assert value(2, {2: 1.0}) < value(2, {2: 0.5})


def run(records, learner, sizes, rule):
    """The run of docs/guarantees.md on a set of records; what is kept, and the network at the end."""
    picked, network = [], learner(())
    rounds = count() if rule == "a" else range(len(sizes))
    for j in rounds:
        rest = [z for z in records if z not in picked]
        if rule == "a" and not any(network[z].error for z in rest):
            return frozenset(picked), network
        group = sorted(rest, key=lambda z: network[z], reverse=True)[: sizes[j % len(sizes)]]
        if len(group) < sizes[j % len(sizes)]:
            return frozenset(records), network
        picked += group
        network = learner(tuple(picked))
    rest = [z for z in records if z not in picked]
    return frozenset(picked) | {z for z in rest if network[z].error}, network


def table(rng, size, ranked):
    """A learner without rhyme or reason: for every sequence of picks its own errors and scores."""
    known = {}

    def learner(picked):
        if picked not in known:
            scores = rng.permutation(size)
            errors = rng.random(size) < 0.35
            known[picked] = {z: Score(bool(errors[z]), int(scores[z]), ranked) for z in range(size)}
        return known[picked]

    return learner


@dataclass(frozen=True)
class Score:
    error: bool
    place: int
    ranked: bool

    def __lt__(self, other):
        mine, others = (self.error, self.place), (other.error, other.place)
        return mine < others if self.ranked else self.place < other.place


def violations(rule, ranked, learners=60, size=7):
    """Learners for which κ(S) = T is not the same as κ(T) = T and S - T silent, for some T and S."""
    broken = 0
    for seed in range(learners):
        learner = table(default_rng(seed), size, ranked)
        kept = {}
        for r in range(size + 1):
            for records in combinations(range(size), r):
                kept[frozenset(records)] = run(records, learner, (1, 2), rule)[0]
        silent = {}
        for t in kept:
            whole = len(t) in ({0, 1, 3, 4, 6, 7} if rule == "a" else range(3, size + 1)) and kept[t] == t
            silent[t] = {z for z in range(size) if whole and z not in t and kept[t | {z}] == t}
        broken += any((kept[s] == t) != (kept[t] == t and s - t <= silent[t]) for t in kept for s in kept if t <= s)
    return broken


@pytest.mark.parametrize(("rule", "ranked"), [("a", True), ("b", True), ("b", False)])
def test_the_property_holds_for_every_learner_of_a_brute_force(rule, ranked):
    assert violations(rule, ranked) == 0


def test_the_property_fails_where_errors_do_not_come_first():
    assert violations("a", ranked=False) > 0
