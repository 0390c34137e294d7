"""Counts with noise: counted before they are drawn, with the law that is stated, and noise that a bound can carry."""

from fractions import Fraction
from math import sqrt

import numpy as np
from numpy.random import default_rng
from scipy import stats
from torch import zeros

from bounds.accounting import Composed, Gaussian
from pacdp.certify.released_counts import ReleasedErrors, released_errors, sum_of_rates
from pacdp.step.noise import SeededRandomness, SystemRandomness
from pacdp.store.ledger import Ledger, Overdrawn, SharedNoise
from pacdp.store.ledger_entries import Limit
from pacdp.store.reservation import NoLedger
from tests.marks import every_case, refusal

ABOUT = {"delta": 1e-5, "adjacency": "add-remove"}


COUNTS = {"errors": 2304, "n": 60_000, "std_errors": 3.0, "std_n": 2.0}


def released(randomness=None, ledger=None, **more):
    given = {"errors": 2304, "n": 60_000, "std_errors": 50.0, "std_n": 20.0, "run": "a"} | more
    errors, n = given.pop("errors"), given.pop("n")
    return released_errors(errors, n, randomness=randomness or SystemRandomness(), ledger=ledger or NoLedger(), **given)


def test_a_release_is_an_entry_before_it_is_drawn(tmp_path):
    book = Ledger.open(tmp_path)
    found = released(ledger=book, unit="person")
    assert ReleasedErrors(**found.to_dict(), receipt=found.receipt) == found
    (entry,) = Ledger.load(tmp_path).entries
    both = Composed(events=(Gaussian(noise_multiplier=50.0), Gaussian(noise_multiplier=20.0)))
    assert (entry.stretch.kind, entry.stretch.unit) == ("release", "person")
    assert entry.stretch.event == found.event == both
    book.require(found.receipt)
    book.set_limit(Limit(epsilon=0.0, **ABOUT))

    class Untouched(SystemRandomness):
        def noised(self, *a, **k):
            raise AssertionError("noise was drawn")

    with refusal("nothing was drawn", Overdrawn):
        released(Untouched(), book)


def test_seeded_noise_is_released_for_one_pair_of_counts(tmp_path):
    """Two pairs of counts with the same noise differ by what they count, without noise."""
    book = Ledger.open(tmp_path)
    released(SeededRandomness(1), book)
    moved = SeededRandomness(1)
    moved.noised(zeros(1), std=1.0)
    for source, more in ((SeededRandomness(1), {"errors": 2305}), (SeededRandomness(1), {"std_n": 21.0}), (moved, {}),
                         (SeededRandomness(1), {})):  # fmt: skip
        with refusal("would draw the random numbers of", SharedNoise):
            released(source, book, **more)
    for _ in range(2):
        released(SystemRandomness(), book)
    assert len(book.entries) == 3


def test_the_noise_has_its_law_in_both_counts_and_they_are_independent(whole):
    source, (count, off) = SeededRandomness(5), (6000, 0.1) if whole else (2000, 0.2)
    draws = np.array([(one.errors, one.n) for one in (released(source) for _ in range(count))])
    samples = ((draws - (2304, 60_000)) / (50.0, 20.0)).T
    for sample in samples:
        assert stats.kstest(sample, "norm").pvalue > 1e-6
        for scale, likely in ((1.0, True), (1 - off, False), (1 + off, False)):
            tail = stats.chi2(len(sample)).cdf(float((sample**2).sum()) / scale**2)
            assert bool(min(tail, 1 - tail) > 1e-6) is likely
    assert abs(np.corrcoef(samples)[0, 1]) < 5 / sqrt(count)
    assert (draws * 1024 % 1 == 0).all()


def test_neighbours_differ_by_the_whole_numbers_alone():
    """Rounding the noise commutes with the count, so that no bit of the sum tells which of two counts it was."""
    for seed in range(50):
        one, other = (released(SeededRandomness(seed), errors=count) for count in (2304, 2305))
        assert other.errors - one.errors == 1.0


RATES = {"errors": 12 + 5 / 1024, "n": 40, "std_errors": 0.01, "std_n": 2.0, "unit": "person"}
"""A sum of the rates of people, which lies on a grid and is released and covered on it."""


@every_case(("failure_prob", "given"), [(0.3, COUNTS), (0.002, COUNTS), (0.05, RATES)])
def test_the_worst_counts_cover_the_true_ones_as_often_as_they_say(failure_prob, given):
    source, draws, missed = SeededRandomness(11), 2000, 0
    for _ in range(draws):
        found = released(source, **given)
        errors, n = found.at_worst(failure_prob=failure_prob)
        assert (found.errors * 1024).is_integer()
        assert (errors * 1024).is_integer()
        missed += errors < given["errors"] or n > given["n"]
    assert stats.binom(draws, failure_prob).sf(missed - 1) > 1e-6
    assert stats.binom(draws, failure_prob / 3).cdf(missed) > 1e-6, "and not absurdly rarely"


def test_a_person_moves_the_sum_of_rates_by_at_most_one_however_many_examples_they_have():
    rng = default_rng(2)
    for _ in range(200):
        sizes = rng.integers(1, 60, size=rng.integers(2, 9))
        people = rng.permutation(np.repeat(np.arange(len(sizes)) * 7, sizes))
        wrong = rng.random(len(people)) < rng.random()
        found = sum_of_rates(wrong, people)
        own = [wrong[people == one].tolist() for one in np.unique(people)]
        exact = sum(Fraction(sum(each), len(each)) for each in own)
        assert 0 <= Fraction(found) - exact < Fraction(len(sizes), 1024)
        assert (found * 1024).is_integer()
        for one in np.unique(people):
            assert 0.0 <= found - sum_of_rates(wrong[people != one], people[people != one]) <= 1.0
    everyone = np.repeat(np.arange(3), [1, 7, 1000])
    one_of_1000 = np.arange(1008) == 8
    for wrong, rates in ((everyone >= 0, 3.0), (everyone < 0, 0.0), (one_of_1000, 2 / 1024)):
        assert sum_of_rates(wrong, everyone) == rates
