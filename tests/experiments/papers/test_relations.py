"""The rules that decide sentences: beyond two standard errors, by a margin that matters, over pairs of runs."""

from math import log, sqrt

import polars as pl

from experiments.claims import (
    Below,
    Every,
    Measured,
    Most,
    Sentence,
    Shown,
    cell,
    count_noise,
    exactly,
    judge,
    least_risk,
    ratio,
    within,
)
from tests.marks import every_case, near, refusal

A, B, C = (cell("x", who=name) for name in "abc")
SHARES = [cell("x", who=name, examples="n") for name in "ab"]
SURE = [exactly("x", who=name) for name in "abc"]
YES, NO, OPEN = (lambda table, found=found: found for found in (True, False, None))


def table(n=100, **values):
    """A row a seed of each name; seeds of a mapping are its keys."""
    rows = [
        {"who": who, "seed": seed, "x": float(x), "n": n}
        for who, found in values.items()
        for seed, x in (found.items() if isinstance(found, dict) else enumerate(found))
    ]
    return pl.DataFrame(rows, schema={"who": pl.String, "seed": pl.Int64, "x": pl.Float64, "n": pl.Int64})


FAR, NEAR = ({"a": [0.10, 0.11, 0.12], "b": [0.20, 0.21, 0.22]}, {"a": [0.1, 0.2, 0.3], "b": [0.3, 0.1, 0.21]})
PAIRS = {"a": [1.0, 2.0, 3.0], "b": [1.10, 2.11, 3.12]}
APART = {"a": PAIRS["a"], "b": dict(enumerate(PAIRS["b"], 7))}
DOUBLE = {"a": [2.0, 4.0, 8.0], "b": [1.0, 2.1, 3.9]}
DECIDED = [
    (Below(A, B), FAR, True),
    (Below(B, A), FAR, False),
    (Below(A, B), NEAR, None),
    (Below(A, B), PAIRS, True),  # by the differences of seeds that both have
    (Below(A, B), APART, None),
    (Below(A, B), {"a": [1.0, 2.0], "b": [1.1, 2.1]}, None),  # two pairs are too few
    (Below(A, B), {"a": [0.1], "b": [0.9]}, None),  # nothing is known of the noise of one seed
    (Below(*SURE[:2]), {"a": [0.1], "b": [0.1001]}, True),
    (Below(*SURE[:2]), {"a": [0.1], "b": [0.1]}, None),
    (Below(0.4, A), FAR, False),
    (Below(*SHARES), {"a": [0.1], "b": [0.3]}, True),  # counts on 100 examples
    (Below(*SHARES), {"a": [0.15], "b": [0.2]}, None),
    (Below(*SURE[:2], share=0.1), {"a": [0.85], "b": [1.0]}, True),
    (Below(A, B, share=0.1), {"a": [1.0, 1.01, 1.02], "b": [1.05, 1.06, 1.07]}, False),  # not by enough
    (Below(*SURE[:2], margin=0.1), {"a": [0.95], "b": [1.0]}, False),
    (within(A, B, 0.2), PAIRS, True),
    (within(A, B, 0.05), PAIRS, False),
    (within(A, B, 0.11), PAIRS, None),
    (Below(1.5, ratio(A, B)), DOUBLE, True),
    *((every(relations), {}, holds) for every, relations, holds in (
        (Every, [YES, YES], True), (Every, [YES, OPEN], None), (Every, [OPEN, NO], False), (Every, [], None),
        (Most, [], None), (Most, [YES, YES, YES, OPEN], True), (Most, [YES, YES, OPEN, NO], None),
        (Most, [YES, YES, NO, NO], False))),
]  # fmt: skip


@every_case(("relation", "values", "holds"), DECIDED)
def test_a_rule_decides_only_what_its_noise_leaves_no_doubt_about(relation, values, holds):
    assert relation(table(**values)) is holds
    assert relation(table()) in (holds if not values else None, None), "an empty table decides nothing"


