"""The difference of two rates from discordant pairs: its exact failure probability, and its value by other code."""

from itertools import product

import numpy as np
import pytest
from scipy.special import betainccinv, betaincinv
from scipy.stats import multinomial

from bounds import betting_upper
from bounds.means import paired_upper
from tests.marks import every_case


@every_case("failure_prob", [0.05, 0.3])
def test_the_failure_probability_is_exact_over_all_counts(failure_prob):
    """By enumeration, at laws of twelve examples; the greatest is no toy."""
    n, worst = 12, 0.0
    counts = [(b, c, n - b - c) for b, c in product(range(n + 1), repeat=2) if b + c <= n]
    values = np.array([paired_upper(b, c, n, failure_prob) for b, c, _ in counts])
    for first, second in product([0.0, 0.02, 0.1, 0.25, 0.5, 0.8], repeat=2):
        if first + second <= 1.0:
            chances = multinomial.pmf(counts, n, [first, second, 1.0 - first - second])
            failed = float(chances[values < first - second].sum())
            assert failed <= failure_prob
            worst = max(worst, failed)
    assert worst > 0.1 * failure_prob


def _bet(more, fewer, n, failure_prob):
    return 2 * betting_upper(np.repeat([1.0, 0.0, 0.5], [more, fewer, n - more - fewer]), failure_prob) - 1


@every_case("counts", [(60, 24, 400), (30, 30, 2000), (10, 40, 1000), (200, 150, 2000), (2000, 1900, 10**5)])
def test_it_is_sharper_than_betting_and_grows_as_it_should(counts):
    more, fewer, n = counts
    value = paired_upper(more, fewer, n, 0.025)
    assert (more - fewer) / n < value < _bet(more, fewer, n, 0.025)
    assert value < min(paired_upper(more + 1, fewer, n, 0.025), paired_upper(more, fewer, n, 0.02))
    assert value > paired_upper(more, fewer + 1, n, 0.025) - 1e-4
    # as narrow as a normal limit, but for a third
    spread = np.sqrt((more + fewer) / n - ((more - fewer) / n) ** 2) / np.sqrt(n)
    assert value < (more - fewer) / n + 1.34 * 1.96 * spread


@every_case("failure_prob", [1e-300, 1e-12, 0.5, 0.99])
def test_ends_are_no_special_case(failure_prob):
    for more, fewer, n in [(0, 0, 1), (1, 0, 1), (0, 1, 1), (50, 50, 100), (0, 10, 10), (0, 0, 10**6), (9, 0, 10**6)]:
        assert (more - fewer) / n <= paired_upper(more, fewer, n, failure_prob) <= 1.0


@every_case("counts", [(60, 24, 400), (24, 60, 400)])
def test_an_inverse_that_is_off_makes_no_value_smaller(counts, monkeypatch):
    """SciPy's inverses are looked after: where one is wrong to the unsafe side the ends of the interval stand in."""
    value = paired_upper(*counts, 0.025)
    monkeypatch.setattr("bounds.means.betainccinv", lambda a, b, y: 0.9 * betainccinv(a, b, y))
    monkeypatch.setattr("bounds.means.betaincinv", lambda a, b, y: np.minimum(1.0, 1.1 * betaincinv(a, b, y)))
    assert paired_upper(*counts, 0.025) >= value


def test_more_discordant_examples_than_examples_are_refused():
    with pytest.raises(ValueError, match="must be at most n = 3, got 2"):
        paired_upper(2, 2, 3, 0.05)
