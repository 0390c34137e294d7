"""Every certificate rests on what the table says, and nobody's silence makes one rigorous."""

import pytest
from cells import refused

from bounds import WorstCaseSum, declared, maurer, unproved
from bounds.hypotheses import NEEDS, NOBODY, OF_THE_INPUTS, standing


@pytest.mark.parametrize(("formula", "prefix"), NEEDS)
@pytest.mark.every_case
def test_what_is_not_given_is_unproved_and_what_is_not_needed_is_refused(formula, prefix):
    names = NEEDS[formula, prefix]
    one = declared(names[0], "a test")
    made = standing(formula, prefix, [one])
    assert [each.name for each in made] == list(names)
    assert made[0] == one
    assert {(each.standing, each.by) for each in made[1:]} <= {("unproved", NOBODY)}
    refused(
        r"must be among the hypotheses that .* needs, got 'averages exact'",
        standing,
        formula,
        prefix,
        [declared("averages exact", "a test")],
    )


def test_a_formula_or_a_price_without_an_entry_is_refused():
    for formula, prefix in (("theorem", ""), ("ece_hoeffding", "dp_"), ("maurer", "free_")):
        refused(f"got '{formula}'; add it there", standing, formula, prefix)


def test_a_certificate_rests_on_what_it_needs_and_on_how_its_inputs_were_made():
    made = maurer(risk=0.1, kl_nats=1.0, n=100, failure_prob=0.05)
    assert tuple(one.name for one in made.hypotheses) == NEEDS["maurer", ""]
    for name in ("predictor saw none of these rows", "noise secret or independent", "learner saw picked records alone"):
        refused(f"needs, got '{name}'; leave it out", made.resting_on, declared(name, "a test"))
        assert made.resting_on(unproved(name, "a test")).status == "optimistic"
    refused(
        "that WorstCaseSum needs, got 'norms of all records kept'",
        WorstCaseSum,
        mu=0.1,
        hypotheses=[declared("norms of all records kept", "a test")],
    )
    for name in OF_THE_INPUTS:
        assert made.resting_on(declared(name, "a test")).hypothesis(name).by == "a test"