def test_means_and_noise_are_those_by_hand():
    found = A(table(a=[1.0, 2.0, 3.0]))
    assert (found.mean, found.noise) == (2.0, near(4.3027 / sqrt(3.0), rel=1e-4)), "Student's, of 2 degrees"
    one = SHARES[0](table(a=[0.2], n=400))
    share = (0.2 * 400 + 2) / 404
    assert one.noise == near(count_noise((0.2, 400))) == near(2 * sqrt(share * (1 - share) / 400))
    assert count_noise((0.0, 100)) > 0.02, "no error of 100 is no risk of 0"
    two = SHARES[0](table(a=[0.2, 0.4], n=400))
    assert two.noise == near(sqrt((12.7062 * 0.1) ** 2 + count_noise((0.3, 400)) ** 2), rel=1e-4)
    pairs = {who: part(table(**PAIRS)) for who, part in (("a", A), ("b", B))}
    assert pairs["b"].gap(pairs["a"]) == near((0.11, 4.3027 * 0.01 / sqrt(3.0)), rel=1e-4)
    same = {who: part(table(a=[0.5] * 3, b=[0.6] * 3, n=10)) for who, part in zip("ab", SHARES, strict=True)}
    assert same["b"].gap(same["a"])[1] > 0.1, "three seeds on ten examples differ by one of them"
    plain, logs = (A(table(a=[0.008, 0.012, 0.011])), Measured({9: 0.0105, 8: 0.011, 7: 0.0102}, log=True))
    assert 0.4 < plain.gap(logs)[1] < 0.7, "one scale for both"
    assert least_risk(0.1, 1000) == near(0.0784, abs=1e-3)


def test_ratios_are_geometric_means_of_shared_repetitions_as_logarithms():
    values = table(a={0: 2.0, 1: 8.0, 2: 2.0, 3: 8.0, 4: 99.0}, b={0: 1.0, 1: 2.0, 2: 1.0, 3: 2.0})
    found = ratio(A, B)(values)
    assert (len(found.values), found.mean) == (4, near(sqrt(8.0)))
    assert found.noise == near(3.1824 / 2.0 * log(2.0) / sqrt(3.0), rel=1e-4)
    several = ratio([A, B], [C, C])(table(a=[1.0, 4.0, 9.0], b=[4.0, 1.0], c=[1.0, 1.0, 1.0]))
    assert several.values == near({0: 2.0, 1: 2.0})
    assert ratio(A, B)(table(a={0: 1.0}, b={1: 1.0})) is None


def test_two_rows_of_one_seed_are_refused_and_repetitions_may_have_another_name():
    both = table(a=[1.0, 2.0]).with_columns(seed=pl.lit(0), who=pl.lit("a"), pair=pl.Series([4, 5]))
    with refusal("several rows have one seed where .*name what tells them apart"):
        A(both)
    assert cell("x", by="pair")(both).values == {4: 1.0, 5: 2.0}
    assert cell("y")(both) is None, "a column that is not there"


def test_a_sentence_whose_numbers_are_missing_says_so_and_certificates_are_rounded_up():
    one = Sentence(place="1", printed="x", ours="It is {a:up}, {a}, {r:.1f}.", holds=Below(A, B),
                   evidence={"a": SURE[0], "r": ratio(A, B)})  # fmt: skip
    seen = judge(one, table(a=[0.022434, 0.022434, 0.022434], b=[0.17, 0.2, 0.2]))
    assert (seen.holds, seen.said) == (True, "It is 0.0225, 0.0224, 0.1.")
    assert seen.evidence.startswith("a 0.02243 (s.d. 0, 3 seeds); r 0.118 (")
    assert judge(one, table(a=[0.1]))[1:] == (None, "Runs are missing.", "a 0.1")
    assert f"{Shown(0.0301):up2}" == "0.031"
