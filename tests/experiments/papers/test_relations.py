"""The rules that decide sentences: beyond two standard errors, by a margin that matters, over pairs of runs."""

from math import log, sqrt

import polars as pl
import pytest

from experiments.claims import (
    FEWEST_PAIRS,
    Claim,
    Measured,
    Ratio,
    judging,
    larger,
    more_than_half,
    mostly,
    point,
    relevant,
    say,
    smaller,
)
from experiments.papers.gaps import gap, noise_of
from experiments.tables import measured, ratio
from tests.marks import every_case

ONE, TWO = Measured(0.1, 0.01, 4), Measured(0.2, 0.01, 4)
FIVE = Ratio(log(5.0), 0.01, 3)
DECIDED = [
    (larger("x", TWO, ONE).holds, True),
    (larger("x", ONE, TWO).holds, False),
    (larger("x", Measured(0.2, None), Measured(0.1, None)).holds, None),
    (larger("x", None, ONE).holds, None),
    (smaller(Measured(0.2, 0.01), Measured(0.3, 0.01)), True),
    *((relevant("x", Measured(*found), 0.01).holds, holds) for *found, holds in (
        (0.02, 0.005, 4, True),
        (0.005, 0.003, 4, False),  # beyond chance, and still not worth having
        (0.02, 0.015, 4, None), (0.5, 0.001, FEWEST_PAIRS - 1, None), (0.5, 0.001, FEWEST_PAIRS, True))),
    (FIVE.above(2.0), True),
    (FIVE.below(2.0), False),
    (FIVE._replace(pairs=FEWEST_PAIRS - 1).above(2.0), None),
    *((more_than_half(values), holds) for values, holds in (
        ([], None), ([True, True, True, None], True), ([True, True, None, False], None),
        ([True, False, False, None], False), ([True, True, False, False], False))),
    *((mostly([True, *left], Ratio(log(over_all), 0.0, 3)), holds) for left, over_all, holds in (
        ([True, None], 2.0, True), ([None, None], 0.8, True), ([None, None], 1.2, False))),
]  # fmt: skip


@every_case(("found", "holds"), DECIDED)
def test_a_rule_decides_only_what_its_noise_leaves_no_doubt_about(found, holds):
    assert found is holds


def test_means_and_ratios_are_of_pairs_alone_with_two_standard_errors():
    one, other = [2.0, 8.0, 2.0, 8.0, 99.0], [1.0, 2.0, 1.0, 2.0]
    table = pl.DataFrame({"who": ["a"] * 5 + ["b"] * 4, "pair": [*range(5), *range(4)], "x": one + other})
    found = ratio(table, "x", by="pair", one={"who": "a"}, other={"who": "b"})
    assert (found.pairs, found.log) == (4, pytest.approx(log(8.0) / 2))
    assert found.noise == pytest.approx(log(2.0) / sqrt(3.0))
    assert ratio(table, "x", by="pair", one={"who": "a"}, other={"who": "c"}) is None
    assert measured(table.filter(who="b"), "x", pair=0) == Measured(1.0, None)
    assert measured(table, "x", who="b").noise == pytest.approx(2 * sqrt(1 / 3) / 2)
    between = Measured.between({0: 0.1, 1: 0.5, 7: 3.0}, {0: 0.11, 1: 0.51, 8: 0.0})
    assert between == pytest.approx((-0.01, 0.0, 2), abs=1e-12)
    two = Ratio.over_all([({0: 1.0, 1: 4.0, 2: 9.0}, {0: 1.0, 1: 1.0}), ({0: 4.0, 1: 1.0}, {0: 1.0, 1: 1.0, 5: 1.0})])
    assert two == pytest.approx((log(2.0), 0.0, 2))


def test_a_gap_counts_beyond_the_noise_of_two_counts():
    row = {"n": 400, "n_test": 100, "train_error": 0.3, "test_error": 0.42}
    assert gap(row) == pytest.approx(0.12)
    assert noise_of(row) == pytest.approx(2 * sqrt(0.3 * 0.7 / 400 + 0.42 * 0.58 / 100))


def test_a_point_follows_its_claims_and_a_missing_number_silences_it():
    claims = [Claim("a: it holds", True, "x"), Claim("b: it holds", None, "x", "8 seeds"), Claim("c: no", False, "x")]
    assert [point(claims, words, "said").holds for words in ("a: it", "it holds", ("a:", "c:"))] == [True, None, False]
    assert point(claims, "it holds", "said").settled_by == "8 seeds"
    assert say("{one:.2f}", one=1.0) == "1.00"
    assert say("{one:.2f}", one=None) == ""
    made = judging(claims=lambda table, scale: claims, notes=lambda table, scale: (),
                   settled_by=lambda table, scale, claim: f"{claim.settled_by}!")  # fmt: skip
    settled = [one.get("settled_by") for one in made(pl.DataFrame(), "cpu").to_dict()["claims"]]
    assert settled == [None, "8 seeds!", None]
